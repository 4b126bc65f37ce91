"""The files that belong to the network as a whole: network.c, network.h, Makefile, README."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.codegen.cexpr import comment, string
from dory_core.codegen.layer import layer_symbol, weights_symbol
from dory_core.plan import Place, Plan


@dataclass(frozen=True, slots=True)
class CopyView:
    """A network input or output: byte offset in the caller's buffer, offset and size in L2."""

    source: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CallView:
    """A layer's call, where its output lies, and the blocks that die after it."""

    symbol: str
    index: int
    offset: int
    bytes: int
    dead: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NetworkView:
    """What the network's templates print."""

    name: str
    title: str
    target: str
    header: tuple[str, ...]
    cores: int
    any_core: bool
    dma_alignment: int
    l1_size: int
    l2_size: int
    static_bytes: int
    layers: int
    inputs: tuple[CopyView, ...]
    outputs: tuple[CopyView, ...]
    input_bytes: int
    output_bytes: int
    input_shape: str
    output_shape: str
    input_offset: int
    output_offset: int
    constants: tuple[tuple[str, int], ...]
    constant_labels: tuple[tuple[str, str], ...]
    functions: tuple[str, ...]
    calls: tuple[CallView, ...]
    chip_hal: bool
    reason: str
    notes: tuple[str, ...]


def _copies(places: Sequence[Place]) -> tuple[CopyView, ...]:
    copies, source = [], 0
    for place in places:
        copies.append(CopyView(source, place.offset, place.tensor.size_bytes))
        source += place.tensor.size_bytes
    return tuple(copies)


def _shape(places: Sequence[Place]) -> str:
    return ", ".join(
        f"{t.type_name}, H x W x C = {t.height} x {t.width} x {t.channels}"
        for t in (p.tensor for p in places)
    )


def constant_words(size: int) -> int:
    """Return the number of 32-bit words that hold ``size`` bytes."""
    return -(-size // 4)


def network_view(plan: Plan, chip_hal: bool) -> NetworkView:
    """Return everything that the network's templates print."""
    constants, labels = [], []
    for step in plan.steps:
        if step.weights is not None:
            symbol = weights_symbol(step)
            constants.append((symbol, constant_words(len(step.weights.data))))
            labels.append((symbol, string(f"constants of layer {step.index}")))
    l2 = next(level for level in plan.levels if level.name == "L2")
    arena = plan.arena_bytes[2]
    calls = []
    for position, step in enumerate(plan.steps):
        dead = tuple(
            (b.offset, b.size)
            for b in l2.blocks
            if b.last == position and b.end <= arena and position != len(plan.steps) - 1
        )
        place = step.output.place
        calls.append(
            CallView(layer_symbol(step), step.index, place.offset, place.tensor.size_bytes, dead)
        )
    inputs, outputs = _copies(plan.inputs), _copies(plan.outputs)
    return NetworkView(
        name=plan.network,
        title=f"Network {comment(plan.network)}",
        target=plan.target,
        header=(
            f"generated for {plan.target}: {len(plan.steps)} layers, {plan.macs} MAC",
            f"input   {_shape(plan.inputs)}",
            f"output  {_shape(plan.outputs)}",
            f"L1      {plan.arena_bytes[1]} B arena",
            f"L2      {arena} B arena and {plan.static_bytes.get(2, 0)} B of constants",
        ),
        cores=plan.cores,
        any_core=plan.any_core,
        dma_alignment=plan.dma_alignment,
        l1_size=plan.arena_bytes[1],
        l2_size=arena,
        static_bytes=plan.static_bytes.get(2, 0),
        layers=len(plan.steps),
        inputs=inputs,
        outputs=outputs,
        input_bytes=sum(c.bytes for c in inputs),
        output_bytes=sum(c.bytes for c in outputs),
        input_shape=_shape(plan.inputs),
        output_shape=_shape(plan.outputs),
        input_offset=inputs[0].offset,
        output_offset=outputs[0].offset,
        constants=tuple(constants),
        constant_labels=tuple(labels),
        functions=tuple(layer_symbol(step) for step in plan.steps),
        calls=tuple(calls),
        chip_hal=chip_hal,
        reason=plan.reason,
        notes=plan.notes,
    )
