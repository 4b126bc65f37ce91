"""Layers with constants encoded and buffers placed: what resident and streamed plans share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dory_core.binding import BoundKernel
from dory_core.blocks import Block, Request, align_up
from dory_core.budgets import Budgets
from dory_core.copies import IMPOSSIBLE, Carriage
from dory_core.errors import DoryError, NotSupported
from dory_core.estimate.moves import LayerMoves, weight_unit
from dory_core.estimate.timeline import (
    LayerCosts,
    LayerEstimate,
    PartTimeline,
    link_name,
    part_timeline,
)
from dory_core.hardware import MemoryHierarchy, TargetContext
from dory_core.ir import Layer, Linear
from dory_core.ir.layout import Layout
from dory_core.kernel import Kernel, Traits
from dory_core.plan import (
    BLOCKS,
    IN_PLACE,
    RESIDENT,
    Conversion,
    ExtTransfer,
    KernelCall,
    LayerStep,
    LayerWeights,
    LevelUse,
    OperandPlan,
    PartPlan,
    Place,
    WeightChunk,
    WeightTile,
)
from dory_core.planning.layouts import LayoutPlan, StoredTensor
from dory_core.planning.residence import MOVED, L1Residence, Residency
from dory_core.planning.sequence import PartSequence, Sequencer
from dory_core.tiles.schedule import OPERANDS, Schedule, l1_buffers, place_l1
from dory_core.tiling.in_place import scratch_buffers, whole_timeline
from dory_core.tiling.outer import Part, part_schedule
from dory_core.tiling.tiled import TiledLayer

WORD = 4  # constants are tables of 32-bit words
L3_IMAGE = "weights/l3.bin"  # what L3 holds before the first inference


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """A network with everything in its place, whether it fits the budgets or not.

    arena_bytes: of the first memory of L2, for activations and streamed data; more_l2_bytes: of its
    other memories. static_bytes: linked constants, in level static_level. blocks: of L2 and L3.
    image: what L3 holds before the first inference. constants_apart: bytes of L3 from its start
    that lie in a memory for constants alone, outside the budget. stack_bytes, packed_bytes: peak of
    L2 by both methods, as if it were one memory. straddles: why the activations do not fit the
    memories of L2 without one that lies in two of them; the placement is then that of one memory.
    wanted: what is to be placed in L2 beside constants, where nothing is streamed.
    final_conversions: of network outputs, behind the last layer.
    """

    steps: tuple[LayerStep, ...]
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    arena_bytes: int
    static_bytes: int
    l2_blocks: tuple[Block, ...]
    stack_bytes: int
    packed_bytes: int
    l3_blocks: tuple[Block, ...] = ()
    l3_bytes: int = 0
    image: bytes = b""
    constants_apart: int = 0
    transfers: tuple[ExtTransfer, ...] = ()
    notes: tuple[str, ...] = field(default=())
    more_l2_bytes: tuple[int, ...] = ()
    static_level: int = 2
    straddles: str = ""
    wanted: tuple[Request, ...] = ()
    final_conversions: tuple[Conversion, ...] = ()

    @property
    def conversions(self) -> tuple[Conversion, ...]:
        """All changes of layout."""
        return (*(c for step in self.steps for c in step.conversions), *self.final_conversions)

    def static_in(self, level: int) -> int:
        """Return the bytes of constants that are linked into a level."""
        return self.static_bytes if level == self.static_level else 0

    @property
    def l2_bytes(self) -> int:
        """Bytes of L2 in all."""
        return self.arena_bytes + sum(self.more_l2_bytes) + self.static_in(2)

    def levels(self, ctx: TargetContext, budgets: Budgets) -> tuple[LevelUse, ...]:
        """Return how each memory level is used."""
        l1_blocks = tuple(block for step in self.steps for block in _l1_blocks(step))
        uses = [
            LevelUse("L1", max(step.l1_bytes for step in self.steps), budgets.bytes[1], l1_blocks),
            LevelUse(
                "L2",
                self.l2_bytes,
                budgets.bytes[2],
                self.l2_blocks,
                self.stack_bytes,
                self.packed_bytes,
            ),
        ]
        for level in ctx.memory.levels:
            if level.number > 2:
                number = level.number
                mine = (self.l3_bytes, self.l3_blocks) if number == 3 else (0, ())
                used = mine[0] + self.static_in(number)
                budget = budgets.bytes[number] + (self.constants_apart if number == 3 else 0)
                uses.append(LevelUse(level.name, used, budget, mine[1]))
        return (*uses, *self._fetched(ctx))

    def _fetched(self, ctx: TargetContext) -> tuple[LevelUse, ...]:
        """Return how the memories that kernels fill with constants are used."""
        uses = []
        for memory in ctx.memory.level(1).apart:
            blocks = tuple(
                Block(
                    f"weights_{step.index:02d}",
                    0,
                    max(tile.size for c in step.weights.chunks for row in c.tiles for tile in row),
                    step.parts[0].position,
                    step.parts[-1].position,
                )
                for step in self.steps
                if step.weights is not None and step.kernel.fetches in memory.holds
            )
            used = max((block.size for block in blocks), default=0)
            uses.append(LevelUse(f"L1 {memory.name}", used, memory.usable_bytes, blocks))
        return tuple(uses)


def _l1_blocks(step: LayerStep) -> Iterator[Block]:
    """Yield the buffers of a layer in L1, and what lies beside them."""
    first, last = step.parts[0].position, step.parts[-1].position
    layer = f"layer_{step.index:02d}"
    for buffer in step.l1:
        for copy, offset in enumerate(buffer.offsets):
            yield Block(f"{layer}.{buffer.name}.{copy}", offset, buffer.bytes, first, last)
    for place in step.beside:
        yield Block(f"{layer}.{place.tensor.name}", place.offset, place.size_bytes, first, last)


def encode_chunks(
    layer: Layer,
    kernel: Kernel,
    schedules: Sequence[tuple[int, Schedule]],
    most: int,
    unit: int = 1,
    chunk_unit: int = 1,
) -> tuple[WeightChunk, ...]:
    """Return the constants of a layer, one chunk per group of output channels.

    schedules: first output channel of each group and a tile loop that covers the group. most: bytes
    of the buffer in L1 that a block is loaded into. unit, chunk_unit: blocks are padded to
    multiples of the one, chunks start on multiples of the other.

    Raises: DoryError when a block of the kernel is larger than it said.
    """
    chunks: list[WeightChunk] = []
    offset = 0
    for first, schedule in schedules:
        data = bytearray()
        rows: list[tuple[WeightTile, ...]] = []
        for output in schedule.c_out:
            row: list[WeightTile] = []
            for source in schedule.c_in:
                block = kernel.weight_block(
                    layer,
                    (first + output.start, first + output.start + output.size),
                    (source.start, source.start + source.size),
                )
                if block is None:
                    raise TypeError(f"kernel {kernel.name} has weight_bytes but no weight_block")
                if len(block.data) > most:
                    raise DoryError(
                        f"{layer.op.kind} '{layer.op.name}': a weight_block of kernel "
                        f"{kernel.name} has {len(block.data)} bytes, its weight_bytes says {most}",
                        "report this to the authors of the kernel",
                    )
                padded = block.data + bytes(-len(block.data) % unit)
                row.append(WeightTile(len(data), len(padded), output.size, block.parts))
                data += padded
            rows.append(tuple(row))
        chunks.append(WeightChunk(offset, bytes(data), tuple(rows)))
        offset += align_up(len(data), max(WORD, chunk_unit))
    return tuple(chunks)


def weight_buffer_bytes(tiled: TiledLayer) -> int:
    """Return the bytes of the buffer in L1 for the constants of a tile; 0 without constants.

    For a layer in place, those of its one block; those that a kernel fetches itself likewise.
    """
    if tiled.in_place or tiled.traits.fetches:
        return int(tiled.kernel.weight_bytes(tiled.layer, tiled.tiling.tile))
    return next((int(b.bytes) for b in tiled.tiling.buffers if b.name == "w"), 0)


def table_size(chunks: Sequence[WeightChunk]) -> int:
    """Return the bytes of the table that the chunks form."""
    return chunks[-1].offset + align_up(len(chunks[-1].data), WORD)


def table_bytes(weights: LayerWeights) -> bytes:
    """Return the table of a layer's constants."""
    table = bytearray(weights.size)
    for chunk in weights.chunks:
        table[chunk.offset : chunk.offset + len(chunk.data)] = chunk.data
    return bytes(table)


def part_schedules(
    layers: Sequence[Layer], tiled: Sequence[TiledLayer], program: PartSequence
) -> tuple[Schedule, ...]:
    """Return the tile loop of the part at each position."""
    return tuple(
        tiled[run.layer].schedule
        if program.first[run.layer] == program.last[run.layer]
        else schedule_of(layers[run.layer], tiled[run.layer], run.part)
        for run in program.runs
    )


def schedule_of(layer: Layer, tiled: TiledLayer, part: Part) -> Schedule:
    """Return the tile loop of a part of a layer. tiled: its largest part."""
    schedule, tile = tiled.schedule, tiled.tiling.tile
    copies = schedule.buffering
    return part_schedule(layer, part, tile, copies, schedule.order, schedule.has_weights)


def place_steps(
    network: Sequencer,
    program: PartSequence,
    residency: Residency,
    blocks: Mapping[str, Place],
    below: Mapping[str, Place],
    hierarchy: MemoryHierarchy,
) -> tuple[LayerStep, ...]:
    """Return the steps of a network without the constants of its layers.

    program: of all layers. residency: what stays in L1, and the layers. blocks: of L2, by name.
    below: where tensors lie that pass through L2 in stripes.
    """
    flow = network.flow
    schedules = part_schedules(network.layers, residency.tiled, program)
    steps = []
    for n, (layer, tiled, stay) in enumerate(
        zip(network.layers, residency.tiled, residency.stays, strict=True)
    ):
        runs = program.runs[program.first[n] : program.last[n] + 1]
        operands = [
            _in_l1(flow.forms[name], stay.offsets[buffer])
            if buffer in stay.found
            else below.get(name) or blocks[runs[0].inputs[k][0]]
            for k, (buffer, name) in enumerate(zip(OPERANDS, flow.reads[n], strict=False))
        ]
        made = flow.forms[flow.writes[n]]
        kept = [_in_l1(flow.forms[name], offset) for name, offset in stay.beside.items()]
        if stay.leaves:
            kept.append(_in_l1(made, stay.offsets["y"]))
        output = below.get(made.name) or blocks[made.name] if stay.stored else kept[-1]
        parts = []
        for position, run in enumerate(runs, program.first[n]):
            inputs = tuple(
                place.offset if place.level == 1 else blocks[block].offset + at
                for place, (block, at) in zip(operands, run.inputs, strict=True)
            )
            block, at = run.output
            start = output.offset if output.level == 1 else blocks[block].offset + at
            report = None
            if run.report is not None:
                block, at, size = run.report
                base = output.offset if output.level == 1 else blocks[block].offset
                report = (base + at, size)
            parts.append(
                PartPlan(
                    position,
                    schedules[position],
                    inputs,
                    start + run.part.group_span[0] * layer.output.bits // 8,
                    run.part.group if run.weights is not None else 0,
                    None if run.weights is None else blocks[run.weights].offset,
                    report,
                )
            )
        places = {t.name: place for t, place in zip(layer.inputs, operands, strict=True)}
        places[layer.output.name] = output
        conversions = network_conversions(flow, n, blocks, hierarchy)
        steps.append(
            make_step(
                layer, tiled, tuple(parts), places, None, hierarchy, conversions, stay, tuple(kept)
            )
        )
    return tuple(steps)


def _in_l1(form: StoredTensor, offset: int) -> Place:
    return Place(form.tensor, 1, offset, 0, form.layout)


def network_conversions(
    flow: LayoutPlan, n: int, blocks: Mapping[str, Place], hierarchy: MemoryHierarchy
) -> tuple[Conversion, ...]:
    """Return the conversions before a layer; at the end for the number of layers."""
    return tuple(
        Conversion(blocks[source], blocks[target], _cycles(flow.forms[target], hierarchy))
        for source, target in flow.before[n]
    )


def _cycles(form: StoredTensor, hierarchy: MemoryHierarchy) -> int:
    """Return the estimated cycles of the conversion that makes a form."""
    filled = form.size_bytes if form.layout.padding_bytes(form.tensor) else 0
    copied = form.tensor.elements * hierarchy.conversion_cycles
    return round(copied + filled)


def make_step(
    layer: Layer,
    tiled: TiledLayer,
    parts: tuple[PartPlan, ...],
    places: Mapping[str, Place],
    weights: LayerWeights | None,
    hierarchy: MemoryHierarchy,
    conversions: tuple[Conversion, ...] = (),
    stay: L1Residence = MOVED,
    kept: tuple[Place, ...] = (),
) -> LayerStep:
    """Return the step of one layer.

    layer: whole; tiled: its largest part. places: of its output by name, and of its inputs.
    stay, kept: what stays in L1, and where it lies behind the layer.

    Raises NotSupported when neither DMA nor cores can make a copy.
    """
    if tiled.in_place:
        return _in_place_step(layer, tiled, parts, places, weights, hierarchy, conversions)
    traits = tiled.traits
    first = parts[0].schedule
    all_inputs = len(first.c_out if first.is_channelwise else first.c_in) == 1
    carriages = _carriages(layer, tiled.bound, parts, hierarchy, stay.unmoved)
    timelines = part_timelines(layer, tiled.bound, parts, hierarchy, stay.unmoved, carriages)
    whole = {(span.start, span.size) for part in parts for span in part.schedule.c_out} == {
        (0, layer.output.channels)
    }
    return LayerStep(
        layer=layer,
        kernel=_call(tiled.bound, layer),
        rejections=tiled.rejections,
        tiling=tiled.tiling,
        parts=parts,
        l1=place_l1(
            l1_buffers(tiled.layer, tiled.bound, tiled.tiling.tile, tiled.schedule.buffering),
            stay.offsets,
        ),
        inputs=tuple(
            OperandPlan(
                RESIDENT if name in stay.found else _input_form(layer, traits, layout, all_inputs),
                places[tensor.name],
                layout,
            )
            for name, tensor, layout in zip(OPERANDS, layer.inputs, traits.inputs, strict=False)
        ),
        output=OperandPlan(
            _form(traits.output, whole) if stay.stored else RESIDENT,
            places[layer.output.name],
            traits.output,
        ),
        weights=weights,
        estimate=whole_estimate(layer, timelines, hierarchy),
        timelines=timelines,
        conversions=conversions,
        passed_over=tiled.passed_over,
        kept=kept,
        carriages=carriages,
    )


def _carriages(
    layer: Layer,
    bound: BoundKernel,
    parts: Sequence[PartPlan],
    hierarchy: MemoryHierarchy,
    resident: Collection[str],
) -> dict[str, Carriage]:
    """Return how the copies of each operand of a layer are made."""
    bases = {
        name: [part.inputs[k] for part in parts]
        for k, name in enumerate(OPERANDS[: len(layer.inputs)])
    }
    bases["y"] = [part.output for part in parts]
    moves = LayerMoves(layer, bound, resident, weight_unit(hierarchy))
    schedules = [part.schedule for part in parts]
    found = moves.carriages(hierarchy, schedules, bases=bases)
    for operand, carriage in found.items():
        if carriage.by == IMPOSSIBLE:
            raise NotSupported(
                f"{layer.op.kind} '{layer.op.name}': the DMA cannot move its {operand}, and the "
                f"cores do not reach both levels: {carriage.reason}",
                "make its channels or rows a multiple of what the DMA moves, give the kernel a "
                "layout that pads them, or raise --l1 so that a tensor is one tile",
            )
    return found


def _input_form(layer: Layer, traits: Traits, layout: Layout, all_channels: bool) -> str:
    if isinstance(layer.op, Linear) and not layout.is_hwc:
        return "rows"  # the whole tensor
    if traits.planar and layout.is_hwc:
        return "channels"
    return _form(layout, all_channels)


def _form(layout: Layout, all_channels: bool) -> str:
    """Return how tiles of a tensor move."""
    if layout.channel_block:
        return BLOCKS
    return "rows" if all_channels else "pixels"


def _call(bound: BoundKernel, layer: Layer) -> KernelCall:
    kernel = bound.kernel
    return KernelCall(
        kernel.name,
        kernel.symbol(layer),
        kernel.headers(layer),
        kernel.call(layer),
        kernel.engine,
        bound.traits.fetches,
    )


def _in_place_step(
    layer: Layer,
    tiled: TiledLayer,
    parts: tuple[PartPlan, ...],
    places: Mapping[str, Place],
    weights: LayerWeights | None,
    hierarchy: MemoryHierarchy,
    conversions: tuple[Conversion, ...],
) -> LayerStep:
    """Return the step of a layer whose kernel works where tensors and constants lie."""
    kernel, traits = tiled.kernel, tiled.traits
    names = {name: t.name for name, t in zip(OPERANDS, layer.inputs, strict=False)}
    names["y"] = layer.output.name
    memories = {operand: places[name].memory for operand, name in names.items()}
    timeline = whole_timeline(layer, kernel, hierarchy, memories)
    return LayerStep(
        layer=layer,
        kernel=_call(tiled.bound, layer),
        rejections=tiled.rejections,
        tiling=tiled.tiling,
        parts=parts,
        l1=place_l1(scratch_buffers(layer, tiled.bound, tiled.tiling.tile)),
        inputs=tuple(
            OperandPlan(IN_PLACE, places[tensor.name], layout)
            for tensor, layout in zip(layer.inputs, traits.inputs, strict=True)
        ),
        output=OperandPlan(IN_PLACE, places[layer.output.name], traits.output),
        weights=weights,
        estimate=timeline.estimate,
        timelines=(timeline,),
        conversions=conversions,
        passed_over=tiled.passed_over,
    )


def part_timelines(
    layer: Layer,
    bound: BoundKernel,
    parts: Sequence[PartPlan],
    hierarchy: MemoryHierarchy,
    resident: Collection[str] = (),
    carriages: Mapping[str, Carriage] | None = None,
) -> tuple[PartTimeline, ...]:
    """Return the timeline of each part; equal parts share one.

    resident: what stays in L1. carriages: how copies are made, of all parts alike.
    """
    costs = LayerCosts(layer, bound, hierarchy, resident=resident)
    costs = costs.of(*(part.schedule for part in parts), carriages=carriages)
    known: dict[Schedule, PartTimeline] = {}
    for part in parts:
        if part.schedule not in known:
            known[part.schedule] = part_timeline(costs, part.schedule)
    return tuple(known[part.schedule] for part in parts)


def whole_estimate(
    layer: Layer, timelines: Sequence[PartTimeline], hierarchy: MemoryHierarchy
) -> LayerEstimate:
    """Return the estimate of a layer that runs its parts one after the other."""
    if len(timelines) == 1:
        return timelines[0].estimate
    cycles, compute, dma, stall = (
        sum(getattr(t.estimate, name) for t in timelines)
        for name in ("cycles", "compute_cycles", "dma_cycles", "stall_cycles")
    )
    bound = link_name(hierarchy.link(1)) if dma > compute else "compute"
    return LayerEstimate(cycles, compute, dma, stall, layer.macs / cycles if cycles else 0.0, bound)
