"""Damaged files: bytes that are changed, removed, added, and files that end early."""

from __future__ import annotations

import random

__all__ = ["FOREIGN", "damaged"]

#: Contents that are no network of any format.
FOREIGN = {
    "empty": b"",
    "text": b"hello, this is no network\n",
    "zeros": bytes(100),
    "noise": random.Random(1).randbytes(500),
}
_WORDS = (b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f")


def damaged(content: bytes, seed: int) -> bytes:
    """Return a copy of a file with one to eight damages."""
    draw = random.Random(seed)
    copy = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 3, 8])):
        _damage(copy, draw)
    return bytes(copy)


def _damage(copy: bytearray, draw: random.Random) -> None:
    at, length = draw.randrange(len(copy) + 1), draw.choice([1, 1, 2, 4, 16, 300])
    kind = draw.choice(["bit", "bit", "bytes", "bytes", "word", "word", "less", "more", "end"])
    if kind == "bit" and at < len(copy):
        copy[at] ^= 1 << draw.randrange(8)
    elif kind == "bytes":
        copy[at : at + length] = draw.randbytes(length)
    elif kind == "word":
        word = draw.choice(_WORDS)
        copy[at : at + len(word)] = word
    elif kind == "less":
        del copy[at : at + length]
    elif kind == "more":
        copy[at:at] = draw.randbytes(length)
    elif kind == "end":
        del copy[at:]
