"""C expressions as text, folded where the operands are known: immediates wherever possible."""

from __future__ import annotations

import re

CExpr = int | str

_ATOM = re.compile(r"[\w.\[\]>-]+\Z")


def atom(value: CExpr) -> str:
    """Return ``value`` as text that can stand next to any operator."""
    text = str(value)
    return text if _ATOM.match(text) else f"({text})"


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
