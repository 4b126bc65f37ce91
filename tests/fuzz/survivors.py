"""Why mutants survive: a reason for each, proven where that is possible.

A reason is a rule on what was changed together with an experiment: the same program is made of
both, or other numbers in the same place are right or wrong. The log of the campaign has the reason
and what the experiment gave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

#: Whether an application with other contents of files is found to be wrong; None: it does not
#: compile.
Try = Callable[[Mapping[str, str]], bool | None]

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?=u?\b(?!\.))")
_MARK = re.compile(r"^\s*DORY_SIM_\w+\(.*\);.*$", re.MULTILINE)
#: In place of a number of which ``one more`` survives: of any size and sign, odd and even.
_WILD = (0, 1, 2, 7, 100, 4097)
_MOST_LINES = 4  # of a change, that are tried
_FAR = 40  # bits of the largest change of a constant that is tried
_REQUANT = re.compile(r"requant|INT64_C")
_ASSIGNED = re.compile(r"^[^=]* = ([^=]*)[,;]$")
_BARRIER = re.compile(r"^\s*dory_barrier\(\);")
#: Lines of which the second group is a value.
_VALUES = (
    re.compile(r"^(\s*(?:if|while) \()(.*)(\) \{)$"),
    re.compile(r"^([^=?]*[\w\]] [-+|]?= )([^{}]*)(;)$"),
    re.compile(r"^(\s*return )(.*)(;)$"),
)
_NAMES = re.compile(r'^\s*\{"')
_CALLER = re.compile(r"^\s*if \((?:input|output)\w* [!=]= ")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a mutant survives. name: for the table. evidence: what shows it, for the log."""

    name: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Change:
    """A line of a file and what became of it."""

    path: str
    line: int
    old: str
    new: str


MARKS = "read by the simulation alone"
UNREAD = "no number in its place matters"
FLAG = "a flag: every number but 0 is true"
SMALL = "a constant whose change is too small for any accumulator"
SIZES = "equal for the sizes of this layer"
CALLER = "differs for a caller whose buffer begins at the wrong place"
BARRIERS = "one of two barriers, between which only core 0 works"
ALIGNED = "bytes of L1 that begin elsewhere"
LIMIT = "a limit that nothing reaches: larger ones are right"
SHARES = "how cores share the work"
ROOM = "room that the compiler or nobody uses"
EQUAL = "the same value whenever the line runs in this network"
REST = "a loop over many at once, whose rest is done one by one"
CLIP = "a clip, or a choice between equals, at its own bound"
TESTS = "found by the kernel's own tests"
LATER = "found by a check that was added since"
UNEXPLAINED = "unexplained"


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Return the lines that differ, comments left out."""
    found = []
    for path, new in after.items():
        old_lines, new_lines = before[path].splitlines(), new.splitlines()
        matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag == "equal":
                continue
            for n in range(max(b - a, d - c)):
                old = old_lines[a + n] if a + n < b else ""
                new_line = new_lines[c + n] if c + n < d else ""
                if not (_is_comment(old) and _is_comment(new_line)):
                    found.append(Change(path, min(a + n, len(old_lines) - 1), old, new_line))
    return found


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(("*", "/*"))


def without_marks(text: str) -> str:
    """Return a C file as a chip compiles it: without what the simulation alone reads."""
    return _MARK.sub(";", text)


def explain(
    before: Mapping[str, str], after: Mapping[str, str], found: Try, sources: Mapping[str, str]
) -> Reason:
    """Return why generated files survive a change.

    before, after: the contents of what changed. found: tries others. sources: all C files.
    """
    lines = changes(before, after)
    if all(_NAMES.match(one.old) for one in lines):
        return Reason(MARKS, "a name in the table of constants, or its last row")
    if all(_is_of_weights(before[one.path], one) for one in lines):
        return Reason(ROOM, "bytes of a table behind its last constant")
    if all(_is_dead_table(before[one.path], one) for one in lines):
        return Reason(MARKS, "a row of the table of tensors that are dead")
    if all(_CALLER.match(one.old) for one in lines):
        return Reason(CALLER, "a condition on the pointers of the caller")
    if all(_BARRIER.match(one.old) and not _BARRIER.match(one.new) for one in lines):
        if all(_is_redundant(before[one.path], one.line + 1, sources) for one in lines):
            return Reason(BARRIERS, "no core but 0 does anything between it and the next one")
        return Reason(UNEXPLAINED, "a barrier")
    places = [(one, place) for one in lines if (place := _place(one)) is not None]
    if places and len(places) == len(lines):
        tried = [_numbers(one, before, place, found) for one, place in places[:_MOST_LINES]]
        return max(tried, key=lambda reason: _ORDER.index(reason.name))
    return Reason(UNEXPLAINED, "; ".join(f"'{one.old.strip()}'" for one in lines)[:200])


#: What lines of kernels are about that their own tests do not find, tried in this order.
_OF_KERNELS = (
    (ROOM, re.compile(r"^\s*[\w ]+\w\[[^\]]+\](?: = .*)?;")),
    (REST, re.compile(r"for \(;? ?.*(?:[in] \+ \w+ <=? |[in] >=? ?\d+;).*[-+]= ")),
    (CLIP, re.compile(r"INT32_M|\? -?\w+ : \w+;|< best|_clip")),
    (
        SHARES,
        re.compile(r"per_unit|_share|_part\(|best|cost|TRY|try\(|ways|groups|units|cores|words\."),
    ),
)
_ORDER = (UNREAD, MARKS, FLAG, LIMIT, ALIGNED, SMALL, SIZES, UNEXPLAINED)


def explain_kernel(before: str, after: str, path: str, found: Try) -> Reason:
    """Return why a file of a kernel survives a change that its own tests do not find either."""
    (one, *more) = changes({path: before}, {path: after})
    trap = _trap_where_different(one)
    if trap and found({path: _with_line(before, one.line, trap)}) is False:
        return Reason(EQUAL, f"'{trap.strip()[:200]}' never traps")
    for name, pattern in _OF_KERNELS:
        if pattern.search(one.old):
            return Reason(name, f"'{one.old.strip()[:90]}' becomes '{one.new.strip()[:90]}'")
    place = None if more else _place(one)
    if place is None:
        return Reason(UNEXPLAINED, f"'{one.old.strip()[:90]}' becomes '{one.new.strip()[:90]}'")
    return _numbers(one, {path: before}, place, found)


def _trap_where_different(one: Change) -> str:
    """Return the line with a trap where the old and the new value differ, empty for others."""
    for form in _VALUES:
        old, new = form.match(one.old), form.match(one.new)
        if old and new and old.group(1) == new.group(1):
            head, a, b, tail = old.group(1), old.group(2), new.group(2), old.group(3)
            check = f"if (({a}) != ({b})) __builtin_trap();"
            return f"{head}__extension__({{ {check} ({a}); }}){tail}"
    return ""


def _with_line(text: str, number: int, line: str) -> str:
    lines = text.splitlines()
    lines[number] = line
    return "\n".join(lines) + "\n"


def _is_of_weights(text: str, one: Change) -> bool:
    """Return whether a line is the size or the end of a table of constants."""
    end = text.splitlines()[one.line + 1 :]
    zeros = re.fullmatch(r"[\s0x,u}};]*", one.old + one.new + "".join(end))
    return "dory_weights_" in one.old or (one.path.startswith("weights/") and bool(zeros))


def _is_dead_table(text: str, one: Change) -> bool:
    return bool(re.match(r"^\s*(\{\d+, \d+, \d+, \d+\},? ?)+$", one.old)) and "DEAD" in text


def _is_redundant(text: str, line: int, sources: Mapping[str, str]) -> bool:
    """Return whether the first statement of all cores from a line on is a barrier."""
    depth = 0
    for one in text.splitlines()[line:]:
        code = one.split("/*")[0].strip()
        if depth == 0 and code.startswith(("if (core == 0) {", "if (dory_core_id() == 0) {")):
            depth = 1
            continue
        if depth:
            depth += code.count("{") - code.count("}")
            continue
        if _BARRIER.match(one):
            return True
        if layer := re.match(r"(dory_layers?_\w+)\(", code):
            return _begins_with_barrier(layer.group(1), sources)
        if re.match(r"(?:const |static )?[\w ]+\** ?\*?(?:const )?\w+(?: = .*)?;$", code):
            continue
        if code and not code.startswith(("arguments.", "DORY_SIM_", "*", "report(")):
            return False
    return False


def _begins_with_barrier(function: str, sources: Mapping[str, str]) -> bool:
    for text in sources.values():
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if re.match(rf"(?:static )?void {function}\(.*\{{$", line):
                return _is_redundant(text, number + 1, sources)
    return False


def _place(one: Change) -> tuple[int, int] | None:
    """Return where the number of a line is that differs, else all that is assigned there."""
    if one.new.strip() not in ("", ";"):
        old, new = list(_NUMBER.finditer(one.old)), list(_NUMBER.finditer(one.new))
        if _NUMBER.sub("", one.old) == _NUMBER.sub("", one.new):
            pairs = zip(old, new, strict=True)
            return next(a.span() for a, b in pairs if a.group() != b.group())
    assigned = _ASSIGNED.match(one.old)
    return assigned.span(1) if assigned else None


def _numbers(one: Change, before: Mapping[str, str], place: tuple[int, int], found: Try) -> Reason:
    """Return what other numbers in the place of one show."""
    texts = before[one.path].splitlines()
    start, end = place
    text = one.old[start:end]
    value = int(text) if re.fullmatch(r"-?\d+", text) else None

    def wrong(number: int) -> bool | None:
        texts[one.line] = one.old[:start] + str(number) + one.old[end:]
        return found({**before, one.path: "\n".join(texts) + "\n"})

    tried = {number: wrong(number) for number in _WILD if number != value}
    right = [number for number, is_wrong in tried.items() if is_wrong is False]
    bad = [number for number, is_wrong in tried.items() if is_wrong]
    line = f"{one.old[:start]}[{text}]{one.old[end:]}".strip()[:90]
    evidence = f"'{line}': right with {right}, wrong with {bad}"
    if not bad:
        return Reason(UNREAD if right else UNEXPLAINED, evidence)
    if value == 1 and bad == [0]:
        return Reason(FLAG, evidence)
    if value is not None and _REQUANT.search(one.old):
        return _smallest(line, value, wrong)
    if value is not None and right and min(right) > value > max(bad):
        return Reason(LIMIT, evidence)
    if re.match(r"\s*L1_\w+ = |.*\(?l1 \+ ", one.old):
        return Reason(ALIGNED, evidence)
    return Reason(SIZES, evidence)


def _smallest(line: str, value: int, wrong: Callable[[int], bool | None]) -> Reason:
    """Return how much larger a constant may be until that is found."""
    for bits in range(_FAR):
        if wrong(value + (1 << bits)) is not False:
            right = f"+ {1 << (bits - 1)} is right" if bits else "less is right"
            return Reason(SMALL, f"'{line}': {right}, + {1 << bits} is wrong")
    return Reason(SMALL, f"'{line}': + {1 << (_FAR - 1)} is right")
