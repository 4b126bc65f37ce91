"""Mutants of generated C, kernels and plans: one small change, which `dory run` has to find."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NoReturn

from dory_core.application import run_application
from dory_core.codegen.application import application_files
from dory_core.errors import DoryError, ToolMissing
from dory_core.plan import Plan
from dory_core.simulate.build import FLAGS, INCLUDE_FOLDERS
from dory_core.simulate.compiler import find_compiler
from tests.fuzz import plan_mutants, survivors
from tests.fuzz.cases import Case, Verdict, plugins
from tests.fuzz.kernel_tests import is_found_by_tests
from tests.fuzz.networks import FORMATS, compiled, drawn
from tests.fuzz.quick import quick_build, quick_runs
from tests.fuzz.survivors import Reason

#: Where a mutant is made: the code of layers and network, their kernels, or the plan before it is
#: printed.
SUBJECTS = {"code": ("src/*.c",), "kernels": ("kernels/*.h", "kernels/*.c"), "plans": ()}
_APPLICATIONS = 48
_TIMEOUT_S = 10.0
# What making operations of a plan raises that makes no sense.
NO_PLAN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
_LONGEST_STATEMENT = 6  # lines

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
    """A correct application, its program, what is printed of its plan; keeper: of its folder."""

    directory: Path
    program: bytes
    way: str
    plan: Plan
    printed: dict[str, str]
    keeper: object


@cache
def _application(number: int) -> _Application | None:
    """Return one of the applications that are mutated; None where it is refused."""
    keeper = tempfile.TemporaryDirectory(prefix="dory-fuzz-")
    folder = Path(keeper.name)
    case = Case("mutant", sorted(FORMATS)[number % len(FORMATS)], number)
    try:
        network = drawn(case, folder)
        result, chosen = compiled(network, random.Random(number), folder)
        program = quick_build(folder / "app").read_bytes()
    except DoryError:
        return None
    plan, printed = result.plan, printed_files(result.plan)
    return _Application(folder / "app", program, f"{case} {chosen}", plan, printed, keeper)


def printed_files(plan: Plan) -> dict[str, str]:
    """Return the code that is printed of a plan, by its path."""
    files = application_files((), plan)
    return {
        file.path: str(file.content)
        for file in files
        if file.path.startswith(("src/", "weights/")) or file.path == "inc/network.h"
    }


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


def _before(app: _Application, changed: Mapping[str, str]) -> dict[str, str]:
    """Return what the files were; one is empty that only the mutant has, which needs no other."""
    paths = {path: app.directory / path for path in changed}
    return {name: path.read_text() if path.is_file() else "" for name, path in paths.items()}


def _restore(app: _Application, before: Mapping[str, str]) -> None:
    for path, content in before.items():
        if content:
            (app.directory / path).write_text(content)
        else:
            (app.directory / path).unlink(missing_ok=True)


def changed_files(case: Case) -> tuple[_Application, dict[str, str], dict[str, str]]:
    """Return what a case changes: the application, its files before, and those that are others.

    Of plans no layers share a function. Raises LookupError where nothing is changed.
    """
    if case.subject != "plans":
        app, mutation = chosen_mutation(case) or _nothing(case)
        text = (app.directory / mutation.path).read_text()
        lines = text.splitlines(keepends=True)
        lines[mutation.line - 1] = mutation.new + "\n"
        return app, {mutation.path: text}, {mutation.path: "".join(lines)}
    planned = _application(case.seed % _APPLICATIONS)
    if planned is None:
        _nothing(case)
    try:
        made = plan_mutants.mutants(planned.plan, case.draw)[1]()
        old, new = (printed_files(plan_mutants.unshared(p)) for p in (planned.plan, made))
    except NO_PLAN as error:
        raise LookupError(f"{case} is no plan") from error
    return planned, old, {path: text for path, text in new.items() if text != old[path]}


def _nothing(case: Case) -> NoReturn:
    raise LookupError(f"{case}: nothing to change")


def explained(case: Case) -> Reason:
    """Return why a mutant survives; raises LookupError where it changes nothing."""
    app, whole, after = changed_files(case)
    before = {path: whole[path] for path in after}
    kept = _before(app, whole)

    def found(contents: Mapping[str, str], sanitize: str | None = None) -> bool | None:
        try:
            for path, content in {**whole, **contents}.items():
                (app.directory / path).write_text(content)
            try:
                program = quick_build(app.directory)
            except DoryError:
                return None
            return not _passes(program, app.directory) or _differs(app.directory, sanitize)
        finally:
            _restore(app, kept)

    if found(after):
        return Reason(survivors.LATER, app.way)
    barriers = any("barrier" in one.old for one in survivors.changes(before, after))
    if barriers and found(after, "thread"):
        return Reason(survivors.LATER, f"ThreadSanitizer, {app.way}")
    if case.subject == "kernels":
        [(path, content)] = after.items()
        test = is_found_by_tests(path, before[path], content)
        if test:
            return Reason(survivors.TESTS, f"random tiles of {test}")
        return survivors.explain_kernel(before[path], content, path, found)
    else:
        with tempfile.TemporaryDirectory(prefix="dory-fuzz-") as name:
            chips = [
                {path: survivors.without_marks(text) for path, text in contents.items()}
                for contents in (before, after)
            ]
            try:
                for path, text in whole.items():
                    (app.directory / path).write_text(text)
                same = _same_objects(app.directory, *chips, Path(name))
            finally:
                _restore(app, kept)
        if same:
            return Reason(survivors.MARKS, "one object of both without the marks")
    sources = {path: text for path, text in whole.items() if path.startswith("src/")}
    if case.subject != "plans":
        sources = {p.name: p.read_text() for p in sorted(app.directory.glob("src/*.c"))}
    return survivors.explain(before, after, found, sources)


def check_mutant(case: Case, folder: Path) -> Verdict:
    """Run one mutant as `dory run` does; those that it does not find, with sanitizers as well."""
    if case.subject == "plans":
        return _check_plan(case, folder)
    chosen = chosen_mutation(case)
    if chosen is None:
        return Verdict(case, "nothing to change")
    app, mutation = chosen
    lines = (app.directory / mutation.path).read_text().splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.new + "\n"
    verdict = _run(case, app, {mutation.path: "".join(lines)}, folder, str(mutation))
    if verdict.outcome == "survives" and not _is_reached(app, mutation):
        return replace(verdict, outcome="not executed")
    if verdict.outcome != "survives" or case.subject != "kernels":
        return verdict
    found = _is_found_elsewhere(case.seed % _APPLICATIONS, mutation, "".join(lines))
    return replace(verdict, outcome="found in another network") if found else verdict


def _is_found_elsewhere(number: int, mutation: Mutation, content: str) -> bool:
    """Return whether another network finds a mutant of a kernel that it has, too."""
    own = _application(number)
    assert own is not None
    before = (own.directory / mutation.path).read_text()
    for other in range(number + 1, number + _APPLICATIONS):
        app = _application(other % _APPLICATIONS)
        path = app.directory / mutation.path if app is not None else None
        if app is None or path is None or not path.is_file() or path.read_text() != before:
            continue
        path.write_text(content)
        try:
            if not _passes(quick_build(app.directory), app.directory):
                return True
        except DoryError:
            continue
        finally:
            path.write_text(before)
    return False


def _check_plan(case: Case, folder: Path) -> Verdict:
    """Change a plan; print and run what its verifier does not find."""
    app = _application(case.seed % _APPLICATIONS)
    if app is None:
        return Verdict(case, "nothing to change")
    what, make = plan_mutants.mutants(app.plan, case.draw)
    text = f"{what} ({app.way})"
    try:
        plan = make()
        plan_mutants.verify(plan)
    except DoryError as error:
        return Verdict(case, "found by the verifier", f"{error.message}: {text}")
    except NO_PLAN as error:
        return Verdict(case, "is no plan", f"{type(error).__name__}: {text}")
    try:
        printed = printed_files(plan)
    except (*NO_PLAN, DoryError) as error:
        return Verdict(case, "is no plan", f"{type(error).__name__}: {text}")
    changed = {
        path: content for path, content in printed.items() if content != app.printed.get(path)
    }
    if not changed:
        return Verdict(case, "same program", text)
    return _run(case, app, changed, folder, what)


def _run(
    case: Case, app: _Application, changed: dict[str, str], folder: Path, what: str
) -> Verdict:
    """Run an application with other files."""
    text = f"{what} ({app.way})"
    before = _before(app, changed)
    try:
        for path, content in changed.items():
            (app.directory / path).write_text(content)
        try:
            program = quick_build(app.directory)
        except DoryError:
            return Verdict(case, "does not compile", text)
        if program.read_bytes() == app.program:
            return Verdict(case, "same program", text)
        if not _passes(program, app.directory) or _differs(app.directory, None):
            return Verdict(case, "found", text)
        if _same_objects(app.directory, before, changed, folder):
            return Verdict(case, "same program", text)
        for sanitizer in _sanitizers(what, app):
            if _differs(app.directory, sanitizer):
                return Verdict(case, f"found by {sanitizer}", text)
        return Verdict(case, "survives", text)
    finally:
        _restore(app, before)


def _same_objects(app: Path, before: dict[str, str], changed: dict[str, str], folder: Path) -> bool:
    """Return whether an optimising compiler makes the same of both, and so they are equivalent."""

    def objects(contents: dict[str, str]) -> Iterator[bytes]:
        for path, content in contents.items():
            (app / path).write_text(content)
        paths = list(contents)
        headers = [path.rsplit("/", 1)[1] for path in paths if path.startswith("kernels/dory_")]
        if headers and headers[0].endswith(".h"):
            found = (p for p in sorted(app.glob("kernels/*.c")) if _reaches(p, headers[0]))
            paths = [p.relative_to(app).as_posix() for p in found]
        for path in paths:
            output = folder / "one.o"
            command = [*find_compiler().command, "-O3", *FLAGS, "-c", path, "-o", str(output)]
            command += [f"-I{name}" for name in INCLUDE_FOLDERS]
            done = subprocess.run([*command, "-w"], cwd=app, capture_output=True)
            # What does not compile is equal to nothing but itself.
            yield output.read_bytes() if done.returncode == 0 else (app / path).read_bytes()

    return list(objects(before)) == list(objects(changed))


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


def _sanitizers(what: str, app: _Application) -> Iterator[str]:
    """Yield those that may see what changed: threads where the order of cores is in question."""
    if app.plan.cores > 1 and re.search("barrier|wait|core|Wait|Barrier|After|after", what):
        yield "thread"
    yield "address,undefined"


def _passes(program: Path, app: Path) -> bool:
    """Return whether a program ends well by its own comparison, which takes less than all."""
    try:
        done = subprocess.run(
            [program, "--vectors", "vectors", "--dma", "early"],
            cwd=app,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _is_reached(app: _Application, mutation: Mutation) -> bool:
    """Return whether a program that ends at the line of a mutant ends there; True: nobody knows."""
    path = app.directory / mutation.path
    before = path.read_text()
    lines = before.splitlines(keepends=True)
    first = mutation.line - 1
    try:
        for number in range(first, max(first - _LONGEST_STATEMENT, -1), -1):
            changed = [*lines[:number], f"__builtin_trap(); {lines[number]}", *lines[number + 1 :]]
            path.write_text("".join(changed))
            try:
                program = quick_build(app.directory)
            except DoryError:  # the middle of a statement
                continue
            return not _passes(program, app.directory)
        return True
    finally:
        path.write_text(before)


def _differs(directory: Path, sanitize: str | None) -> bool:
    mode = None if sanitize is None else "early"
    try:
        with quick_runs(_TIMEOUT_S):
            result = run_application(
                directory, plugins=plugins(), dma=mode, sanitize=sanitize, runner="host"
            )
    except (DoryError, UnicodeDecodeError) as error:
        return not isinstance(error, ToolMissing)
    return not result.exact
