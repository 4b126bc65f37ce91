"""From tiled layers to the Plan: constants, L2 placement, transfers, kernel calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dory_core.budgets import Budgets
from dory_core.errors import DoesNotFit
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


def make_plan(
    graph: Graph,
    tiled: Sequence[TiledLayer],
    ctx: TargetContext,
    budgets: Budgets,
    frontend: str,
    hal: DmaHal | None,
) -> Plan:
    """Return the Plan of ``graph``, executed in ONNX order, all weights resident in L2.

    Raises: DoesNotFit with the bytes that activations and constants need.
    """
    weights = [_encode_weights(layer) for layer in tiled]
    static = sum(_align(len(w.data), 4) for w in weights if w is not None)
    order = range(len(graph.layers))
    memory = _plan_activations(graph, order, ctx)
    budget = budgets.bytes[ACTIVATION_LEVEL]
    arena = memory.chosen.peak_bytes
    if arena + static > budget:
        raise _too_large(graph, memory, static, budget)
    verify_packing(
        requests(graph, order),
        memory.chosen,
        alignment=_alignment(ctx),
        capacity_bytes=budget - static,
        memory="L2",
    )

    offsets = {b.name: b.offset for b in memory.chosen.blocks}
    places = {
        name: Place(graph.tensors[name], ACTIVATION_LEVEL, offset)
        for name, offset in offsets.items()
    }
    steps: list[LayerStep] = []
    constant_blocks: list[Block] = []
    position = arena
    last = len(tiled) - 1
    for layer, constants in zip(tiled, weights, strict=True):
        if constants is not None:
            constants = LayerWeights(
                ACTIVATION_LEVEL, position, constants.data, constants.tiles
            )
            name = f"weights_{layer.layer.layer.index:02d}"
            constant_blocks.append(Block(name, position, len(constants.data), -1, last))
            position += _align(len(constants.data), 4)
        steps.append(_step(layer, places, constants))

    l1_used = max(step.l1_bytes for step in steps)
    l1_blocks = tuple(
        Block(f"layer_{step.index:02d}.{buffer.name}.{copy}", offset, buffer.bytes, n, n)
        for n, step in enumerate(steps)
        for buffer in step.l1
        for copy, offset in enumerate(buffer.offsets)
    )
    levels = [
        LevelUse("L1", l1_used, budgets.bytes[1], l1_blocks),
        LevelUse(
            "L2",
            arena + static,
            budget,
            (*memory.chosen.blocks, *constant_blocks),
            memory.stack_bytes,
            memory.packed_bytes,
        ),
    ]
    levels += [
        LevelUse(level.name, 0, budgets.bytes[level.number], ())
        for level in ctx.memory.levels
        if level.number > ACTIVATION_LEVEL
    ]
    return Plan(
        target=ctx.name,
        frontend=frontend,
        network=graph.name,
        options=ctx.options,
        steps=tuple(steps),
        inputs=tuple(places[name] for name in graph.inputs),
        outputs=tuple(places[name] for name in graph.outputs),
        levels=tuple(levels),
        arena_bytes={1: budgets.bytes[1], 2: budget - static},
        static_bytes={2: static},
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


def _plan_activations(graph: Graph, order: Sequence[int], ctx: TargetContext) -> MemoryPlan:
    return plan_memory(requests(graph, order), _alignment(ctx))


def _too_large(graph: Graph, memory: MemoryPlan, static: int, budget: int) -> DoesNotFit:
    needed: dict[int, list[Block]] = {}
    for block in memory.chosen.blocks:
        for step in range(block.first, block.last + 1):
            needed.setdefault(step, []).append(block)
    step = max(needed, key=lambda s: sum(b.size for b in needed[s]))
    live = sorted(needed[step], key=lambda b: -b.size)
    texts = ", ".join(f"{b.name} {b.size} B" for b in live)
    where = f"layer {graph.layers[step].index}" if step >= 0 else "the network input"
    return DoesNotFit(
        f"{graph.name} needs {memory.chosen.peak_bytes + static} B of L2, {budget} B are available: "
        f"constants {static} B, activations {memory.chosen.peak_bytes} B (largest at {where}: "
        f"{texts})",
        "raise --l2 if the chip has more, or make the network smaller",
    )


def _encode_weights(tiled: TiledLayer) -> LayerWeights | None:
    """Cut the constants of a layer into the blocks of its tiles, in the order of their loading."""
    schedule, kernel, layer = tiled.schedule, tiled.kernel, tiled.layer
    if not schedule.has_weights:
        return None
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
            row.append(WeightTile(len(data), len(block.data), block.parts))
            data += block.data
        tiles.append(row)
    return LayerWeights(ACTIVATION_LEVEL, 0, bytes(data), tuple(tuple(row) for row in tiles))


def _step(
    tiled: TiledLayer, places: dict[str, Place], constants: LayerWeights | None
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
        output=Transfer("rows" if len(schedule.c_out) == 1 else "pixels", places[layer.output.name]),
        weights=constants,
        estimate=tiled.estimate,
    )


def _files(tiled: Iterable[TiledLayer], hal: DmaHal | None) -> tuple[OutputFile, ...]:
    files = list(hal.files) if hal is not None else []
    for layer in tiled:
        kernel: Kernel = layer.kernel
        files += kernel.sources(layer.layer)
    return tuple(files)

