"""The applications that are mutated, and what finds a mutant: as `dory run`, in less time."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dory_core.codegen.application import application_files
from dory_core.driver import application as runs
from dory_core.driver.application import run_application
from dory_core.errors import DoryError, ToolMissing
from dory_core.golden.extremes import Extremes, find_extremes
from dory_core.golden.vectors import Vector
from dory_core.ir import Graph
from dory_core.plan import Plan
from dory_core.simulate.build import FLAGS, INCLUDE_FOLDERS
from dory_core.simulate.compiler import find_compiler
from dory_core.simulate.request import DMA_MODES
from tests.fuzz.cases import Case, plugins
from tests.fuzz.networks import FORMATS, compiled, drawn
from tests.fuzz.quick import quick_build, quick_runs

#: How many there are.
COUNT = 48
_TIMEOUT_S = 10.0
_LEVEL = "-O0"  # of the compiler: what it costs is more than what programs take


@dataclass(frozen=True, slots=True)
class Application:
    """A correct application, its program, what is printed of its plan; keeper: of its folder."""

    directory: Path
    program: bytes
    way: str
    plan: Plan
    printed: dict[str, str]
    keeper: object


@cache
def application(number: int) -> Application | None:
    """Return one of the applications that are mutated; None where it is refused."""
    keeper = tempfile.TemporaryDirectory(prefix="dory-fuzz-")
    folder = Path(keeper.name)
    case = Case("mutant", sorted(FORMATS)[number % len(FORMATS)], number)
    try:
        network = drawn(case, folder)
        result, chosen = compiled(network, random.Random(number), folder)
        program = quick_build(folder / "app", level=_LEVEL).read_bytes()
    except DoryError:
        return None
    plan, printed = result.plan, printed_files(result.plan)
    return Application(folder / "app", program, f"{case} {chosen}", plan, printed, keeper)


def printed_files(plan: Plan) -> dict[str, str]:
    """Return the code that is printed of a plan, by its path."""
    files = application_files((), plan)
    return {
        file.path: str(file.content) for file in files if file.path.startswith(("src/", "weights/"))
    }


@contextmanager
def changed(app: Application, contents: Mapping[str, str]) -> Iterator[None]:
    """Have other contents of files, some of which only a mutant of a plan has."""
    paths = {app.directory / path: content for path, content in contents.items()}
    before = {path: path.read_text() if path.is_file() else None for path in paths}
    try:
        for path, content in paths.items():
            path.write_text(content)
        yield
    finally:
        for path, old in before.items():
            if old is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(old)


def built(app: Application) -> Path | None:
    """Return the program of the files as they are; None: they do not compile."""
    try:
        return quick_build(app.directory, level=_LEVEL)
    except DoryError:
        return None


def passes(program: Path, app: Application, modes: Iterable[str] = DMA_MODES[:1]) -> bool:
    """Return whether a program ends well by its own comparison, which takes less than all."""
    for mode in modes:
        command = [program, "--vectors", "vectors", "--dma", mode]
        try:
            done = subprocess.run(
                command, cwd=app.directory, capture_output=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode:
            return False
    return True


def differs(app: Application, sanitize: str | None = None) -> bool:
    """Return whether `dory run` finds the files to be wrong."""
    mode = None if sanitize is None else DMA_MODES[0]

    def searched(graph: Graph, searches: int, *, known: list[Vector]) -> Extremes:
        if app.directory not in _EXTREMES:
            _EXTREMES[app.directory] = find_extremes(graph, searches, known=known)
        return _EXTREMES[app.directory]

    try:
        with quick_runs(_TIMEOUT_S, _LEVEL), patch.object(runs, "find_extremes", searched):
            result = run_application(
                app.directory, plugins=plugins(), dma=mode, sanitize=sanitize, runner="host"
            )
    except (DoryError, UnicodeDecodeError) as error:
        return not isinstance(error, ToolMissing)
    return not result.exact


#: Inputs that a search finds for an application, whatever is changed in its code.
_EXTREMES: dict[Path, Extremes] = {}


def same_objects(app: Application, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether an optimising compiler makes the same of both, and so they are equivalent.

    The numbers of lines, which faults of the simulation name, are the same for it.
    """

    def objects(contents: Mapping[str, str], folder: Path) -> Iterator[bytes]:
        paths = list(contents)
        headers = [path.rsplit("/", 1)[1] for path in paths if path.startswith("kernels/dory_")]
        if headers and headers[0].endswith(".h"):
            found = (
                p for p in sorted(app.directory.glob("kernels/*.c")) if _reaches(p, headers[0])
            )
            paths = [p.relative_to(app.directory).as_posix() for p in found]
        for path in paths:
            output = folder / "one.o"
            command = [*find_compiler().command, "-O3", *FLAGS, "-c", path, "-o", str(output)]
            command += [f"-I{name}" for name in INCLUDE_FOLDERS]
            done = subprocess.run(
                [*command, "-w", "-D__LINE__=0"], cwd=app.directory, capture_output=True
            )
            # What does not compile is equal to nothing but itself.
            made = done.returncode == 0
            yield output.read_bytes() if made else (app.directory / path).read_bytes()

    with tempfile.TemporaryDirectory(prefix="dory-fuzz-") as name:
        with changed(app, before):
            one = list(objects(before, Path(name)))
        with changed(app, after):
            return all(a == b for a, b in zip(one, objects(after, Path(name)), strict=True))


def _reaches(source: Path, header: str) -> bool:
    """Return whether a kernel's file includes a header, directly or through others."""
    pending, seen = [source.name], set[str]()
    while pending:
        name = pending.pop()
        path = source.parent / name
        if name in seen or not path.is_file():
            continue
        seen.add(name)
        pending += re.findall(r'#include "([^"]+)"', path.read_text())
    return header in seen
