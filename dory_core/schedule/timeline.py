"""Timeline of one layer: the steps of its tile loop with the overlap of the generated code.

The cores compute one step at a time; one DMA engine serves the transfers of a link in the order in
which they are started. ``schedule.loops`` states when they are started and waited for,
``schedule.costs`` what each of them costs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import lru_cache

from dory_core.hardware.caches import Misses
from dory_core.hardware.copies import Charge
from dory_core.ir.geometry import read_span
from dory_core.kernels.call import OPERANDS
from dory_core.schedule.costs import LayerCosts, link_name
from dory_core.schedule.loops import TILE_PHASES, Phase, Schedule, TileStep


@dataclass(frozen=True, slots=True)
class LayerEstimate:
    """What a layer costs, in cycles of the cores.

    Attributes:
        cycles: From the first transfer to the last.
        compute_cycles: In the kernel.
        dma_cycles: While the link is busy.
        stall_cycles: While the cores wait for the link.
        macs_per_cycle: MAC per cycle, 0 for layers without MAC.
        bound: ``compute``, or the link (``L2-L1``) when it is busy for longer than the cores.
    """

    cycles: int
    compute_cycles: int
    dma_cycles: int
    stall_cycles: int
    macs_per_cycle: float
    bound: str


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of the timeline.

    Attributes:
        lane: ``cores``, or the name of the link.
        name: Of the piece, for people.
        step: Number of the step.
        start, end: In cycles.
    """

    lane: str
    name: str
    step: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a tile loop does.

    Attributes:
        calls: Calls of the kernel.
        transfers: Transfers between the levels.
        bytes: Bytes that they move.
    """

    calls: int
    transfers: int
    bytes: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.calls + other.calls, self.transfers + other.transfers, self.bytes + other.bytes
        )


@dataclass(frozen=True, slots=True)
class AheadLoad:
    """A weight prefetch: the load of another layer's first constants.

    Attributes:
        layer: Index of the other layer.
        tile: Number of the tile before whose kernel it starts.
        charge: What it costs.
        by_words: Whether it is a load by words (``Link.words_per_cycle``), not a burst.
    """

    layer: int
    tile: int
    charge: Charge
    by_words: bool = False


@dataclass(frozen=True, slots=True)
class PartTimeline:
    """One run of a tile loop.

    Attributes:
        estimate: Its cycles.
        traffic: Its calls and transfers.
        events: Its events, in time from its start.
        left: Cycles after its end for which the link is busy with a weight prefetch.
    """

    estimate: LayerEstimate
    traffic: Traffic
    events: tuple[Event, ...]
    left: float = 0.0


Record = Callable[[Event], None]


def estimate(
    costs: LayerCosts,
    schedule: Schedule,
    record: Record | None = None,
    resident: Collection[str] = (),
) -> LayerEstimate:
    """Return the cycles of a layer that runs a tile loop.

    Args:
        costs: The costs of the layer.
        schedule: The tile loop.
        record: Receives every event.
        resident: Tensors (x, x2, y) that lie in L1 and are not moved.
    """
    return _Walk(costs, schedule, resident, record).run().estimate


@lru_cache(maxsize=1024)
def part_timeline(
    costs: LayerCosts,
    schedule: Schedule,
    resident: frozenset[str] = frozenset(),
    arrives: float | None = None,
    ahead: AheadLoad | None = None,
) -> PartTimeline:
    """Return the timeline of one run of a tile loop, with its events.

    Most parts are the same in one candidate of the planner and in the next.

    Args:
        costs: The costs of the layer.
        schedule: The tile loop.
        resident: Tensors (x, x2, y) that lie in L1 and are not moved.
        arrives: Cycles after the start at which the first constants are there, which an earlier
            layer has prefetched, and the link is free. None: the loop loads them itself.
        ahead: The weight prefetch for a later layer that the loop starts.
    """
    events: list[Event] = []
    found = _Walk(costs, schedule, resident, events.append, arrives, ahead).run()
    return replace(found, events=tuple(events))


def loaded_estimate(
    costs: LayerCosts,
    schedule: Schedule,
    resident: Collection[str],
    arrives: float | None,
    ahead: AheadLoad | None,
) -> tuple[int, float]:
    """Return the cycles of :func:`part_timeline`, and for how many more the link is busy.

    Args:
        costs: Of the layer.
        schedule: Its tile loop.
        resident: Operands that are not moved.
        arrives: As for :func:`part_timeline`.
        ahead: As for :func:`part_timeline`.
    """
    found = _Walk(costs, schedule, resident, None, arrives, ahead).run()
    return found.estimate.cycles, found.left


class _Walk:
    """The cores and the DMA engine of one layer while it runs a tile loop."""

    def __init__(
        self,
        costs: LayerCosts,
        schedule: Schedule,
        resident: Collection[str],
        record: Record | None,
        arrives: float | None = None,
        ahead: AheadLoad | None = None,
    ) -> None:
        link = costs.hierarchy.link(1)
        self._costs = costs.in_loops(schedule)
        self._schedule = schedule
        self._moved = [name for name, _, _ in costs.moves.moved if name not in resident]
        self._record = record
        self._arrives, self._ahead = arrives, ahead
        self._stores = "y" not in resident
        self._link_name, self._blocking = link_name(link), link.blocking
        self._contention = link.contention
        cache = costs.hierarchy.instructions
        self._words_wait = 1.0 if cache is None else cache.words_wait
        self._now = float(costs.hierarchy.layer_cycles)  # of the cores
        self._free = arrives or 0.0  # when the engine has done everything started so far
        self._words = 0.0  # cycles of it that load by words, at the end
        self._loaded = 0.0  # when the data of the next tile is there
        self._stored = [0.0] * schedule.buffering.y  # when each copy of y has been stored
        self._compute = self._stall = self._busy = 0.0
        self._blocked = 0.0  # cycles that the cores waited for transfers where these block
        self._transfers = self._bytes = 0

    def run(self) -> PartTimeline:
        """Return the timeline without its events."""
        steps = list(self._schedule.steps())
        late = (self._schedule.buffering.x == 1, self._schedule.buffering.w == 1)
        early = (not late[0], not late[1])
        meetings, misses = self._costs.meetings, self._costs.misses
        self._load(steps[0], True, self._arrives is None)
        self._loaded = max(self._loaded, self._arrives or 0.0)
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            for phase in TILE_PHASES:
                if phase is Phase.ARRIVE:
                    self._arrive(step)
                elif phase is Phase.LOAD_EARLY:
                    if following is not None:
                        self._load(following, *early)
                    self._load_ahead(step)
                elif phase is Phase.COMPUTE:
                    self._fetch(misses[min(step.index, len(misses) - 1)])
                    self._call(step)
                elif phase is Phase.STORE:
                    self._store(step)
                elif phase is Phase.LOAD_LATE and following is not None:
                    self._load(following, *late)
                self._now += meetings.get(phase, 0)
        return self._result(len(steps))

    def _result(self, calls: int) -> PartTimeline:
        end = max([self._now, *self._stored])
        if self._stores and self._costs.cores_store:
            end += self._costs.hierarchy.barrier_cycles
        if self._costs.hierarchy.instructions is not None:
            end += self._slowing(end)  # the code that follows is not in the cache
        stall = self._stall + self._blocked + end - self._now
        found = LayerEstimate(
            round(end),
            round(self._compute),
            round(self._busy),
            round(stall),
            self._costs.layer.macs / end if end else 0.0,
            self._link_name if self._busy > self._compute else "compute",
        )
        traffic = Traffic(calls, self._transfers, self._bytes)
        return PartTimeline(found, traffic, (), max(0.0, self._free - end))

    def _event(self, lane: str, name: str, step: int, start: float, end: float) -> None:
        if self._record is not None:
            self._record(Event(lane, name, step, start, end))

    # -- phases of a tile ---------------------------------------------------------------------

    def _arrive(self, step: TileStep) -> None:
        """Wait for the loads of a tile, and for the store that still uses its output buffer."""
        ready = max(self._now, self._loaded, self._stored[step.y_slot] if step.store_y else 0.0)
        self._stall += ready - self._now
        self._now = ready
        self._loaded = 0.0

    def _load(self, step: TileStep, x: bool, w: bool) -> None:
        """Start the loads of a tile: those of constants (w) and of inputs (x) that it needs."""
        schedule, costs = self._schedule, self._costs
        if w and step.load_w:
            c_out, (_, c_in) = schedule.c_out[step.o].size, schedule.input_channels(step)
            self._wait_for("load w", step, costs.copy("w", c_out, c_in))
        if x and step.load_x:
            h, column = schedule.h[step.h], schedule.w[step.w]
            _, channels = schedule.input_channels(step)
            for k, name in enumerate(self._moved):
                layer, operand = costs.layer, OPERANDS.index(name)
                (_, rows), (_, columns) = (read_span(layer, operand, s) for s in (h, column))
                charge = costs.copy(name, rows, columns, channels)
                self._wait_for("load x2" if k else "load x", step, charge)

    def _wait_for(self, name: str, step: TileStep, charge: Charge) -> None:
        """Start a load that the tile waits for."""
        self._loaded = max(self._loaded, self._start(name, step.index, charge))

    def _load_ahead(self, step: TileStep) -> None:
        """Start the weight prefetch, where it starts at this tile."""
        ahead = self._ahead
        if ahead is not None and ahead.tile == step.index:
            self._start(f"load w of layer {ahead.layer}", ahead.tile, ahead.charge)
            if ahead.by_words:
                self._words = ahead.charge.cycles - ahead.charge.issue_cycles

    def _fetch(self, misses: Misses) -> None:
        """Fetch instructions that are not in the cache, while transfers may be in flight."""
        self._now += misses.cycles + min(misses.waits, self._slowing(self._now))

    def _slowing(self, now: float) -> float:
        """Return the cycles for which instructions wait for transfers in flight."""
        left = max(self._free - now, 0.0)
        return left - (1 - self._words_wait) * min(self._words, left)

    def _call(self, step: TileStep) -> None:
        """Compute a tile."""
        cycles: float = self._costs.compute(self._schedule, step)
        cycles += self._contention * min(max(self._free - self._now, 0.0), cycles)
        self._event("cores", "compute", step.index, self._now, self._now + cycles)
        self._compute += cycles
        self._now += cycles

    def _store(self, step: TileStep) -> None:
        """Start the store of a tile's output where it is complete."""
        if step.store_y and self._stores:
            schedule = self._schedule
            spans = (schedule.c_out[step.o], schedule.h[step.h], schedule.w[step.w])
            charge = self._costs.copy("y", *(span.size for span in spans))
            self._stored[step.y_slot] = self._start("store y", step.index, charge)

    def _start(self, name: str, step: int, charge: Charge) -> float:
        """Start a transfer; return when it is done."""
        began = self._now
        now = began + charge.issue_cycles
        self._now = now
        self._transfers += charge.commands
        self._bytes += charge.bytes
        if not charge.commands:  # the cores copy
            self._busy += charge.cycles
            self._blocked += charge.cycles
            self._event(self._link_name, name, step, began, now)
            return now
        # Of a transfer's cycles the issuing core spends issue_cycles, the engine the others.
        work = max(charge.cycles - charge.issue_cycles, 0.0)
        begin = max(now, self._free)
        self._free, self._words = begin + work, 0.0
        self._busy += work
        self._event(self._link_name, name, step, begin, self._free)
        if self._blocking:
            self._blocked += self._free - began
            self._now = self._free
        return self._free
