"""Timeline of one layer: the steps of its Schedule with the overlap of the generated code.

The cores compute one step at a time; one DMA engine serves the transfers of a link in the order in
which they are started. ``dory_core.schedule.loops`` says when they are started and waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from dory_core.hardware.copies import Carriage, Charge, DmaCost
from dory_core.hardware.memories import Link, MemoryHierarchy
from dory_core.ir import Layer, Linear, pixel_bytes
from dory_core.ir.geometry import Tile
from dory_core.ir.places import whole_axes
from dory_core.kernels.binding import BoundKernel
from dory_core.schedule.loops import Phase, Schedule, TileStep, tile_phases
from dory_core.schedule.moves import PLAIN, LayerMoves, weight_unit


def link_name(link: Link) -> str:
    """Return the name of a link: ``L2-L1``."""
    return f"L{link.lower}-L{link.upper}"


@dataclass(frozen=True, slots=True)
class LayerEstimate:
    """What a layer costs on the cores, in their cycles.

    cycles: from the first transfer to the last. compute_cycles: in the kernel. dma_cycles: the link
    is busy. stall_cycles: the cores wait for the link. macs_per_cycle: MAC (0 for layers without
    them) by cycles. bound: ``compute``, or the link (``L2-L1``) when it is busy for longer than the
    cores.
    """

    cycles: int
    compute_cycles: int
    dma_cycles: int
    stall_cycles: int
    macs_per_cycle: float
    bound: str


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of the timeline. lane: ``cores`` or the link's name. start, end: in cycles."""

    lane: str
    name: str
    step: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a schedule does, as counts: calls of the kernel, transfers started, bytes they move."""

    calls: int
    transfers: int
    bytes: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.calls + other.calls, self.transfers + other.transfers, self.bytes + other.bytes
        )


@dataclass(frozen=True, slots=True)
class AheadLoad:
    """A load of another layer's first constants. layer: its index. tile: number of the tile behind
    whose arrival it starts, and behind the next tile's loads that start then."""

    layer: int
    tile: int
    charge: Charge


@dataclass(frozen=True, slots=True)
class PartTimeline:
    """One run of a tile loop: its estimate, what it moves, and every event in its own time.

    left: cycles behind its end for which the link is still busy with a load for another layer.
    """

    estimate: LayerEstimate
    traffic: Traffic
    events: tuple[Event, ...]
    left: float = 0.0


class LayerCosts:
    """Cycles of kernel calls and transfers of one layer, computed once per distinct tile.

    resident: tensors (x, x2, y) that stay in L1 and are not moved. schedules: the tile loops,
    where they are known (:meth:`of`). carriages: how the link makes the copies of each operand;
    without them they follow from the tile loops.
    """

    def __init__(
        self,
        layer: Layer,
        bound: BoundKernel,
        hierarchy: MemoryHierarchy,
        resident: Collection[str] = (),
        schedules: Sequence[Schedule] = (),
        carriages: Mapping[str, Carriage] | None = None,
    ) -> None:
        self.layer = layer
        self.bound = bound
        self.link = hierarchy.link(1)
        self.constants_link = hierarchy.constants_link
        self.link_name = link_name(self.link)
        self.barrier = hierarchy.barrier_cycles
        self.step = hierarchy.step_cycles
        self.moves = LayerMoves(layer, bound, resident, weight_unit(hierarchy), schedules)
        self.stores = "y" not in resident
        self.carriages = carriages
        if self.link.is_plain and self.constants_link.is_plain:
            self.carriages = PLAIN
        elif carriages is None and schedules:
            self.carriages = self.moves.carriages(hierarchy)
        self._bound, self._resident = bound, resident
        self._hierarchy = hierarchy
        self._compute: dict[tuple[int, ...], int] = {}
        self._x: dict[tuple[int, ...], tuple[Charge, ...]] = {}
        self._w: dict[tuple[int, int], Charge] = {}
        self._y: dict[tuple[int, int, int], Charge] = {}

    def of(
        self, *schedules: Schedule, carriages: Mapping[str, Carriage] | None = None
    ) -> LayerCosts:
        """Return the costs of the layer in these tile loops, or with copies that are made so."""
        if self.carriages is not None:
            return self
        other = LayerCosts(
            self.layer, self._bound, self._hierarchy, self._resident, schedules, carriages
        )
        other._compute = self._compute  # what a tile computes in does not depend on its copies
        return other

    def _charge(self, cost: DmaCost, operand: str, link: Link) -> Charge:
        assert self.carriages is not None
        return cost.charge(link, self.carriages[operand], self._hierarchy.cores)

    def compute(self, c_out: int, h: int, w: int, c_in: int, x_h: int, x_w: int) -> int:
        """Return the cycles of the kernel on a tile of these sizes."""
        key = (c_out, h, w, c_in, x_h, x_w)
        if key not in self._compute:
            self._compute[key] = self.bound.declared_cycles(Tile(*key))
        return self._compute[key]

    def load_x(self, rows: int, columns: int, channels: int) -> tuple[Charge, ...]:
        """Return what each transfer that loads an input tile costs (two for an Add)."""
        key = (rows, columns, channels)
        if key not in self._x:
            names = (name for name, _, _ in self.moves.moved)
            costs = zip(names, self.moves.inputs(*key), strict=True)
            self._x[key] = tuple(self._charge(cost, name, self.link) for name, cost in costs)
        return self._x[key]

    def shares_loads(self, x: bool, w: bool) -> bool:
        """Return whether every core starts or makes its share of a load. x, w: which ones count."""
        assert self.carriages is not None
        names = [*(name for name, _, _ in self.moves.moved if x), *(["w"] if w else [])]
        found = (self.carriages.get(name) for name in names)
        hwc = any(layout.is_hwc for _, _, layout in self.moves.moved)
        return (x and hwc and self.moves.planar) or any(
            one is not None and one.by_cores for one in found
        )

    @property
    def free_setup(self) -> int:
        """Cycles of the set-up of a transfer that no copy does without."""
        if not self.link.is_plain:
            return 0  # the cores may copy, which takes no set-up
        return max(self.link.setup_cycles - self.link.issue_cycles, 0)

    @property
    def bytes_per_cycle(self) -> float:
        """Most bytes per cycle of a copy."""
        rate, by_core = self.link.rate, self.link.core_cycles_per_byte
        if self.link.is_plain or not by_core:
            return rate
        return max(rate, self._hierarchy.cores / by_core)

    def input_cycles(self, rows: Any, columns: Any) -> Any:
        """Return the least cycles of moving all channels of rows * columns pixels, set-up apart.

        rows, columns: numbers or arrays. For a Linear the whole input counts, whatever they are.
        """
        per_byte = 1 / self.bytes_per_cycle
        if self.moves.planar and self.link.element_cycles:
            per_byte = min(per_byte, self.link.element_cycles)
        if isinstance(self.layer.op, Linear):
            return self.layer.inputs[0].size_bytes * per_byte
        pixel = whole = 0
        for operand, tensor in enumerate(self.moves.operands):
            if any(whole_axes(self.layer, operand)):
                whole += tensor.size_bytes  # at least once
            else:
                pixel += pixel_bytes(tensor.channels, tensor.bits)
        return (rows * columns * pixel + whole) * per_byte

    def load_w(self, c_out: int, c_in: int) -> Charge:
        """Return what the load of a weight block costs: one row."""
        key = (c_out, c_in)
        if key not in self._w:
            self._w[key] = self._charge(self.moves.weights(*key), "w", self.constants_link)
        return self._w[key]

    def table(self, schedule: Schedule) -> int:
        """Return the bytes of all blocks of constants."""
        if not schedule.has_weights:
            return 0
        blocks = Counter((o.size, i.size) for o in schedule.c_out for i in schedule.c_in)
        return sum(n * self.moves.weights(*sizes).bytes for sizes, n in blocks.items())

    def store_y(self, c_out: int, h: int, w: int) -> Charge:
        """Return what the store of an output tile costs."""
        key = (c_out, h, w)
        if key not in self._y:
            self._y[key] = self._charge(self.moves.output(*key), "y", self.link)
        return self._y[key]


def estimate(
    costs: LayerCosts, schedule: Schedule, record: Callable[[Event], None] | None = None
) -> LayerEstimate:
    """Return the cycles of a layer that runs ``schedule``; ``record`` receives every event."""
    return _run(costs, schedule, record).estimate


def first_weights(costs: LayerCosts, schedule: Schedule) -> Charge:
    """Return what the load of the first block of constants costs."""
    _, c_in = schedule.input_channels(next(schedule.steps()))
    return costs.of(schedule).load_w(schedule.c_out[0].size, c_in)


def _run(
    costs: LayerCosts,
    schedule: Schedule,
    record: Callable[[Event], None] | None,
    arrives: float | None = None,
    ahead: AheadLoad | None = None,
) -> PartTimeline:
    """Return a timeline without its events. For ``arrives`` and ``ahead`` see part_timeline."""
    costs = costs.of(schedule)
    walk = _Walk(costs, schedule, record)
    walk.free = arrives or 0.0
    steps = list(schedule.steps())
    x_late, w_late = schedule.buffering.x == 1, schedule.buffering.w == 1
    phases = tile_phases(costs.shares_loads(not x_late, not w_late))
    slots = [0.0] * schedule.buffering.y  # when the last store from each y slot is done
    now = 0.0
    loaded = 0.0  # when the data of the current step is there
    if steps:
        now, loaded = walk.load(steps[0], now, True, arrives is None)
        loaded = max(loaded, arrives or 0.0)
    compute = stall = 0.0
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        ready = max(now, loaded, slots[step.y_slot] if step.store_y else 0.0)
        stall += ready - now
        now = ready
        starts = ahead is not None and ahead.tile == step.index
        if ahead is not None and starts and following is None:
            now = walk.load_ahead(ahead, now)
        early = late = 0.0
        for phase in phases:
            if phase is Phase.MEET:
                now += costs.barrier + costs.step
            elif phase is Phase.LOAD_EARLY and following is not None:
                now, early = walk.load(following, now, not x_late, not w_late)
                if ahead is not None and starts:
                    now = walk.load_ahead(ahead, now)
        cycles = walk.compute(step)
        walk.event("cores", "compute", step.index, now, now + cycles)
        compute += cycles
        now += cycles + costs.barrier
        if step.store_y and costs.stores:
            now, slots[step.y_slot] = walk.store(step, now)
        if following is not None:
            now, late = walk.load(following, now, x_late, w_late)
        loaded = max(early, late)
    end = max([now, *slots])
    if costs.stores and costs.carriages and costs.carriages["y"].by_cores:
        end += costs.barrier
    stall += end - now
    cycles = round(end)
    found = LayerEstimate(
        cycles,
        round(compute),
        round(walk.busy),
        round(stall + walk.blocked),
        costs.layer.macs / end if end else 0.0,
        costs.link_name if walk.busy > compute else "compute",
    )
    traffic = Traffic(len(steps), walk.transfers, walk.bytes)
    return PartTimeline(found, traffic, (), max(0.0, walk.free - end))


class _Walk:
    """The DMA engine of one layer and the costs of its steps."""

    __slots__ = (
        "_blocking",
        "_record",
        "_schedule",
        "blocked",
        "busy",
        "bytes",
        "costs",
        "free",
        "transfers",
    )

    def __init__(
        self, costs: LayerCosts, schedule: Schedule, record: Callable[[Event], None] | None
    ) -> None:
        self.costs = costs
        self._schedule = schedule
        self._record = record
        self._blocking = costs.link.blocking
        self.blocked = 0.0  # cycles that the cores waited for transfers where these block
        self.free = 0.0  # when the engine has done everything started so far
        self.busy = 0.0
        self.transfers = self.bytes = 0

    def event(self, lane: str, name: str, step: int, start: float, end: float) -> None:
        if self._record is not None:
            self._record(Event(lane, name, step, start, end))

    def _start(self, name: str, step: int, now: float, charge: Charge) -> tuple[float, float]:
        """Start a transfer; return when the core goes on and when the transfer is done."""
        began = now
        now += charge.issue_cycles
        self.transfers += charge.commands
        self.bytes += charge.bytes
        if not charge.commands:  # the cores copy
            self.busy += charge.cycles
            self.blocked += charge.cycles
            self.event(self.costs.link_name, name, step, began, now)
            return now, now
        # Of a transfer's cycles the issuing core spends issue_cycles, the engine the others.
        work = max(charge.cycles - charge.issue_cycles, 0.0)
        begin = max(now, self.free)
        self.free = begin + work
        self.busy += work
        self.event(self.costs.link_name, name, step, begin, self.free)
        if self._blocking:
            self.blocked += self.free - began
            return self.free, self.free
        return now, self.free

    def load(self, step: TileStep, now: float, x: bool, w: bool) -> tuple[float, float]:
        """Start the wanted loads of ``step``; return (core goes on, data is there)."""
        schedule = self._schedule
        done = 0.0
        if x and step.load_x:
            h, column = schedule.h[step.h], schedule.w[step.w]
            _, channels = schedule.input_channels(step)
            for k, charge in enumerate(self.costs.load_x(h.x_size, column.x_size, channels)):
                now, done = self._start("load x2" if k else "load x", step.index, now, charge)
        if w and step.load_w:
            c_out, (_, c_in) = schedule.c_out[step.o].size, schedule.input_channels(step)
            now, done = self._start("load w", step.index, now, self.costs.load_w(c_out, c_in))
        return now, done

    def store(self, step: TileStep, now: float) -> tuple[float, float]:
        """Start the store of ``step``'s output; return (core goes on, data is out)."""
        schedule = self._schedule
        charge = self.costs.store_y(
            schedule.c_out[step.o].size, schedule.h[step.h].size, schedule.w[step.w].size
        )
        return self._start("store y", step.index, now, charge)

    def load_ahead(self, ahead: AheadLoad, now: float) -> float:
        """Start the load for another layer; return when the core goes on."""
        name = f"load w of layer {ahead.layer}"
        return self._start(name, ahead.tile, now, ahead.charge)[0]

    def compute(self, step: TileStep) -> int:
        """Return the cycles of the kernel on ``step``."""
        schedule = self._schedule
        h, w = schedule.h[step.h], schedule.w[step.w]
        _, channels = schedule.input_channels(step)
        return self.costs.compute(
            schedule.c_out[step.o].size, h.size, w.size, channels, h.x_size, w.x_size
        )


def part_timeline(
    costs: LayerCosts,
    schedule: Schedule,
    arrives: float | None = None,
    ahead: AheadLoad | None = None,
) -> PartTimeline:
    """Return everything that is known in advance about one run of ``schedule``.

    arrives: how many cycles after its start its first constants are there, which an earlier layer
    loads, and the link is free; None when it loads them itself. ahead: what it loads for a later
    layer.
    """
    events: list[Event] = []
    found = _run(costs, schedule, events.append, arrives, ahead)
    return replace(found, events=tuple(events))


def loaded_estimate(
    costs: LayerCosts, schedule: Schedule, arrives: float | None, ahead: AheadLoad | None
) -> tuple[int, float]:
    """Return the cycles of :func:`part_timeline`, and for how many more the link is busy."""
    found = _run(costs, schedule, None, arrives, ahead)
    return found.estimate.cycles, found.left


def lower_bound(costs: LayerCosts, schedule: Schedule) -> int:
    """Return cycles that ``estimate`` never undercuts, without looking at every step.

    The cores compute and meet at two barriers in every step, after the first load and before the
    last store.
    """
    costs = costs.of(schedule)
    axes = (schedule.c_out, schedule.h, schedule.w, schedule.c_in)
    sizes = [Counter((s.size, s.x_size) for s in spans) for spans in axes]
    total = (2.0 * costs.barrier + costs.step) * schedule.count
    for (o, n_o), (h, n_h), (w, n_w), (i, n_i) in product(*(axis.items() for axis in sizes)):
        channels = o[1] if schedule.is_channelwise else i[0]
        cycles = costs.compute(o[0], h[0], w[0], channels, h[1], w[1])
        total += cycles * n_o * n_h * n_w * n_i
    o0, h0, w0, i0 = (spans[0] for spans in axes)
    channels = o0.x_size if schedule.is_channelwise else i0.size
    total += costs.load_x(h0.x_size, w0.x_size, channels)[0].cycles
    last = (axis[-1].size for axis in axes[:3])
    total += costs.store_y(*last).cycles
    return int(total)
