"""Building applications of the campaign with few calls of the compiler.

The files of a network, and the main program, which depends on it, are one unit that includes them
all; kernels and the simulation are objects of the cache, which networks share.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from dory_core.errors import DoryError
from dory_core.simulate.build import (
    FLAGS,
    INCLUDE_FOLDERS,
    MARKS_FOLDER,
    SEEN_COPIES,
    Recipe,
    build,
    build_program,
)
from dory_core.simulate.compiler import (
    Compiler,
    find_compiler,
    probe_sanitizer,
    sanitizer_names,
)

# Addresses in L1, which each layer names alike, and what only its file sees.
_OWN = re.compile(r"^  (L\d_\w+) = |^static \w[\w *]*[ *](\w+)(?:\(|\[)", re.MULTILINE)
_MAIN = "hal/host/main_host.c"
_UNIT = "src/unit"
_SIMULATION = "hal/quick"
_FOLDERS = (_UNIT, "kernels", "kernels/external", _SIMULATION)


def _recipe(sanitizers: tuple[str, ...], level: str) -> Recipe:
    flags = (level, *FLAGS)
    if sanitizers:
        names = ",".join(sanitizers)
        flags += (f"-fsanitize={names}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    if "thread" in sanitizers:
        flags += SEEN_COPIES
    variant = "-".join((f"quick{level}", *sanitizers))
    return Recipe(variant, "app", _FOLDERS, INCLUDE_FOLDERS, flags, ("-lpthread",))


def quick_build(
    app: Path, sanitize: str | None = None, compiler: Compiler | None = None, level: str = "-O1"
) -> Path:
    """Build an application as :func:`dory_core.simulate.build.build` does, in less time.

    level: of the compiler. Runs are so short that what "-O1" costs is never spared in them.
    """
    compiler = compiler or find_compiler()
    if sanitize is not None:
        probe_sanitizer(compiler, sanitize)
    sanitizers = () if sanitize is None else sanitizer_names(sanitize)
    sources = [*map(_marked, sorted(app.glob("src/*.c"))), *sorted(app.glob("weights/*.c"))]
    sources.append(app / _MAIN)
    (app / _UNIT).mkdir(exist_ok=True)
    unit = "".join(_included(n, source, app) for n, source in enumerate(sources))
    (app / _UNIT / "all.c").write_text(unit, encoding="ascii")
    links = app / _SIMULATION
    if not links.exists():
        links.mkdir()
        for source in app.glob("hal/host/*.c"):
            if source.name != Path(_MAIN).name:
                os.symlink(source, links / source.name)
    try:
        return build_program(app, _recipe(sanitizers, level), compiler)
    except DoryError:  # files that are right, but not in one unit
        return build(app, sanitize, compiler)


def _marked(source: Path) -> Path:
    """Return the file with marks that includes a source; the source where there is none."""
    marked = source.parent.parent / MARKS_FOLDER / source.name
    return marked if marked.exists() else source


def _included(number: int, source: Path, app: Path) -> str:
    """Return the lines that include a file, whose own names get a number."""
    files = dict.fromkeys((source, app / "src" / source.name))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.exists())
    names = sorted({match.group(match.lastindex or 0) for match in _OWN.finditer(text)})
    before = "".join(f"#define {name} {name}_{number}\n" for name in names)
    after = "".join(f"#undef {name}\n" for name in names)
    return f'{before}#include "../../{source.relative_to(app).as_posix()}"\n{after}'


@contextmanager
def quick_runs(timeout_s: float = 600.0, level: str = "-O1") -> Iterator[None]:
    """Have runs on the host simulation build their applications quickly, and end in time."""
    run = "dory_core.simulate.run"
    with (
        patch(f"{run}.build", partial(quick_build, level=level)),
        patch(f"{run}._TIMEOUT_S", timeout_s),
    ):
        yield
