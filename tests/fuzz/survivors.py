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
#: In place of a number of which ``one more`` survives: of any size and sign, odd and even.
_WILD = (0, 1, 2, 7, 100, 4097)
#: Beside a number of which none of these is right.
_NEAR = (-4, -2, -1, 1, 2, 4)
_MOST_LINES = 4  # of a change, that are tried
_FAR = 40  # bits of the largest change of a constant that is tried
_REQUANT = re.compile(r"requant|INT64_C")
_ASSIGNED = re.compile(r"^[^=]* = ([^=]*)[,;]$")
_BARRIER = re.compile(r"^\s*dory_barrier\(\);")
_TABLE = re.compile(r"^(?:extern )?const uint32_t \w+\[\d+\]")
_CONDITION = re.compile(r"^(\s*(?:\} else )?if \()(.*)(\) \{\s*\\?)$")
_LOOP = re.compile(r"^(\s*for \([^;]*; )([^;]*)(;.*)$")
_CALL = re.compile(r"^(\s*\w+\()(.*)(\);)$")
#: Lines of which the second group is a value.
_VALUES = (
    re.compile(r"^(\s*(?:if|while) \()(.*)(\) \{\s*\\?)$"),
    re.compile(r"^(\s*for \([^;]*; )([^;]*)(;.*)$"),
    re.compile(r"^([^=?]*[\w\]] [-+|]?= )([^{}]*)(;)$"),
    re.compile(r"^(\s*return )(.*)(;)$"),
)


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
SPARES = "a condition that only spares work"
BARRIERS = "one of two barriers, between which only core 0 works"
ALIGNED = "bytes of L1 that begin elsewhere"
LIMIT = "a limit that nothing reaches: larger ones are right"
SHARES = "how cores share the work"
ROOM = "bytes behind the last constant"
EQUAL = "the same value whenever the line runs in this network"
WAITS = "waits that change places"
ONE_CORE = "a wait of each core where there is one core"
REST = "a loop over many at once, whose rest is done one by one"
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


def explain(
    before: Mapping[str, str], after: Mapping[str, str], found: Try, sources: Mapping[str, str]
) -> Reason:
    """Return why generated files survive a change.

    before, after: the contents of what changed. found: tries others. sources: all C files.
    """
    lines = changes(before, after)
    if all(one.path.startswith("weights/") or _TABLE.match(one.old) for one in lines):
        return _of_weights(after, lines, found)
    if all(_BARRIER.match(one.old) and not _BARRIER.match(one.new) for one in lines):
        if all(_is_redundant(before[one.path], one.line + 1, sources) for one in lines):
            return Reason(BARRIERS, "no core but 0 does anything between it and the next one")
        return Reason(UNEXPLAINED, "a barrier")
    places = [(one, place) for one in lines if (place := _place(one)) is not None]
    if places and len(places) == len(lines):
        tried = [_numbers(one, before, place, found) for one, place in places[:_MOST_LINES]]
        return max(tried, key=lambda reason: _ORDER.index(reason.name))
    if len(lines) == 1:
        reason = _condition(lines[0], before, found) or _equal(lines[0], before, found)
        if reason is not None:
            return reason
    return Reason(UNEXPLAINED, "; ".join(f"'{one.old.strip()}'" for one in lines)[:200])


def explain_plan(what: str, cores: int, found: bool | None) -> Reason | None:
    """Return why a plan survives a change of its waits.

    what: the change. found: whether a DMA whose bytes move in the wait shows it.
    """
    if found is not False:
        return None
    if "Wait comes after Wait" in what:
        return Reason(WAITS, f"{what}: right where bytes move in the wait")
    if cores == 1 and "each_core" in what:
        return Reason(ONE_CORE, what)
    return None


def _of_weights(after: Mapping[str, str], lines: list[Change], found: Try) -> Reason:
    """Return what other bytes in place of the padding that was added to a table show."""
    other = dict(after)
    for one in lines:
        added = one.new.removeprefix(one.old)
        if re.fullmatch(r"[\s0x,u]*", added):
            changed = one.new.removesuffix(added) + added.replace("0x00000000", "0x5a5a5a5a")
            other[one.path] = other[one.path].replace(f"\n{one.new}\n", f"\n{changed}\n")
    evidence = "; ".join(
        f"'{one.old.strip()[:40]}' becomes '{one.new.strip()[:40]}'" for one in lines
    )
    if found(other) is False:
        return Reason(ROOM, f"{evidence[:200]}: right with other bytes there")
    return Reason(UNEXPLAINED, evidence[:200])


#: What lines of kernels are about that decide which core computes what.
_SHARED = re.compile(
    r"per_unit|_share|_part\(|best|cost|TRY|try\(|ways|groups|units|cores|CORES|words\.|work\."
)
_SURE = (UNREAD, LIMIT, FLAG)
_ORDER = (UNREAD, MARKS, FLAG, LIMIT, ALIGNED, SMALL, SIZES, UNEXPLAINED)


def explain_kernel(
    before: str,
    after: str,
    path: str,
    found: Try,
    tests: Callable[[], str],
    shared: Callable[[], str],
) -> Reason:
    """Return why a file of a kernel survives a change.

    tests: which kernel's own tests find it. shared: why no two cores write the same place, empty
    where ThreadSanitizer sees some that do.
    """
    texts = {path: before}
    (one, *more) = changes(texts, {path: after})
    equal = None if more else _equal(one, texts, found)
    if equal is not None:
        return equal
    place = None if more else _place(one)
    number = None if place is None else _numbers(one, texts, place, found)
    if number is not None and number.name in _SURE:
        return number
    test = tests()
    if test:
        return Reason(TESTS, f"random tiles of {test}")
    spared = None if more else _condition(one, texts, found) or _rest(one, texts, found)
    if spared is not None:
        return spared
    text = f"'{one.old.strip()[:90]}' becomes '{one.new.strip()[:90]}'"
    if _SHARED.search(one.old):
        why = shared()
        return Reason(SHARES, f"{text}: {why}") if why else Reason(LATER, "ThreadSanitizer")
    return number or Reason(UNEXPLAINED, text)


def _equal(one: Change, before: Mapping[str, str], found: Try) -> Reason | None:
    """Return that the old and the new value of a line never differ, where they do not."""
    trap = _trap_where_different(one)
    if trap and found({one.path: _with_line(before[one.path], one.line, trap)}) is False:
        return Reason(EQUAL, f"'{trap.strip()[:200]}' never traps")
    return None


def _condition(one: Change, before: Mapping[str, str], found: Try) -> Reason | None:
    """Return that a condition may be another one, where it may always be true, or never."""
    form = _CONDITION.match(one.old)
    if form is None:
        return None
    head, condition, tail = form.groups()
    texts = {
        value: _with_line(before[one.path], one.line, f"{head}{value}{tail}") for value in "01"
    }
    right = [value for value, text in texts.items() if found({one.path: text}) is False]
    if not right:
        return None
    return Reason(SPARES, f"'{condition[:90]}': also right as {' and as '.join(right)}")


def _rest(one: Change, before: Mapping[str, str], found: Try) -> Reason | None:
    """Return that a loop need not run, where what follows it does all."""
    form = _LOOP.match(one.old)
    if form is None:
        return None
    never = f"{form.group(1)}0{form.group(3)}"
    if found({one.path: _with_line(before[one.path], one.line, never)}) is not False:
        return None
    return Reason(REST, f"'{one.old.strip()[:90]}': also right when it never runs")


def _trap_where_different(one: Change) -> str:
    """Return the line with a trap where the old and the new value differ, empty for others."""
    for form in _VALUES:
        old, new = form.match(one.old), form.match(one.new)
        if old and new:
            (head, a, tail), (other_head, b, other_tail) = old.groups(), new.groups()
            if (head, tail) == (other_head, other_tail) and a != b:
                return f"{head}{_trapped(a, b)}{tail}"
    old, new = _CALL.match(one.old), _CALL.match(one.new)
    if old and new and old.group(1) == new.group(1):
        ours, others = (_arguments(match.group(2)) for match in (old, new))
        different = [
            n for n, pair in enumerate(zip(ours, others, strict=False)) if len(set(pair)) > 1
        ]
        if len(ours) == len(others) and len(different) == 1:
            n = different[0]
            ours[n] = _trapped(ours[n], others[n])
            return f"{old.group(1)}{', '.join(ours)}{old.group(3)}"
    return ""


def _trapped(a: str, b: str) -> str:
    return f"__extension__({{ if (({a}) != ({b})) __builtin_trap(); ({a}); }})"


def _arguments(text: str) -> list[str]:
    """Return the arguments of a call: what commas separate outside of brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def _with_line(text: str, number: int, line: str) -> str:
    lines = text.splitlines()
    lines[number] = line
    return "\n".join(lines) + "\n"


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
        if code and not code.startswith(("arguments.", "*", "dory_report(")):
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
        if _around(one.old) == _around(one.new):
            pairs = zip(old, new, strict=True)
            return next(a.span() for a, b in pairs if a.group() != b.group())
    assigned = _ASSIGNED.match(one.old)
    return assigned.span(1) if assigned else None


def _around(line: str) -> str:
    """Return a line without its numbers, and without the brackets in which negative ones are."""
    return _NUMBER.sub("", re.sub(r"\((-\d+)\)", r"\1", line))


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
    if value is not None and False not in tried.values():
        tried |= {value + step: wrong(value + step) for step in _NEAR}
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
    if re.match(r"\s*L1_\w+ = |.*\(?l1 \+ ", one.old):
        return Reason(ALIGNED, evidence)
    if value is not None and right and min(right) > value > max(bad):
        return Reason(LIMIT, evidence)
    return Reason(SIZES, evidence)


def _smallest(line: str, value: int, wrong: Callable[[int], bool | None]) -> Reason:
    """Return how much larger a constant may be until that is found."""
    for bits in range(_FAR):
        if wrong(value + (1 << bits)) is not False:
            right = f"+ {1 << (bits - 1)} is right" if bits else "less is right"
            return Reason(SMALL, f"'{line}': {right}, + {1 << bits} is wrong")
    return Reason(SMALL, f"'{line}': + {1 << (_FAR - 1)} is right")
