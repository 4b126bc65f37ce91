"""Timeline of a whole network, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramEvent:
    """A piece of the network's timeline.

    lane: ``cores`` or the name of a link. step: position of the layer in the execution; of a
    transfer to or from L3 the one that waits for it, None at the end. tile: of the layer.
    start, end: in cycles.
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

    cycles: from the first transfer to the last. stalls: cycles that the cores wait for L3 before
    the parts of each step, and at the end, in the order of the steps.
    """

    cycles: int
    stalls: tuple[int, ...]
    events: tuple[ProgramEvent, ...]
