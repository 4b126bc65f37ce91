"""From tiled layers to the Plan: constants, L2 placement, transfers, kernel calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dory_core.budgets import Budgets
from dory_core.errors import DoesNotFit, DoryError
from dory_core.hardware import DmaHal, OutputFile, TargetContext
from dory_core.ir import Graph
from dory_core.kernel import Kernel
from dory_core.memory import Block, MemoryPlan, plan_memory, requests, verify_packing
from dory_core.plan import (
    KernelCall,
    LayerStep,
    LayerWeights,
    LevelUse,
    Place,
    Plan,
    Transfer,
    WeightTile,
)
from dory_core.tiling.schedule import l1_buffers, place_l1
from dory_core.tiling.tiler import TiledLayer

ACTIVATION_LEVEL = 2
WORD = 4  # constants are linked as 32-bit words


@dataclass(frozen=True, slots=True)
class Placement:
    """Where everything lies, whether it fits or not.

    memory: activations in the L2 arena. weights: constants of each layer, None without any; their
    tables follow the arena. steps: the layers with their buffers in L1.
    """

    memory: MemoryPlan
    weights: tuple[LayerWeights | None, ...]
    steps: tuple[LayerStep, ...]
    places: Mapping[str, Place]

    @property
    def arena_bytes(self) -> int:
        """Bytes of the activations."""
        return self.memory.chosen.peak_bytes

    @property
    def static_bytes(self) -> int:
        """Bytes of the constants."""
        return sum(_align(len(w.data), WORD) for w in self.weights if w is not None)

    def levels(self, ctx: TargetContext, budgets: Budgets) -> tuple[LevelUse, ...]:
        """Return how each memory level is used."""
        l1_blocks = tuple(
            Block(f"layer_{step.index:02d}.{buffer.name}.{copy}", offset, buffer.bytes, n, n)
            for n, step in enumerate(self.steps)
            for buffer in step.l1
            for copy, offset in enumerate(buffer.offsets)
        )
        constants = tuple(
            Block(f"weights_{step.index:02d}", w.offset, len(w.data), -1, len(self.steps) - 1)
            for step, w in zip(self.steps, self.weights, strict=True)
            if w is not None
        )
        l1_used = max(step.l1_bytes for step in self.steps)
        rest = tuple(
            LevelUse(level.name, 0, budgets.bytes[level.number], ())
            for level in ctx.memory.levels
            if level.number > ACTIVATION_LEVEL
        )
        return (
            LevelUse("L1", l1_used, budgets.bytes[1], l1_blocks),
            LevelUse(
                "L2",
                self.arena_bytes + self.static_bytes,
                budgets.bytes[ACTIVATION_LEVEL],
                (*self.memory.chosen.blocks, *constants),
                self.memory.stack_bytes,
                self.memory.packed_bytes,
            ),
            *rest,
        )


def place_network(graph: Graph, tiled: Sequence[TiledLayer], ctx: TargetContext) -> Placement:
    """Place activations and constants, executed in ONNX order, all constants resident in L2."""
    memory = plan_memory(requests(graph, range(len(graph.layers))), _alignment(ctx))
    places = {
        b.name: Place(graph.tensors[b.name], ACTIVATION_LEVEL, b.offset)
        for b in memory.chosen.blocks
    }
    position = memory.chosen.peak_bytes
    weights: list[LayerWeights | None] = []
    steps: list[LayerStep] = []
    for layer in tiled:
        constants = _encode_weights(layer, position)
        if constants is not None:
            position += _align(len(constants.data), WORD)
        weights.append(constants)
        steps.append(_step(layer, places, constants))
    return Placement(memory, tuple(weights), tuple(steps), places)


def make_plan(
    graph: Graph,
    tiled: Sequence[TiledLayer],
    ctx: TargetContext,
    budgets: Budgets,
    frontend: str,
    hal: DmaHal | None,
) -> Plan:
    """Return the Plan of ``graph``.

    Raises: DoesNotFit with the bytes that activations and constants need.
    """
    placement = place_network(graph, tiled, ctx)
    budget = budgets.bytes[ACTIVATION_LEVEL]
    static = placement.static_bytes
    if placement.arena_bytes + static > budget:
        raise too_large(graph, placement, budget)
    verify_packing(
        requests(graph, range(len(graph.layers))),
        placement.memory.chosen,
        alignment=_alignment(ctx),
        capacity_bytes=budget - static,
        memory="L2",
    )
    return Plan(
        target=ctx.name,
        frontend=frontend,
        network=graph.name,
        options=ctx.options,
        steps=placement.steps,
        inputs=tuple(placement.places[name] for name in graph.inputs),
        outputs=tuple(placement.places[name] for name in graph.outputs),
        levels=placement.levels(ctx, budgets),
        arena_bytes={1: budgets.bytes[1], ACTIVATION_LEVEL: budget - static},
        static_bytes={ACTIVATION_LEVEL: static},
        cores=ctx.memory.cores,
        any_core=hal.any_core if hal is not None else False,
        dma_alignment=ctx.memory.link(1).alignment_bytes,
        files=_files(tiled, hal),
        operating_point=ctx.operating_point,
        reason=budgets.reason,
        notes=graph.notes,
    )


def _align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _alignment(ctx: TargetContext) -> int:
    level = ctx.memory.level(ACTIVATION_LEVEL)
    return max(m.alignment_bytes for m in level.memories if "activations" in m.holds)


def too_large(graph: Graph, placement: Placement, budget: int) -> DoesNotFit:
    """Return the error that says what of ``graph`` takes the room in L2."""
    needed: dict[int, list[Block]] = {}
    for block in placement.memory.chosen.blocks:
        for step in range(block.first, block.last + 1):
            needed.setdefault(step, []).append(block)
    step = max(needed, key=lambda s: sum(b.size for b in needed[s]))
    live = sorted(needed[step], key=lambda b: -b.size)
    texts = ", ".join(f"{b.name} {b.size} B" for b in live)
    where = f"layer {graph.layers[step].index}" if step >= 0 else "the network input"
    arena, static = placement.arena_bytes, placement.static_bytes
    return DoesNotFit(
        f"{graph.name} needs {arena + static} B of L2, {budget} B are available: "
        f"constants {static} B, activations {arena} B (largest at {where}: {texts})",
        "raise --l2 if the chip has more, or make the network smaller",
    )


def _encode_weights(tiled: TiledLayer, offset: int) -> LayerWeights | None:
    """Cut the constants of a layer into the blocks of its tiles, in the order of the tables."""
    schedule, kernel, layer = tiled.schedule, tiled.kernel, tiled.layer
    if not schedule.has_weights:
        return None
    most = next(b.bytes for b in tiled.tiling.buffers if b.name == "w")
    data = bytearray()
    tiles: list[list[WeightTile]] = []
    for output in schedule.c_out:
        row: list[WeightTile] = []
        for source in schedule.c_in:
            block = kernel.weight_block(
                layer,
                (output.start, output.start + output.size),
                (source.start, source.start + source.size),
            )
            if block is None:
                raise TypeError(f"kernel {kernel.name} has weight_bytes but no weight_block")
            if len(block.data) > most:
                raise DoryError(
                    f"{layer.layer.kind} '{layer.layer.name}': a weight_block of kernel "
                    f"{kernel.name} has {len(block.data)} bytes, its weight_bytes says {most}",
                    "report this to the authors of the kernel",
                )
            row.append(WeightTile(len(data), len(block.data), block.parts))
            data += block.data
        tiles.append(row)
    rows = tuple(tuple(row) for row in tiles)
    return LayerWeights(ACTIVATION_LEVEL, offset, bytes(data), rows)


def _step(
    tiled: TiledLayer, places: Mapping[str, Place], constants: LayerWeights | None
) -> LayerStep:
    layer, kernel, schedule = tiled.layer, tiled.kernel, tiled.schedule
    tile = tiled.tiling.tile
    full = len(schedule.c_out if schedule.keeps_channels else schedule.c_in) == 1
    form = "rows" if full else "pixels"
    if kernel.input_layout(layer) == "CHW":
        form = "channels"
    return LayerStep(
        layer=layer,
        kernel=KernelCall(
            kernel.name, kernel.symbol(layer), kernel.headers(layer), kernel.call(layer)
        ),
        rejections=tiled.rejections,
        tiling=tiled.tiling,
        schedule=schedule,
        l1=place_l1(l1_buffers(layer, kernel, tile, schedule.buffering)),
        inputs=tuple(Transfer(form, places[t.name]) for t in layer.inputs),
        output=Transfer(
            "rows" if len(schedule.c_out) == 1 else "pixels", places[layer.output.name]
        ),
        weights=constants,
        estimate=tiled.estimate,
    )


def _files(tiled: Iterable[TiledLayer], hal: DmaHal | None) -> tuple[OutputFile, ...]:
    files = list(hal.files) if hal is not None else []
    for layer in tiled:
        kernel: Kernel = layer.kernel
        files += kernel.sources(layer.layer)
    return tuple(files)
