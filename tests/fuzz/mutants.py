"""Mutants of generated C, kernels and plans: one small change, which `dory run` has to find."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from dory_core.errors import DoryError
from tests.fuzz import plan_mutants
from tests.fuzz.applications import (
    COUNT,
    Application,
    application,
    built,
    changed,
    differs,
    passes,
    printed_files,
    same_objects,
)
from tests.fuzz.cases import Case, Verdict

#: Where a mutant is made: where buffers begin in L1, the code of layers and network, their
#: kernels, or the plan before it is printed.
SUBJECTS = {
    "buffers": ("src/*_layer*.c",),
    "code": ("src/*.c",),
    "kernels": ("kernels/*.h", "kernels/*.c"),
    "plans": (),
}
# What making operations of a plan raises that makes no sense.
NO_PLAN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
_LONGEST_STATEMENT = 6  # lines
_MEMORY = "address,undefined"

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
        if code.lstrip().startswith("#") or not code.strip():
            continue
        if _STATEMENT.match(code.rstrip()) and not _DECLARATION.match(code):
            yield Mutation(path, number, line, ";")
        for match in _TOKEN.finditer(code):
            for new in _others(match.group()):
                changed = line[: match.start()] + new + line[match.end() :]
                yield Mutation(path, number, line, changed)


_BUFFER = re.compile(r"(?<=[ (]L1_)(Y|SCRATCH|PSUM|X|X2|W) = (\d+)\b")
_WRITTEN = ("Y", "SCRATCH", "PSUM")


def moved_buffers(path: str, text: str) -> Iterator[Mutation]:
    """Yield buffers that a kernel writes and that begin where another does, or shortly before."""
    lines = list(enumerate(text.splitlines(), start=1))
    found = [(n, line, match) for n, line in lines for match in _BUFFER.finditer(line)]
    starts = {int(match[2]) for _, _, match in found}
    for number, line, match in found:
        if match[1] not in _WRITTEN:
            continue
        for start in sorted({at - back for at in starts for back in (0, 4, 16) if at >= back}):
            if start != int(match[2]):
                new = f"{line[: match.start(2)]}{start}{line[match.end(2) :]}"
                yield Mutation(path, number, line, new)


def _others(token: str) -> tuple[str, ...]:
    if token in _OPERATORS:
        return _OPERATORS[token]
    value = int(token)
    return (str(value + 1), str(value - 1)) if value else ("1",)


def chosen_mutation(case: Case) -> tuple[Application, Mutation] | None:
    """Return what a case changes, and where; None where there is nothing."""
    app = application(case.seed % COUNT)
    if app is None:
        return None
    draw = case.draw
    files = sorted(p for pattern in SUBJECTS[case.subject] for p in app.directory.glob(pattern))
    found: list[Mutation] = []
    while files and not found:
        path = files.pop(draw.randrange(len(files)))
        changes = moved_buffers if case.subject == "buffers" else mutations
        found = list(changes(path.relative_to(app.directory).as_posix(), path.read_text()))
    return (app, draw.choice(found)) if found else None


def _mutated(app: Application, mutation: Mutation) -> str:
    """Return the file of a mutation with its change."""
    lines = (app.directory / mutation.path).read_text().splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.new + "\n"
    return "".join(lines)


def changed_files(case: Case) -> tuple[Application, dict[str, str], dict[str, str]]:
    """Return what a case changes: the application, its files before, and those that are others.

    Of plans no layers share a function. Raises LookupError where nothing is changed.
    """
    if case.subject != "plans":
        app, mutation = chosen_mutation(case) or _nothing(case)
        text = (app.directory / mutation.path).read_text()
        return app, {mutation.path: text}, {mutation.path: _mutated(app, mutation)}
    planned = application(case.seed % COUNT)
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


def check_mutant(case: Case, folder: Path) -> Verdict:
    """Run one mutant as `dory run` does; those that it does not find, with sanitizers as well."""
    if case.subject == "plans":
        return _check_plan(case)
    chosen = chosen_mutation(case)
    if chosen is None:
        return Verdict(case, "nothing to change")
    app, mutation = chosen
    content = {mutation.path: _mutated(app, mutation)}
    verdict = _run(case, app, content, str(mutation))
    if verdict.outcome != "survives":
        return verdict
    if not _is_reached(app, mutation):
        return replace(verdict, outcome="not executed")
    if case.subject == "kernels" and _is_found_elsewhere(case.seed % COUNT, content):
        return replace(verdict, outcome="found in another network")
    sanitizer = _found_by_sanitizer(app, content, case.subject, str(mutation))
    return replace(verdict, outcome=f"found by {sanitizer}") if sanitizer else verdict


def _is_found_elsewhere(number: int, contents: Mapping[str, str]) -> bool:
    """Return whether another network finds a mutant of a kernel that it has, too."""
    own = application(number)
    assert own is not None
    [path] = contents
    before = (own.directory / path).read_text()
    for other in range(number + 1, number + COUNT):
        app = application(other % COUNT)
        if app is None or not (app.directory / path).is_file():
            continue
        if (app.directory / path).read_text() == before:
            with changed(app, contents):
                program = built(app)
                if program is not None and not passes(program, app):
                    return True
    return False


def _check_plan(case: Case) -> Verdict:
    """Change a plan; print and run what its verifier does not find."""
    app = application(case.seed % COUNT)
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
    contents = {
        path: content for path, content in printed.items() if content != app.printed.get(path)
    }
    if not contents:
        return Verdict(case, "same program", text)
    verdict = _run(case, app, contents, what)
    if verdict.outcome == "survives":
        sanitizer = _found_by_sanitizer(app, contents, case.subject, what)
        return replace(verdict, outcome=f"found by {sanitizer}") if sanitizer else verdict
    return verdict


def _run(case: Case, app: Application, contents: Mapping[str, str], what: str) -> Verdict:
    """Run an application with other files, without sanitizers."""
    text = f"{what} ({app.way})"
    with changed(app, contents):
        program = built(app)
        if program is None:
            return Verdict(case, "does not compile", text)
        if program.read_bytes() == app.program:
            return Verdict(case, "same program", text)
        if not passes(program, app):
            return Verdict(case, "found", text)
    before = {path: _text(app.directory / path) for path in contents}
    if same_objects(app, before, contents):
        return Verdict(case, "same program", text)
    with changed(app, contents):
        return Verdict(case, "found" if differs(app) else "survives", text)


def _text(path: Path) -> str:
    """Return a file's text, empty for one that a mutant alone has, which needs no other."""
    return path.read_text() if path.is_file() else ""


def _found_by_sanitizer(
    app: Application, contents: Mapping[str, str], subject: str, what: str
) -> str:
    """Return the sanitizer that finds a mutant, empty for none.

    Threads matter where the order of cores is in question, or which of them computes what.
    """
    ordered = subject == "kernels" or re.search("barrier|wait|core|Wait|Barrier|After|after", what)
    with changed(app, contents):
        for sanitizer in (*(["thread"] * bool(app.plan.cores > 1 and ordered)), _MEMORY):
            if differs(app, sanitizer):
                return sanitizer
    return ""


def _is_reached(app: Application, mutation: Mutation) -> bool:
    """Return whether a program that ends at the line of a mutant ends there; True: nobody knows."""
    lines = (app.directory / mutation.path).read_text().splitlines(keepends=True)
    first = mutation.line - 1
    for number in range(first, max(first - _LONGEST_STATEMENT, -1), -1):
        trapped = [*lines[:number], f"__builtin_trap(); {lines[number]}", *lines[number + 1 :]]
        with changed(app, {mutation.path: "".join(trapped)}):
            program = built(app)
            if program is not None:  # not in the middle of a statement
                return not passes(program, app)
    return True
