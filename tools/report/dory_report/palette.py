"""One colour for each meaning, the same in every chart of every report.

Each colour has a shade for light and one for dark pages. Colours that meet in a chart stay apart
for people who see no red, green or blue light; the tests compare them in Oklab.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Colour:
    """What a colour means.

    Attributes:
        name: Class of the colour in charts.
        light, dark: Colours as ``#rrggbb``.
    """

    name: str
    light: str
    dark: str


#: What cores and links do, and what lies in memories.
MEANINGS = (
    Colour("compute", "#3757d8", "#6494fc"),
    Colour("wait-l2", "#cf500f", "#f8751c"),
    Colour("wait-l3", "#5a0730", "#b03a5b"),
    Colour("other", "#a0a0a2", "#8f8f8f"),
    Colour("convert", "#ecd67c", "#fadd54"),
    Colour("activations", "#55a596", "#6cd1c0"),
    Colour("weights", "#d6a117", "#bc9742"),
    Colour("outputs", "#6f4278", "#934bb7"),
    Colour("scratch", "#6fd0f5", "#d2f3fe"),
)
#: Plans of a comparison, in their order; charts also tell them apart by shape.
PLANS = (
    Colour("plan-0", "#270963", "#6d56fd"),
    Colour("plan-1", "#2b5f16", "#84dbb7"),
    Colour("plan-2", "#8a339a", "#b983be"),
    Colour("plan-3", "#928956", "#f5ea39"),
)
#: The page itself.
SURFACES = (
    Colour("page", "#f6f7f9", "#0f1319"),
    Colour("card", "#ffffff", "#181d26"),
    Colour("ink", "#1a1f29", "#e8ebf0"),
    Colour("quiet", "#566070", "#a3adbb"),
    Colour("line", "#dfe3e8", "#2c3440"),
    Colour("hot", "#fff1c2", "#3a3417"),
    Colour("accent", "#1f56c0", "#8ab4ff"),
    Colour("good", "#1a7a4c", "#5bd697"),
    Colour("bad", "#b3261e", "#ff9a8f"),
)
ALL = (*MEANINGS, *PLANS, *SURFACES)


def properties(*, dark: bool) -> str:
    """Return the custom properties of a style sheet that hold the colours."""
    return " ".join(f"--{c.name}: {c.dark if dark else c.light};" for c in ALL)


def resolved(css: str) -> str:
    """Return a style sheet with the light colours in place of custom properties."""
    for colour in ALL:
        css = css.replace(f"var(--{colour.name})", colour.light)
    return css


def fills() -> str:
    """Return the rules that paint marks by their class."""
    return "\n".join(
        f".{c.name} {{ fill: var(--{c.name}); stroke: var(--{c.name}); }}"
        for c in (*MEANINGS, *PLANS)
    )
