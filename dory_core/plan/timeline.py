"""Timeline of a whole network: parts in order, and the engine that moves data to and from L3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.estimate.timeline import link_name
from dory_core.hardware import Link

if TYPE_CHECKING:
    from dory_core.plan import Conversion, ExtTransfer, LayerStep


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


def network_timeline(
    steps: Sequence[LayerStep],
    transfers: Sequence[ExtTransfer],
    link: Link | None,
    final: Sequence[Conversion] = (),
) -> NetworkTimeline:
    """Return the timeline of one inference, changes of layout and waiting for L3 included.

    final: conversions behind the last layer.

    One engine serves the transfers in the order of their start; the issuing core spends the link's
    issue cycles on each.
    """
    parts = {
        part.position: (number, timeline)
        for number, step in enumerate(steps)
        for part, timeline in zip(step.parts, step.timelines, strict=True)
    }
    starts: dict[int, list[int]] = {}
    waits: dict[int, list[int]] = {}
    for n, transfer in enumerate(transfers):
        starts.setdefault(transfer.start, []).append(n)
        waits.setdefault(transfer.wait, []).append(n)
    lane = link_name(link) if link is not None else ""
    events: list[ProgramEvent] = []
    stalls = [0.0] * (len(steps) + 1)
    tiles = [0] * len(steps)
    done: dict[int, float] = {}
    now = free = 0.0
    for position in range(-1, len(parts) + 1):
        number, timeline = parts.get(position, (None, None))
        arrived = now
        for n in waits.get(position, ()):
            if n in done:
                now = max(now, done[n])
        for n in starts.get(position, ()):
            assert link is not None
            now += link.issue_cycles
            begin = max(now, free)
            free = begin + link.cycles(transfers[n].size) - link.issue_cycles
            done[n] = free
            user = parts.get(transfers[n].wait, (None,))[0]
            what = "load" if transfers[n].incoming else "store"
            events.append(ProgramEvent(lane, f"{what} L{link.lower}", user, 0, begin, free))
        for n in waits.get(position, ()):
            now = max(now, done[n])
        stalls[len(steps) if number is None else number] += now - arrived
        if timeline is None or number is None:
            continue
        first = tiles[number]
        if not first:
            now = _convert(steps[number].conversions, number, now, events)
        tiles[number] += timeline.traffic.calls
        events += [
            ProgramEvent(e.lane, e.name, number, first + e.step, now + e.start, now + e.end)
            for e in timeline.events
        ]
        now += timeline.estimate.cycles
    now = _convert(final, None, now, events)
    return NetworkTimeline(round(now), tuple(map(round, stalls)), tuple(events))


def _convert(
    conversions: Sequence[Conversion], step: int | None, now: float, events: list[ProgramEvent]
) -> float:
    """Let the cores run conversions one after the other; return when they go on."""
    for conversion in conversions:
        name = f"convert to {conversion.target.layout.name}"
        events.append(ProgramEvent("cores", name, step, 0, now, now + conversion.cycles))
        now += conversion.cycles
    return now
