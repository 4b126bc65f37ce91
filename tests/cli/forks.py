"""Commands in processes that a server forks, which need not import the core again.

A command is a process with arguments, environment, folder and streams of its own, and finds its
plugins itself. Tests of how dory is loaded start Python instead.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 300
#: What Python and its libraries read once, when they are loaded.
_READ_ONCE = ("PYTHON", "LC_", "LANG", "OPENBLAS_")
_NOT_OF_COMMANDS = ("dory_core.__main__", "dory_core.testing")


def run(arguments: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Path) -> int:
    """Run ``dory`` with the given arguments and return its status, negative for a signal.

    streams: folder in which the files ``stdout`` and ``stderr`` are written.
    """
    once = {name: value for name, value in env.items() if name.startswith(_READ_ONCE)}
    server = _server(tuple(sorted(once.items())))
    request = [list(arguments), dict(env), os.fspath(cwd), os.fspath(streams)]
    print(json.dumps(request), file=server.stdin, flush=True)
    assert server.stdout is not None
    return int(server.stdout.readline())


@cache
def _server(variables: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """Return a server with the given variables in its environment; it ends with this process."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **dict(variables)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _import_the_core() -> None:
    """Import all modules of the core and what its command line imports when it is used."""
    dory_core = importlib.import_module("dory_core")
    for module in pkgutil.walk_packages(dory_core.__path__, "dory_core."):
        if not module.name.startswith(_NOT_OF_COMMANDS):
            importlib.import_module(module.name)
    importlib.import_module("pydantic.type_adapter")  # Typer's, of options with types


def _serve() -> list[Any] | None:
    """Answer each request with the status of a process, in which the request is returned.

    Returns None at the end of the requests.
    """
    answers = os.fdopen(os.dup(1), "w")
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, file=answers, flush=True)
    return None


def _main() -> None:
    _import_the_core()
    request = _serve()
    if request is None:
        return
    arguments, env, cwd, streams = request
    signal.alarm(LONGEST_S)
    for number, name in enumerate((os.devnull, f"{streams}/stdout", f"{streams}/stderr")):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["dory", *arguments]
    sys.path[0] = cwd
    importlib.import_module("dory_core.cli.main").main()


if __name__ == "__main__":
    _main()
