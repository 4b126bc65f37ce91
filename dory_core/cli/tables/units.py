"""Numbers for people: bytes, counts and tile sizes."""

from __future__ import annotations

from typing import Any

_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def count_text(value: float) -> str:
    """Return a count in at most five characters or so: ``987``, ``12.3k``, ``4.56M``."""
    for step, letter in _STEPS:
        # A value that would round to 1000 is 1.00 of the next unit.
        if value >= step * 0.9995 and value >= 1000:
            return f"{_three_digits(value / step)}{letter}"
    return f"{value:g}" if value == int(value) else f"{value:.1f}"


def bytes_text(value: int) -> str:
    """Return bytes as ``987 B``, ``12.3 kB`` or ``4.56 MB``; 1 kB = 1024 B."""
    if value < 1024:
        return f"{value} B"
    if value < 1 << 20:
        return f"{_three_digits(value / (1 << 10))} kB"
    return f"{_three_digits(value / (1 << 20))} MB"


def _three_digits(value: float) -> str:
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def share_text(used: int, budget: int) -> str:
    """Return used as percent of budget."""
    return f"{100 * used / budget:.0f}%" if budget else "-"


def tile_text(tiles: dict[str, Any]) -> str:
    """Return the output tile as ``CxHxW``."""
    return f"{tiles['c_out']}x{tiles['h']}x{tiles['w']}"
