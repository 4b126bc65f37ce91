"""Mutants of generated C and of kernels: one small change, which `dory run` has to find."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dory_core.application import run_application
from dory_core.errors import DoryError, ToolMissing, VerificationFailed
from dory_core.simulate.build import build
from tests.fuzz.cases import Case, Verdict, plugins
from tests.fuzz.networks import FORMATS, compiled, drawn

#: Where a mutant is made: the code of layers and network, or their kernels.
SUBJECTS = {"code": ("src/*.c",), "kernels": ("kernels/*.h", "kernels/*.c")}
_APPLICATIONS = 24
_SANITIZERS = ("address,undefined", "thread")

_OPERATORS = {
    " < ": (" <= ", " > "),
    " <= ": (" < ",),
    " > ": (" >= ",),
    " >= ": (" > ",),
    " == ": (" != ",),
    " != ": (" == ",),
    " + ": (" - ",),
    " - ": (" + ",),
    " * ": (" + ",),
    " / ": (" * ",),
    " % ": (" / ",),
    " << ": (" >> ",),
    " >> ": (" << ",),
    " && ": (" || ",),
    " || ": (" && ",),
    " & ": (" | ",),
    " | ": (" & ",),
    " += ": (" -= ", " = "),
}
_TOKEN = re.compile("|".join(map(re.escape, _OPERATORS)) + r"|(?<![\w.])\d+(?=u?\b(?!\.))")
_STATEMENT = re.compile(r"\s*(?:[a-z_][\w.>\[\]-]*\(.*\)|[a-z_][\w.>\[\] %+-]* [+|]?= .*);$")
_DECLARATION = re.compile(r"\s*(?:const|static|return|typedef|[a-z]\w*_t\b|int\b|uint)")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one line of a file of an application."""

    path: str
    line: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.old.strip()}' becomes '{self.new.strip()}'"


def mutations(path: str, text: str) -> Iterator[Mutation]:
    """Yield the changes of a text: other numbers and operators, statements left out."""
    comment = False
    for number, line in enumerate(text.splitlines(), start=1):
        code = line
        if comment:
            comment = "*/" not in line
            continue
        if "/*" in code and "*/" not in code.split("/*", 1)[1]:
            comment = True
        code = code.split("/*", 1)[0]
        if code.lstrip().startswith("#") or not code.strip() or "DORY_SIM_" in code:
            continue
        if _STATEMENT.match(code.rstrip()) and not _DECLARATION.match(code):
            yield Mutation(path, number, line, ";")
        for match in _TOKEN.finditer(code):
            for new in _others(match.group()):
                changed = line[: match.start()] + new + line[match.end() :]
                yield Mutation(path, number, line, changed)


def _others(token: str) -> tuple[str, ...]:
    if token in _OPERATORS:
        return _OPERATORS[token]
    value = int(token)
    return (str(value + 1), str(value - 1)) if value else ("1",)


@dataclass(frozen=True, slots=True)
class _Application:
    """A correct application, its program, and what keeps its folder."""

    directory: Path
    program: bytes
    way: str
    keeper: object


@lru_cache(maxsize=4)
def _application(number: int) -> _Application | None:
    """Return one of the applications that are mutated; None where it is refused."""
    keeper = tempfile.TemporaryDirectory(prefix="dory-fuzz-")
    folder = Path(keeper.name)
    case = Case("mutant", sorted(FORMATS)[number % len(FORMATS)], number)
    try:
        network = drawn(case, folder)
        _, chosen = compiled(network, random.Random(number), folder)
        program = build(folder / "app").read_bytes()
    except DoryError:
        return None
    return _Application(folder / "app", program, f"{case} {chosen}", keeper)


def chosen_mutation(case: Case) -> tuple[_Application, Mutation] | None:
    """Return what a case changes, and where; None where there is nothing."""
    app = _application(case.seed % _APPLICATIONS)
    if app is None:
        return None
    draw = case.draw
    files = sorted(p for pattern in SUBJECTS[case.subject] for p in app.directory.glob(pattern))
    found: list[Mutation] = []
    while files and not found:
        path = files.pop(draw.randrange(len(files)))
        found = list(mutations(path.relative_to(app.directory).as_posix(), path.read_text()))
    return (app, draw.choice(found)) if found else None


def check_mutant(case: Case, folder: Path) -> Verdict:
    """Run one mutant as `dory run` does; those that it does not find, with sanitizers as well."""
    chosen = chosen_mutation(case)
    if chosen is None:
        return Verdict(case, "nothing to change")
    app, mutation = chosen
    copy = folder / "app"
    shutil.copytree(app.directory, copy, ignore=shutil.ignore_patterns("build"))
    path = copy / mutation.path
    lines = path.read_text().splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.new + "\n"
    path.write_text("".join(lines))
    text = f"{mutation} ({app.way})"
    try:
        program = build(copy)
    except DoryError:
        return Verdict(case, "does not compile", text)
    if program.read_bytes() == app.program:
        return Verdict(case, "same program", text)
    try:
        if _differs(copy, None):
            return Verdict(case, "found", text)
        for sanitizer in _SANITIZERS:
            if _differs(copy, sanitizer):
                return Verdict(case, f"found by {sanitizer}", text)
    except TimeoutError:
        return Verdict(case, "found: never ends", text)
    executed = _executed(copy, mutation)
    return Verdict(case, "survives" if executed else "not executed", text)


def _executed(directory: Path, mutation: Mutation) -> bool:
    """Return whether the line of a mutant is executed at all, as gcov counts; True without it."""
    flags = ("CFLAGS=-O0 --coverage", "BUILD=build/counted")
    steps = (["make", "-j2", *flags, "build/counted/app"], ["build/counted/app"])
    for command in steps:
        subprocess.run(command, cwd=directory, capture_output=True, check=False)
    objects = [path.relative_to(directory) for path in directory.glob("build/counted/**/*.gcda")]
    if not objects or shutil.which("gcov") is None:
        return True
    listing = subprocess.run(
        ["gcov", "--stdout", *map(str, objects)], cwd=directory, capture_output=True, text=True
    ).stdout
    source, counts = "", []
    for row in listing.splitlines():
        count, _, rest = (part.strip() for part in row.partition(":"))
        number, _, content = rest.partition(":")
        if content.startswith("Source:"):
            source = content.removeprefix("Source:")
        elif source == mutation.path and number.strip() == str(mutation.line):
            counts.append(count.rstrip("*"))
    # "-": no code of its own in this file, "#####": never executed.
    return any(count.isdigit() for count in counts) or "#####" not in counts


def _differs(directory: Path, sanitize: str | None) -> bool:
    mode = None if sanitize is None else "early"
    try:
        result = run_application(
            directory, plugins=plugins(), dma=mode, sanitize=sanitize, runner="host"
        )
    except VerificationFailed:
        return True
    except ToolMissing:
        return False
    return not result.exact
