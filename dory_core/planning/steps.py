"""The steps of a network: its layers with tile loops, buffers, places of operands and estimates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from dory_core.errors import NotSupported
from dory_core.hardware.copies import IMPOSSIBLE, Carriage
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Layer
from dory_core.ir.layout import Layout
from dory_core.kernels.call import OPERANDS, FunctionCall
from dory_core.kernels.kernel import Traits
from dory_core.plan import (
    Ahead,
    Conversion,
    Form,
    KernelCall,
    LayerStep,
    OperandPlan,
    PartPlan,
    Place,
    TakenRows,
)
from dory_core.plan.block_ids import BlockId
from dory_core.planning.decision import Decision, L1Residence, Residency
from dory_core.planning.layouts import StoredTensor, conversions_before
from dory_core.planning.sequence.network_parts import NetworkParts
from dory_core.planning.sequence.part_sequence import Arrival, PartSequence, Run, same_inputs
from dory_core.schedule.copies import LayerCopies, weight_unit
from dory_core.schedule.costs import LayerCosts, link_name
from dory_core.schedule.loops import PlacedBuffer, Schedule, place_l1
from dory_core.schedule.timeline import (
    AheadLoad,
    LayerEstimate,
    PartTimeline,
    Traffic,
    part_timeline,
)
from dory_core.tiling.in_place import MEMORY_BOUND, scratch_buffers, whole_timeline
from dory_core.tiling.outer import Part, channel_offset, input_channel
from dory_core.tiling.part_layers import part_schedules
from dory_core.tiling.parts import split_is_whole
from dory_core.tiling.tiled import TiledLayer


def schedules_of(layer: Layer, tiled: TiledLayer, todo: Sequence[Part]) -> tuple[Schedule, ...]:
    """Return the tile loops of the parts of a layer.

    Args:
        layer: The layer.
        tiled: Its largest part, with its tile.
        todo: The parts.
    """
    schedule = tiled.schedule
    if len(todo) == 1:
        return (schedule,)
    tile, copies = tiled.tiling.tile, schedule.buffering
    return part_schedules(layer, todo, tile, copies, schedule.order, schedule.has_weights)


def make_steps(
    network: NetworkParts,
    program: PartSequence,
    residency: Residency,
    blocks: Mapping[BlockId, Place],
    in_stripes: Mapping[str, Place],
    hierarchy: MemoryHierarchy,
    decision: Decision,
) -> tuple[LayerStep, ...]:
    """Return the steps of a network without the constants of its layers.

    Args:
        network: The layers and how they may be cut.
        program: The sequence of all their parts.
        residency: Tiles of the layers, and what stays in L1.
        blocks: Places of the blocks of L2.
        in_stripes: Places of tensors of which L2 has only stripes.
        hierarchy: The memories and links of the target.
        decision: Splits, and which first constants are loaded by an earlier layer.

    Raises:
        NotSupported: When neither DMA nor cores can make a copy.
    """
    flow = network.flow
    steps: list[LayerStep] = []
    arrivals: dict[int, float] = {}
    before: TiledLayer | None = None
    inputs = enumerate(flow.inputs)
    taken = {name: (k, in_stripes[name]) for k, name in inputs if name in in_stripes}
    for n, (tiled, stay) in enumerate(zip(residency.tiled, residency.layers, strict=True)):
        runs = program.runs_of(n)
        operands = tuple(
            _in_l1(flow.forms[name], stay.offsets[buffer])
            if buffer in stay.found
            else in_stripes.get(name) or blocks[runs[0].inputs[k][0]]
            for k, (buffer, name) in enumerate(zip(OPERANDS, flow.reads[n], strict=False))
        )
        made = flow.forms[flow.writes[n]]
        kept = [_in_l1(flow.forms[name], offset) for name, offset in stay.beside.items()]
        if stay.leaves:
            kept.append(_in_l1(made, stay.offsets["y"]))
        output = (
            in_stripes.get(made.name) or blocks[BlockId(made.name)] if stay.stored else kept[-1]
        )
        whole = not tiled.in_place and split_is_whole(decision.splits[n])
        costs = tiled.costs_after(before) if whole else tiled.costs
        before = before if tiled.view else tiled
        maker = _StepMaker(
            network.layers[n], tiled, costs, operands, output, blocks, hierarchy, taken, in_stripes
        )
        changes = conversions_before(flow, n, blocks, hierarchy)
        user, load = decision.prefetches.get(n, (0, None))
        arrives = arrivals.get(n)
        step = maker.step(runs, program.positions_of(n), stay, tuple(kept), changes, arrives, load)
        split = decision.splits[n]
        if split.chain > 1:
            step = replace(step, chain=split.chain, chain_end=n - split.place + split.chain)
        if load is not None:
            arrivals[user] = step.timelines[-1].left
            fetched = program.runs_of(user)[0].weights is not None
            step = replace(step, ahead=Ahead(user, load.tile, fetched, load.by_words))
        steps.append(step)
    return tuple(steps)


def _in_l1(form: StoredTensor, offset: int) -> Place:
    return Place(form.tensor, 1, offset, 0, form.layout)


@dataclass(frozen=True, slots=True)
class _StepMaker:
    """A layer, its largest part, and where its tensors and blocks of L2 lie.

    Attributes:
        layer: The layer.
        tiled: Its largest part.
        costs: Its costs after the layer before it.
        operands, output: Places of its tensors.
        blocks: Places of the blocks of L2.
        hierarchy: The memories and links of the target.
        taken: Number and place of each network input that comes by rows, by name.
        passing: Places of tensors of which L2 has only stripes, by name.
    """

    layer: Layer
    tiled: TiledLayer
    costs: LayerCosts
    operands: tuple[Place, ...]
    output: Place
    blocks: Mapping[BlockId, Place]
    hierarchy: MemoryHierarchy
    taken: Mapping[str, tuple[int, Place]]
    passing: Mapping[str, Place]

    def step(
        self,
        runs: Sequence[Run],
        positions: Sequence[int],
        stay: L1Residence,
        kept: tuple[Place, ...],
        conversions: tuple[Conversion, ...],
        arrives: float | None,
        load: AheadLoad | None,
    ) -> LayerStep:
        """Return the step.

        Args:
            runs: The parts of the layer.
            positions: Of each of them, in the execution.
            stay: Which tensors of the layer stay in L1.
            kept: What lies in L1 after the layer.
            conversions: Those that run before it.
            arrives: Cycles until its first constants, which an earlier layer loads, are there;
                None: it loads them.
            load: What it loads for a later layer.
        """
        layer, tiled, traits = self.layer, self.tiled, self.tiled.traits
        whole = len(runs) == 1
        schedules = schedules_of(layer, tiled, [run.part for run in runs])
        parts = tuple(map(self._part, runs, positions, schedules))
        if positions[-1] - positions[0] == len(runs) - 1 and not whole and not tiled.in_place:
            same = same_inputs([part.schedule for part in parts], runs)
            parts = tuple(replace(p, finds_inputs=s) for p, s in zip(parts, same, strict=True))
        carriages = {} if tiled.in_place else self._carriages(parts, stay.unmoved)
        timelines = self._timelines(parts, stay.unmoved, carriages, arrives, load)
        *forms, made = self._forms(parts, stay)
        pairs = zip(forms, self.operands, traits.inputs, strict=False)
        return LayerStep(
            layer=layer,
            kernel=self._call(),
            rejections=tiled.rejections,
            tiling=tiled.tiling,
            parts=parts,
            l1=self._buffers(stay),
            inputs=tuple(OperandPlan(*one) for one in pairs),
            output=OperandPlan(made, self.output, traits.output),
            weights=None,
            estimate=self._estimate(timelines),
            timelines=timelines,
            conversions=conversions,
            passed_over=tiled.passed_over,
            kept=kept,
            carriages=carriages,
            is_view=tiled.view,
            loaded_ahead=arrives is not None,
        )

    def _part(self, run: Run, position: int, schedule: Schedule) -> PartPlan:
        layer, output, blocks = self.layer, self.output, self.blocks
        first = run.part.group_span[0]
        inputs = tuple(
            place.offset
            if place.level == 1
            else blocks[block].offset
            + at
            + channel_offset(place.tensor, input_channel(layer, operand, first), place.layout)
            for operand, (place, (block, at)) in enumerate(
                zip(self.operands, run.inputs, strict=True)
            )
        )
        block, at = run.output
        start = output.offset if output.level == 1 else blocks[block].offset + at
        report = None
        if run.report is not None:
            block, at, size = run.report
            report = ((output.offset if output.level == 1 else blocks[block].offset) + at, size)
        moves = None
        if run.moves is not None:
            moves = (blocks[run.output[0]].offset + run.moves.source, run.moves.size)
        return PartPlan(
            position,
            schedule,
            inputs,
            start + channel_offset(layer.output, first, output.layout),
            run.part.group if run.weights is not None else 0,
            None if run.weights is None else blocks[run.weights].offset,
            report,
            (run.part.stripe_span.start, run.part.stripe_span.size),
            moves,
            takes=tuple(map(self._taken, run.arrivals)),
            early=tuple(
                (self.passing[block.tensor], blocks[block].offset + moved.source, moved.size)
                for block, moved in run.early
            ),
        )

    def _taken(self, arrival: Arrival) -> TakenRows:
        number, place = self.taken[arrival.tensor]
        block, at = arrival.output
        start, moves = self.blocks[block].offset, arrival.moves
        return TakenRows(
            number,
            place,
            start + at,
            arrival.first // place.row_bytes,
            arrival.size // place.row_bytes,
            None if moves is None else (start + moves.source, moves.size),
        )

    def _call(self) -> KernelCall:
        if self.tiled.view:
            return KernelCall("view", "", (), FunctionCall("", {}))
        bound, fetches = self.tiled.bound, self.tiled.traits.fetches
        kernel = bound.kernel
        return KernelCall(
            kernel.name, bound.symbol, bound.headers, bound.call, kernel.engine, fetches
        )

    def _buffers(self, stay: L1Residence) -> tuple[PlacedBuffer, ...]:
        tiled = self.tiled
        if tiled.view:
            return ()
        if tiled.in_place:
            return place_l1(scratch_buffers(tiled.layer, tiled.bound, tiled.tiling.tile))
        return place_l1(tiled.buffers(stay.in_l1), stay.offsets, stay.second_weights)

    def _forms(self, parts: Sequence[PartPlan], stay: L1Residence) -> tuple[Form, ...]:
        """Return how tiles of the operands and of the output move."""
        traits, first = self.tiled.traits, parts[0].schedule
        if self.tiled.in_place:
            return (Form.IN_PLACE,) * (len(self.operands) + 1)
        spans = {(span.start, span.size) for part in parts for span in part.schedule.c_out}
        whole = spans == {(0, self.layer.output.channels)}
        all_inputs = whole if first.is_channelwise else len(first.c_in) == 1
        inputs = (
            Form.RESIDENT
            if name in stay.found
            else _input_form(
                self.layer, traits, layout, all_inputs or self.layer.whole_axes(operand)[0]
            )
            for operand, (name, layout) in enumerate(zip(OPERANDS, traits.inputs, strict=False))
        )
        return (*inputs, _form(traits.output, whole) if stay.stored else Form.RESIDENT)

    def _carriages(
        self, parts: Sequence[PartPlan], resident: Collection[str]
    ) -> dict[str, Carriage]:
        """Return how the copies of each operand are made."""
        layer = self.layer
        names = OPERANDS[: len(layer.inputs)]
        bases = {name: [part.inputs[k] for part in parts] for k, name in enumerate(names)}
        bases["y"] = [part.output for part in parts]
        schedules = [part.schedule for part in parts]
        unit = weight_unit(self.hierarchy)
        moves = LayerCopies(layer, self.tiled.bound, resident, unit, schedules)
        found = moves.carriages(self.hierarchy, bases)
        for operand, carriage in found.items():
            if carriage.by == IMPOSSIBLE:
                raise NotSupported(
                    f"{layer.op.kind} '{layer.op.name}': the DMA cannot move its {operand}, and "
                    f"the cores do not reach both levels: {carriage.reason}",
                    "make its channels or rows a multiple of what the DMA moves, give the kernel a "
                    "layout that pads them, or raise --l1 so that a tensor is one tile",
                )
        return found

    def _timelines(
        self,
        parts: Sequence[PartPlan],
        resident: Collection[str],
        carriages: Mapping[str, Carriage],
        arrives: float | None,
        load: AheadLoad | None,
    ) -> tuple[PartTimeline, ...]:
        """Return the timeline of each part.

        Args:
            parts: The parts.
            resident: Operands that are not moved.
            carriages: How the copies of the others are made.
            arrives: As for :meth:`step`, of the first part.
            load: As for :meth:`step`, of the last one.
        """
        layer, tiled, hierarchy = self.layer, self.tiled, self.hierarchy
        if tiled.view:
            return (PartTimeline(tiled.estimate, Traffic(0, 0, 0), ()),)
        schedules = [part.schedule for part in parts]
        if tiled.in_place:
            memories = dict(zip(OPERANDS, (p.memory for p in self.operands), strict=False))
            memories["y"] = self.output.memory

            @cache
            def in_place(part: Schedule | None) -> PartTimeline:
                return whole_timeline(layer, tiled.bound, hierarchy, memories, part)

            return tuple(map(in_place, schedules if len(parts) > 1 else (None,)))
        costs = self.costs.in_loops(*schedules, carriages=carriages)

        nones = (None,) * (len(parts) - 1)
        ends = zip((arrives, *nones), (*nones, load), strict=True)
        found, with_inputs = frozenset(resident), frozenset((*resident, *OPERANDS))
        pairs = zip(parts, _tiles_before(parts), ends, strict=True)
        return tuple(
            part_timeline(
                costs.after(before) if before else costs,
                part.schedule,
                with_inputs if part.finds_inputs else found,
                *end,
            )
            for part, before, end in pairs
        )

    def _estimate(self, timelines: Sequence[PartTimeline]) -> LayerEstimate:
        """Return the estimate of parts that run one after the other."""
        if len(timelines) == 1:
            return timelines[0].estimate
        cycles, compute, dma, stall = (
            sum(getattr(t.estimate, name) for t in timelines)
            for name in ("cycles", "compute_cycles", "dma_cycles", "stall_cycles")
        )
        bound = link_name(self.hierarchy.link(1)) if dma > compute else "compute"
        if self.tiled.in_place and stall > compute:
            bound = MEMORY_BOUND
        macs = self.layer.macs / cycles if cycles else 0.0
        return LayerEstimate(cycles, compute, dma, stall, macs, bound)


def _tiles_before(parts: Sequence[PartPlan]) -> Iterator[int]:
    """Yield the tiles of the parts that run right before each part, without another layer's."""
    before, following = 0, None
    for part in parts:
        before = before if part.position == following else 0
        yield before
        before, following = before + part.schedule.count, part.position + 1


def _input_form(layer: Layer, traits: Traits, layout: Layout, all_channels: bool) -> Form:
    if layer.op.reads_vector and not layout.is_hwc:
        return Form.ROWS  # the whole tensor
    if traits.planar and layout.is_hwc:
        return Form.CHANNELS
    return _form(layout, all_channels)


def _form(layout: Layout, all_channels: bool) -> Form:
    """Return how tiles of a tensor move."""
    if layout.channel_block:
        return Form.BLOCKS
    return Form.ROWS if all_channels else Form.PIXELS
