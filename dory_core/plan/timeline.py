"""Timeline of a whole network, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramEvent:
    """A piece of the network's timeline.

    Attributes:
        lane: ``cores`` or the name of a link.
        name: What happens, for charts.
        step: Position of the layer in the execution; of a transfer to or from L3 the one that waits
            for it, None at the end.
        tile: Number of the tile of the layer.
        start, end: Cycles from the start of the inference.
    """

    lane: str
    name: str
    step: int | None
    tile: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class NetworkTimeline:
    """One inference.

    Attributes:
        cycles: Cycles from the first transfer to the last.
        stalls: Cycles that the cores wait for L3 before the parts of each step, and at the end, in
            the order of the steps.
        events: What cores and links do, in the order in which it starts.
    """

    cycles: int
    stalls: tuple[int, ...]
    events: tuple[ProgramEvent, ...]
