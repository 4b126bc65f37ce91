"""Timeline of a whole network: parts in order, and the engine that moves data to and from L3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dory_core.hardware import Link

if TYPE_CHECKING:
    from dory_core.plan import ExtTransfer, LayerStep


def program_cycles(
    steps: Sequence[LayerStep], transfers: Sequence[ExtTransfer], link: Link | None
) -> int:
    """Return the cycles of one inference, waiting for L3 included.

    One engine serves the transfers in the order of their start; the issuing core spends the link's
    issue cycles on each. A layer's cycles are spread evenly over its parts.
    """
    starts: dict[int, list[int]] = {}
    waits: dict[int, list[int]] = {}
    for n, transfer in enumerate(transfers):
        starts.setdefault(transfer.start, []).append(n)
        waits.setdefault(transfer.wait, []).append(n)
    done: dict[int, float] = {}
    now = free = 0.0
    cycles = {
        part.position: step.estimate.cycles / len(step.parts)
        for step in steps
        for part in step.parts
    }
    for position in range(-1, len(cycles) + 1):
        for n in waits.get(position, ()):
            if n in done:
                now = max(now, done[n])
        for n in starts.get(position, ()):
            assert link is not None
            now += link.issue_cycles
            free = max(now, free) + link.cycles(transfers[n].size) - link.issue_cycles
            done[n] = free
        for n in waits.get(position, ()):
            now = max(now, done[n])
        now += cycles.get(position, 0.0)
    return round(now)
