"""C expressions as text, folded where the operands are known: immediates wherever possible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

CExpr = int | str

_ATOM = re.compile(r"[\w.\[\]>-]+\Z")


def atom(value: CExpr) -> str:
    """Return ``value`` as text that can stand next to any operator."""
    text = str(value)
    return text if _ATOM.match(text) or _is_in_brackets(text) else f"({text})"


def _is_in_brackets(text: str) -> bool:
    """Return True when the text's first bracket is closed by its last character."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at > 0 and at == len(text) - 1
    return False


def mul(*factors: CExpr) -> CExpr:
    """Return the product, constants folded."""
    constant = 1
    texts: list[str] = []
    for factor in factors:
        if isinstance(factor, int):
            constant *= factor
        else:
            texts.append(atom(factor))
    if not texts or constant == 0:
        return constant
    if constant != 1:
        texts.append(str(constant))
    return " * ".join(texts)


def add(*terms: CExpr) -> CExpr:
    """Return the sum, constants folded."""
    constant = 0
    texts: list[str] = []
    for term in terms:
        if isinstance(term, int):
            constant += term
        else:
            texts.append(term)
    if constant or not texts:
        if not texts:
            return constant
        texts.append(str(constant))
    return " + ".join(texts)


def closed_form(values: Sequence[int], index: str) -> CExpr | None:
    """Return ``values[index]`` as arithmetic, None when it takes more than a line.

    Values grow by equal steps; the first and the last one may be others. index: an unsigned C
    expression below len(values). A table would lie in a slower memory than the code's registers.
    """
    count = len(values)
    for first, last in ((0, 0), (0, 1), (1, 0), (1, 1)):
        middle = values[first : count - last]
        if not middle:
            continue
        step = middle[1] - middle[0] if len(middle) > 1 else 0
        if step < 0 or any(b - a != step for a, b in pairwise(middle)):
            continue
        start = middle[0] - step * first
        text = add(mul(index, step), start) if start >= 0 else f"{mul(index, step)} - {-start}"
        if last:
            text = f"{index} == {count - 1} ? {values[-1]} : {atom(text)}"
        if first:
            text = f"{index} == 0 ? {values[0]} : {atom(text)}"
        return text if isinstance(text, int) else atom(text)
    return None


def channel_bytes(channels: CExpr, bits: int) -> CExpr:
    """Return the bytes of ``channels`` consecutive elements of ``bits`` bits."""
    if isinstance(channels, int):
        return (channels * bits + 7) // 8
    return mul(channels, bits // 8) if bits >= 8 else f"({channels} * {bits} + 7) / 8"


def string(text: str) -> str:
    """Return a C string literal of ``text`` in ASCII."""
    plain = (c if ord(c) < 256 else "?" for c in text)
    escaped = (c if " " <= c <= "~" and c not in '"\\?' else f"\\{ord(c):03o}" for c in plain)
    return f'"{"".join(escaped)}"'


def comment(text: str) -> str:
    """Return ``text`` so that it can stand inside a C comment, in ASCII."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
