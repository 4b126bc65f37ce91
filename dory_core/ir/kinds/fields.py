"""The text form of what a kind of operator has: one form for each field of its dataclass.

Numbers and triples are words of the first line of a layer, constants and the steps of operands are
lines below it. The form follows from the type of a field; ``field(metadata=as_text(...))`` says
another one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from dory_core.ir.array import Array
from dory_core.ir.kinds.window import Window

if TYPE_CHECKING:
    from dory_core.ir.kinds.operator import Operator

#: Fields that all operators have; ``graph_text`` prints them itself.
_SHARED = frozenset({"index", "name", "inputs", "output", "requants", "tensor"})
_KEY = "text"
_TRIPLE = r"-?\d+,-?\d+,-?\d+"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the first line.

    Attributes:
        pattern: Regular expression of the word.
        show: Function from a value to the word.
        read: Function from a match to the value.
        shown: Function that says whether an operator has the word; by default one has it where the
            value is not the default.
    """

    pattern: re.Pattern[str]
    show: Callable[[Any], str]
    read: Callable[[re.Match[str]], Any]
    shown: Callable[[Any], bool] | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A line with an array, after the name of the field."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Lines with requantisations that are no steps of the accumulator.

    Attributes:
        names: Name of each step.
        optional: A step may be missing.
    """

    names: tuple[str, ...]
    optional: bool = False


Form = Word | Constant | Steps


def as_text(form: Form) -> Mapping[str, Form]:
    """Return the metadata of a dataclass field that is printed and parsed in a form."""
    return {_KEY: form}


def word(
    pattern: str,
    show: Callable[[Any], str],
    read: Callable[[re.Match[str]], Any],
    shown: Callable[[Any], bool] | None = None,
) -> Word:
    """Return a word of the first line.

    Args:
        pattern: Regular expression of the word, which a space or the end follows.
        show: As of :class:`Word`.
        read: As of :class:`Word`.
        shown: As of :class:`Word`.
    """
    return Word(re.compile(rf"(?:{pattern})(?= |$)"), show, read, shown)


def number(name: str, shown: Callable[[Any], bool] | None = None) -> Word:
    """Return the word of a number after its name."""
    return word(rf"{name} (-?\d+)", lambda value: f"{name} {value}", lambda m: int(m[1]), shown)


def real(name: str) -> Word:
    """Return the word of a real number after its name."""
    return word(rf"{name} ([\d.e+-]+)", lambda value: f"{name} {value!r}", lambda m: float(m[1]))


#: Sums that may leave 32 bits.
WIDE = word("wide", lambda _: "wide", lambda _: True)
#: Bits of such sums: the reference computes them in doubles.
WIDE_BITS = 53


def always(_: object) -> bool:
    """Let a word be printed for every operator."""
    return True


def _triple(name: str) -> Word:
    def read(match: re.Match[str]) -> tuple[int, ...]:
        return tuple(int(value) for value in match[1].split(","))

    return word(f"{name} ({_TRIPLE})", lambda v: f"{name} {','.join(map(str, v))}", read)


def _show_window(window: Window) -> str:
    words = ["x".join(map(str, window.kernel))]
    if window.strides != (1, 1):
        words.append("stride " + "x".join(map(str, window.strides)))
    if window.dilations != (1, 1):
        words.append("dilation " + "x".join(map(str, window.dilations)))
    if any(window.pads):
        words.append("pads " + ",".join(map(str, window.pads)))
    if window.pad_value:
        words.append(f"of {window.pad_value}")
    return " ".join(words)


def _read_window(match: re.Match[str]) -> Window:
    def pair(text: str | None) -> tuple[int, int]:
        first, second = (int(value) for value in (text or "1x1").split("x"))
        return first, second

    top, left, bottom, right = (int(value) for value in (match["pads"] or "0,0,0,0").split(","))
    return Window(
        kernel=pair(match["kernel"]),
        strides=pair(match["strides"]),
        dilations=pair(match["dilations"]),
        pads=(top, left, bottom, right),
        pad_value=int(match["pad_value"] or 0),
    )


_WINDOW = word(
    r"(?P<kernel>\d+x\d+)(?: stride (?P<strides>\d+x\d+))?(?: dilation (?P<dilations>\d+x\d+))?"
    r"(?: pads (?P<pads>-?\d+(?:,-?\d+){3}))?(?: of (?P<pad_value>-?\d+))?",
    _show_window,
    _read_window,
)


@cache
def forms_of(kind: type[Operator]) -> Mapping[str, Form]:
    """Return the form of each field that a kind of operator has beyond those of all, by name.

    Raises:
        TypeError: For a field whose type has no form.
    """
    hints = get_type_hints(kind)
    own = [field for field in dataclasses.fields(kind) if field.name not in _SHARED]
    forms = {
        field.name: field.metadata.get(_KEY) or _form_by_type(kind, field.name, hints[field.name])
        for field in own
    }
    return dict(sorted(forms.items(), key=lambda item: item[1] is not _WINDOW))  # it stands first


def _form_by_type(kind: type[Operator], name: str, type_: Any) -> Form:
    if type_ in (Array, Array | None):
        return Constant()
    if type_ is int:
        return number(name)
    if type_ == tuple[int, int, int]:
        return _triple(name)
    if type_ is Window:
        return _WINDOW
    raise TypeError(f"{kind.__name__}.{name} has no text form: give it one with as_text()")


def words_of(operator: Operator) -> list[str]:
    """Return the words of an operator's first line that its kind has."""
    defaults = {field.name: field.default for field in dataclasses.fields(operator)}
    words = []
    for name, form in forms_of(type(operator)).items():
        if isinstance(form, Word):
            value = getattr(operator, name)
            shown = value != defaults[name] if form.shown is None else form.shown(operator)
            words += [form.show(value)] if shown else []
    return words


def constants_of(operator: Operator) -> dict[str, Array]:
    """Return the constants of an operator by name."""
    found = {
        name: getattr(operator, name)
        for name, form in forms_of(type(operator)).items()
        if isinstance(form, Constant)
    }
    return {name: array for name, array in found.items() if array is not None}


def steps_of(operator: Operator) -> dict[str, Any]:
    """Return the requantisations of an operator by name that are no steps of its accumulator."""
    found: dict[str, Any] = {}
    for name, form in forms_of(type(operator)).items():
        if isinstance(form, Steps):
            found |= zip(form.names, getattr(operator, name), strict=True)
    return {name: step for name, step in found.items() if step is not None}


def read_word(kind: type[Operator], text: str, at: int) -> tuple[str, Any, int] | None:
    """Return (field, value, end) of the word that begins at a place of a line; None for none."""
    for name, form in forms_of(kind).items():
        if isinstance(form, Word) and (match := form.pattern.match(text, at)):
            return name, form.read(match), match.end()
    return None


def read_fields(
    kind: type[Operator],
    words: Mapping[str, Any],
    arrays: Mapping[str, Array],
    steps: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of a kind, without those that all operators have.

    Args:
        kind: Class of the operator.
        words: Fields that its first line holds.
        arrays: Constants by name.
        steps: Named requantisations.

    Raises:
        KeyError: For a line that the kind does not have, and for a field or step that is missing.
    """
    forms = forms_of(kind)
    names = {name for form in forms.values() if isinstance(form, Steps) for name in form.names}
    unknown = [name for name in arrays if not isinstance(forms.get(name), Constant)]
    unknown += [name for name in steps if name not in names]
    if unknown:
        raise KeyError(unknown[0])
    fields: dict[str, Any] = {**words, **arrays}
    for name, form in forms.items():
        if isinstance(form, Steps):
            look_up = steps.get if form.optional else steps.__getitem__
            fields[name] = tuple(look_up(step) for step in form.names)
    for field in dataclasses.fields(kind):
        if field.name in forms and field.name not in fields and field.default is MISSING:
            raise KeyError(field.name)
    return fields
