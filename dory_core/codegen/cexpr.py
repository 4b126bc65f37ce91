"""The reading of expressions as C text: folded where values are known, tables where they must be.

A function of one loop variable that takes more than a line becomes a small static table; of the
part that runs, a column of the layer's table of parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dory_core.expr import Apply, Const, Expr, Lookup, Var
from dory_core.expr.trees import structure

Value = int | Expr

INDENT = "  "

#: Binding strength of C text: atoms, products, sums, comparisons, ``?:``.
ATOM, PRODUCT, SUM, COMPARISON, CHOICE = 5, 4, 3, 2, 1
#: Most values that are a table where arithmetic would be hard to read.
_FEW = 4
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

#: By the values of a table: name and values of the table that it is a multiple of, and the factor.
Multiples = Mapping[tuple[int, ...], tuple[str, tuple[int, ...], int]]


@dataclass(slots=True)
class Reader:
    """Reads expressions as C text.

    Variables are unsigned 32-bit numbers; a text with negative values in it is signed. Values and
    intermediate values have to fit 32 bits.

    Attributes:
        variables: Names of the variables in C.
        part: Variable whose tables are columns, ``part->name``.
        copied: Whether ``part`` points to a copy, which has its number as a column.
        struct: What stands before the name of a table that is a member of a struct.
        multiples: Tables that are read as multiples of others, and these.
        tables: Tables that the texts so far need, by name.
        columns: Columns that the texts so far need, by name.
    """

    variables: Mapping[str, str]
    part: str = "part"
    copied: bool = False
    struct: str = ""
    multiples: Multiples = field(default_factory=dict)
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    columns: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def text(self, value: Value) -> str:
        """Return an expression as C. Raises ValueError for divisions of negative numbers."""
        return self._read(value)[0]

    def atom(self, value: Value) -> str:
        """Return an expression as C that can be an operand of any operator."""
        return bracketed(self._read(value), ATOM)

    def sum_terms(self, value: Value) -> tuple[list[tuple[int, Expr]], int]:
        """Return an expression as terms, each with its factor, and a constant."""
        terms: dict[Any, tuple[int, Expr]] = {}
        constant = 0
        for factor, term in self._terms(value, 1):
            if term is None:
                constant += factor
            else:
                key = structure(term)
                terms[key] = (terms[key][0] + factor if key in terms else factor, term)
        return [(factor, term) for factor, term in terms.values() if factor], constant

    def behind(self, terms: Sequence[tuple[int, Expr]], constant: int) -> str:
        """Return a constant and terms that are not negative as C that can follow a ``+``."""
        if not terms:
            return str(constant)
        text = bracketed(self._sum(terms, 0, False), SUM)
        return f"{constant} + {text}" if constant else text

    def _read(self, value: Value) -> tuple[str, int]:
        if isinstance(value, int):
            return str(value), ATOM if value >= 0 else SUM
        return self._sum(*self.sum_terms(value), _has_negatives(value))

    def _terms(self, value: Value, factor: int) -> Iterable[tuple[int, Expr | None]]:
        if isinstance(value, int):
            yield factor * value, None
        elif isinstance(value, Const):
            yield factor * value.value, None
        elif isinstance(value, Apply) and value.kind in ("+", "-"):
            yield from self._terms(value.args[0], factor)
            yield from self._terms(value.args[1], factor if value.kind == "+" else -factor)
        elif isinstance(value, Apply) and value.kind == "*" and _constant(value) is not None:
            number, other = _constant(value) or (1, value)
            yield from self._terms(other, factor * number)
        elif isinstance(value, Lookup) and not self._is_column(value):
            line = _line(value.values.tolist()[: value.index.bounds[1] + 1])
            if line is None or line[0] < 0:
                yield factor, value
            else:
                yield factor * line[0], None
                yield from self._terms(value.index, factor * line[1])
        else:
            yield factor, value

    def _sum(
        self, terms: Sequence[tuple[int, Expr]], constant: int, signed: bool
    ) -> tuple[str, int]:
        signed = signed or any(factor < 0 for factor, _ in terms)
        texts = [(factor < 0, self._term(abs(factor), term, signed)) for factor, term in terms]
        texts.sort(key=lambda text: text[0])
        if not texts:
            return str(constant), ATOM if constant >= 0 else SUM
        negative, first = texts[0]
        if len(texts) == 1 and not constant and not negative:
            return first
        result = f"-{bracketed(first, ATOM)}" if negative else bracketed(first, SUM)
        for negative, text in texts[1:]:
            result += (
                f" - {bracketed(text, PRODUCT)}" if negative else (f" + {bracketed(text, SUM)}")
            )
        if constant:
            result += f" + {constant}" if constant > 0 else f" - {-constant}"
        return result, SUM

    def _term(self, factor: int, term: Expr, signed: bool) -> tuple[str, int]:
        if isinstance(term, Lookup) and not self._is_column(term):
            values = [factor * int(v) for v in term.values]
            form = closed_form(values, bracketed(self._read_as(term.index, signed), ATOM))
            if form is not None:
                return form
            term, multiple = self._base(term)
            factor *= multiple
        text = self._factor(term, signed)
        return text if factor == 1 else (f"{bracketed(text, PRODUCT)} * {factor}", PRODUCT)

    def _is_column(self, term: Lookup) -> bool:
        return isinstance(term.index, Var) and term.index.name == self.part

    def _factor(self, term: Expr, signed: bool) -> tuple[str, int]:
        """Return a term without its factor, and its binding strength."""
        if isinstance(term, Var):
            text = self.variables.get(term.name, term.name)
            if term.name == self.part:
                text = self._number(term)
            if not signed:
                return text, ATOM if " " not in text else SUM
            return f"(int32_t){text if ' ' not in text else f'({text})'}", ATOM
        if isinstance(term, Lookup):
            wide = signed and c_type(term.values.tolist()) == "uint32_t"
            return f"{'(int32_t)' if wide else ''}{self._table(term)}", ATOM
        assert isinstance(term, Apply), term
        return self._operator(term, signed)

    def _number(self, part: Var) -> str:
        """Return the number of the part."""
        if not self.copied:
            return f"(uint32_t)({self.part} - parts)"
        self.columns["number"] = tuple(range(part.bounds[1] + 1))
        return f"{self.part}->number"

    def _base(self, term: Lookup) -> tuple[Lookup, int]:
        """Return the table that a table is a multiple of, and the factor."""
        values = tuple(int(v) for v in term.values)
        name, base, factor = self.multiples.get(values, (term.name, values, 1))
        return Lookup(name, base, term.index), factor

    def _table(self, term: Lookup) -> str:
        column = self._is_column(term)
        known = self.columns if column else self.tables
        values = tuple(int(v) for v in term.values)
        name, number = term.name, 2
        while known.setdefault(name, values) != values:
            name, number = f"{term.name}_{number}", number + 1
        if column:
            return f"{self.part}->{name}"
        return f"{self.struct}{name}[{self.text(term.index)}]"

    def _operator(self, term: Apply, signed: bool) -> tuple[str, int]:
        kind = term.kind
        texts = [self._read_as(arg, signed) for arg in term.args]
        if kind == "*":
            factors = (bracketed(text, PRODUCT + (n > 0)) for n, text in enumerate(texts))
            return " * ".join(factors), PRODUCT
        if kind in _COMPARISONS:
            left, right = (bracketed(text, SUM) for text in texts)
            return f"{left} {kind} {right}", COMPARISON
        if kind in ("min", "max"):
            left, right = (bracketed(text, SUM) for text in texts)
            return f"{left} {'<' if kind == 'min' else '>'} {right} ? {left} : {right}", CHOICE
        (a_lo, _), (b_lo, _) = (arg.bounds for arg in term.args)
        if a_lo < 0 or b_lo <= 0:
            raise ValueError(f"C rounds towards zero: {kind} of what may be negative")
        if kind == "ceil_div":
            left, right = bracketed(texts[0], SUM), bracketed(texts[1], PRODUCT)
            return f"({left} + {right} - 1) / {bracketed(texts[1], ATOM)}", PRODUCT
        left, right = bracketed(texts[0], PRODUCT), bracketed(texts[1], ATOM)
        return f"{left} {'/' if kind == '//' else '%'} {right}", PRODUCT

    def _read_as(self, value: Expr, signed: bool) -> tuple[str, int]:
        return self._sum(*self.sum_terms(value), signed or _has_negatives(value))


def bracketed(text: tuple[str, int], least: int) -> str:
    """Return text in brackets unless it binds as strongly as ``least``."""
    return text[0] if text[1] >= least else f"({text[0]})"


def _constant(product: Apply) -> tuple[int, Expr] | None:
    """Return the constant and the other factor of a product, None when it has no constant."""
    a, b = product.args
    if isinstance(a, Const):
        return a.value, b
    return (b.value, a) if isinstance(b, Const) else None


def _line(values: Sequence[int]) -> tuple[int, int] | None:
    """Return (start, step) when values[k] is start + step * k, and does not fall."""
    step = values[1] - values[0] if len(values) > 1 else 0
    if step < 0 or any(b - a != step for a, b in pairwise(values)):
        return None
    return values[0], step


def multiples(tables: Mapping[str, tuple[int, ...]]) -> Multiples:
    """Return which tables are multiples of others: of those with the smallest values."""
    found: dict[tuple[int, ...], tuple[str, tuple[int, ...], int]] = {}
    for name, values in sorted(tables.items(), key=lambda table: sum(map(abs, table[1]))):
        bases = (one for one in found.values() if len(one[1]) == len(values))
        own = (name, values, 1)
        found[values] = next((one for base in bases if (one := _times(base, values))), own)
    return found


def _times(
    base: tuple[str, tuple[int, ...], int], values: tuple[int, ...]
) -> tuple[str, tuple[int, ...], int] | None:
    """Return a table with the factor that makes other values of it; None without any."""
    name, small, _ = base
    factor = next((v // s for s, v in zip(small, values, strict=True) if s), 0)
    is_multiple = factor > 0 and all(factor * s == v for s, v in zip(small, values, strict=True))
    return (name, small, factor) if is_multiple else None


def _has_negatives(value: Value) -> bool:
    """Return True when a part of an expression may be negative, which needs signed arithmetic."""
    if isinstance(value, int):
        return value < 0
    if value.bounds[0] < 0:
        return True
    if isinstance(value, Apply):
        return any(_has_negatives(arg) for arg in value.args)
    return isinstance(value, Lookup) and _has_negatives(value.index)


def c_type(values: Iterable[int]) -> str:
    """Return the integer type of 32 bits that holds values.

    Never a narrower one: compilers make an 8 x 8 bit multiplication of a byte's product with a
    constant, and those of some chips take the constant for a signed one.
    """
    values = tuple(values)
    lo, hi = min(values), max(values)
    if lo >= 0 and hi < 1 << 32:
        return "uint32_t"
    if lo >= -(1 << 31) and hi < 1 << 31:
        return "int32_t"
    raise ValueError(f"{lo}..{hi} does not fit 32 bits")


def wrapped(text: str, indent: int, width: int = 100) -> list[str]:
    """Return a statement on lines of at most ``width`` columns where commas allow it.

    A line ends at a comma that as few brackets enclose as possible. Lines after the first one are
    indented by four more for each line with a bracket that is open. Initialisers with designators
    stay on one line, as clang-format has them.

    Args:
        text: Statement.
        indent: Columns before it, without those that it has.
        width: Most columns of a line.
    """
    lines: list[str] = []
    if not text:
        return [""]
    rest = " " * indent + text
    indent += len(text) - len(text.lstrip())
    brackets: list[int] = []  # the line of each bracket that is open
    while len(rest) > width and "{." not in text and not text.lstrip().startswith("."):
        at = _break(rest, indent + 4, width)
        if at < 0 or '"' in rest[: at + 1]:
            break
        for character in rest[: at + 1]:
            if character in "([{":
                brackets.append(len(lines))
            elif character in ")]}" and brackets:
                brackets.pop()
        lines.append(rest[: at + 1])
        rest = " " * (indent + 4 * max(1, len(set(brackets)))) + rest[at + 2 :]
    return [*lines, rest]


def _break(text: str, start: int, width: int) -> int:
    """Return the position of the comma at which a line ends, -1 where there is none."""
    found, least, depth = -1, len(text), 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if at < start or not text.startswith(", ", at):
            continue
        if at >= width:
            return at if found < 0 else found
        if depth <= least:
            found, least = at, depth
    return found


def closed_form(values: Sequence[int], index: str) -> tuple[str, int] | None:
    """Return ``values[index]`` as arithmetic and how strongly it binds, None for a table.

    Values grow by equal steps; the first and the last one may be others. A few values that need
    a choice and a line, or two choices, are easier to read as a table, which takes as few bytes.

    Args:
        values: Numbers by index.
        index: Unsigned C expression below ``len(values)``.
    """
    count = len(values)
    for first, last in ((0, 0), (0, 1), (1, 0), (1, 1)):
        middle = values[first : count - last]
        if not middle:
            continue
        line = _line(middle)
        if line is None or (line[1] and min(values) < 0):  # the index is unsigned
            continue
        start, step = line
        if count <= _FEW and first + last + (step != 0) > 1:
            return None
        text = _line_text(index, step, start - step * first)
        if last:
            text = f"{index} == {count - 1} ? {values[-1]} : {bracketed(text, SUM)}", CHOICE
        if first:
            text = f"{index} == 0 ? {values[0]} : {bracketed(text, SUM)}", CHOICE
        return text
    return None


def _line_text(index: str, step: int, start: int) -> tuple[str, int]:
    if not step:
        return str(start), ATOM if start >= 0 else SUM
    text = (index, ATOM) if step == 1 else (f"{index} * {step}", PRODUCT)
    if not start:
        return text
    return f"{text[0]} {'+' if start > 0 else '-'} {abs(start)}", SUM
