"""One colour for each meaning, told apart by everybody."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from dory_report import palette
from dory_report.page import chart_style

#: What meets in a chart: parts of cycles, lanes of the timeline, blocks of a memory, plans.
TOGETHER = (
    ("compute", "wait-l2", "wait-l3", "other", "convert"),
    ("compute", "activations", "weights", "outputs", "wait-l3", "convert"),
    ("activations", "weights", "outputs", "scratch"),
    tuple(colour.name for colour in palette.PLANS),
)
# Machado, Oliveira, Fernandes 2009: all sight, and no red, green, blue cones.
SIGHTS = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "tritanopia": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
# Linear RGB to the cones and to the axes of Oklab (Ottosson 2020).
CONES = ((0.4122, 0.5363, 0.0514), (0.2119, 0.6807, 0.1074), (0.0883, 0.2817, 0.6300))
AXES = ((0.2105, 0.7936, -0.0041), (1.9780, -2.4286, 0.4506), (0.0259, 0.7828, -0.8087))

Vector = tuple[float, ...]


def times(matrix: tuple[Vector, ...], vector: Vector) -> Vector:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def linear(colour: str) -> Vector:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)


def oklab(colour: Vector) -> Vector:
    return times(AXES, tuple(max(c, 0.0) ** (1 / 3) for c in times(CONES, colour)))


def luminance(colour: str) -> float:
    return sum(a * b for a, b in zip(linear(colour), (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def shades(*, dark: bool) -> dict[str, str]:
    return {colour.name: colour.dark if dark else colour.light for colour in palette.ALL}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_that_meet_in_a_chart_are_apart(sight: str, dark: bool) -> None:
    found = shades(dark=dark)
    seen = {n: oklab(times(SIGHTS[sight], linear(c))) for n, c in found.items()}
    for names in TOGETHER:
        for one, other in combinations(names, 2):
            apart = sum((a - b) ** 2 for a, b in zip(seen[one], seen[other], strict=True)) ** 0.5
            assert apart > 0.1, (one, other)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(dark: bool) -> None:
    found = shades(dark=dark)
    for text in ("ink", "quiet", "good", "bad", "accent"):
        for surface in ("page", "card"):
            assert contrast(found[text], found[surface]) >= 4.5, (text, surface)
    assert contrast(found["ink"], found["hot"]) >= 4.5


def test_a_colour_has_one_meaning() -> None:
    colours = [c for colour in (*palette.MEANINGS, *palette.PLANS) for c in (colour.light,)]
    assert len(set(colours)) == len(colours)


def test_images_name_every_colour() -> None:
    assert "var(" in chart_style()
    assert not re.search(r"var\(", palette.resolved(chart_style()))
