"""The files that belong to the network as a whole: network.c, network.h, Makefile, README."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dory_core.codegen.body import NetworkBody, network_body
from dory_core.codegen.cexpr import comment, string
from dory_core.codegen.conversions import (
    converted_layouts,
    layer_layouts,
    layout_definition,
    layout_symbol,
)
from dory_core.codegen.names import (
    arena,
    layer_arenas,
    layer_parameters,
    layer_symbol,
    weights_symbol,
)
from dory_core.hardware import Link
from dory_core.plan import Place, Plan
from dory_core.planning.place import L3_IMAGE


@dataclass(frozen=True, slots=True)
class CopyView:
    """A network input or output: byte offset in the caller's buffer; arena, offset, size in L2."""

    source: int
    base: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class NetworkView:
    """What the network's templates print."""

    name: str
    title: str
    target: str
    header: tuple[str, ...]
    cores: int
    any_core: bool
    dma: Link
    dma_tickets: int
    l1_size: int
    l2_size: int
    l1_used: int
    l2_used: int
    more_l2: tuple[int, ...]
    arenas: tuple[tuple[str, str], ...]
    constants_text: str
    layers: int
    inputs: tuple[CopyView, ...]
    outputs: tuple[CopyView, ...]
    input_bytes: int
    output_bytes: int
    input_shape: str
    output_shape: str
    input_place: Place
    output_place: Place
    constants: tuple[tuple[str, int], ...]
    constant_labels: tuple[tuple[str, str], ...]
    functions: tuple[str, ...]
    tickets: int
    body: NetworkBody
    memories: tuple[str, ...]
    input_parts: str
    output_parts: str
    input_level: int
    output_level: int
    l3_size: int
    l3_image_bytes: int
    ext: Link | None
    chunks: int
    chip_hal: bool
    reason: str
    notes: tuple[str, ...]
    layouts: tuple[tuple[str, str], ...]
    layer_layouts: tuple[str, ...]


def _copies(places: Sequence[Place]) -> tuple[CopyView, ...]:
    """Return the copies between the caller's buffer and the L2 arena; L3 is not the CPU's."""
    copies, source = [], 0
    for place in places:
        if place.level == 2:
            size = place.tensor.size_bytes
            copies.append(CopyView(source, arena(place.memory), place.offset, size))
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
    linked = [
        (weights_symbol(step), step.index, step.weights.size)
        for step in plan.steps
        if step.weights is not None and step.weights.linked
    ]
    bases = _bases(plan)
    l2_sizes = (plan.arena_bytes[2], *plan.more_l2_bytes)
    constants_text = " and ".join(
        f"{size} B of constants in L{level}" for level, size in plan.static_bytes.items()
    )
    return NetworkView(
        name=plan.network,
        title=f"Network {comment(plan.network)}",
        target=plan.target,
        header=(
            f"generated for {plan.target}: {len(plan.steps)} layers, {plan.macs} MAC",
            f"input   {_shape(plan.inputs)}",
            f"output  {_shape(plan.outputs)}",
            f"L1      {plan.arena_bytes[1]} B arena",
            f"L2      {' + '.join(f'{n} B' for n in l2_sizes)} arena, {constants_text}",
        ),
        cores=plan.cores,
        any_core=plan.any_core,
        dma=plan.dma,
        dma_tickets=plan.dma_tickets,
        l1_size=plan.arena_bytes[1],
        l2_size=plan.arena_bytes[2],
        l1_used=plan.levels[0].used,
        l2_used=plan.arena_used,
        more_l2=plan.more_l2_bytes,
        arenas=_arenas(plan),
        constants_text=constants_text,
        layers=len(plan.steps),
        inputs=_copies(plan.inputs),
        outputs=_copies(plan.outputs),
        input_bytes=sum(p.tensor.size_bytes for p in plan.inputs),
        output_bytes=sum(p.tensor.size_bytes for p in plan.outputs),
        input_shape=_shape(plan.inputs),
        output_shape=_shape(plan.outputs),
        input_place=plan.inputs[0],
        output_place=plan.outputs[0],
        constants=tuple((symbol, constant_words(size)) for symbol, _, size in linked),
        constant_labels=tuple(
            (symbol, string(f"constants of layer {index}")) for symbol, index, _ in linked
        ),
        functions=tuple(f"{layer_symbol(s)}({layer_parameters(s)})" for s in plan.steps),
        tickets=1 + max((t.slot for t in plan.transfers), default=-1),
        body=network_body(plan),
        memories=("io->l1", *bases),
        input_parts=_parts(plan.inputs),
        output_parts=_parts(plan.outputs),
        input_level=_level(plan.inputs),
        output_level=_level(plan.outputs),
        l3_size=plan.arena_bytes.get(3, 0),
        l3_image_bytes=next((len(f.content) for f in plan.files if f.path == L3_IMAGE), 0),
        ext=plan.ext,
        chunks=sum(1 for t in plan.transfers if t.incoming),
        chip_hal=chip_hal,
        reason=plan.reason,
        notes=plan.notes,
        layouts=tuple(
            (layout_symbol(plan, layout), layout_definition(layout))
            for layout in converted_layouts(plan)
        ),
        layer_layouts=layer_layouts(plan),
    )


def _arenas(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return the name and the base of every arena that something uses."""
    used = {name for step in plan.steps for name in layer_arenas(step)}
    if plan.transfers:
        used.add(arena(0))
    converted = (place for c in plan.conversions for place in (c.source, c.target))
    for place in (*plan.inputs, *plan.outputs, *converted):
        if place.level == 2:
            used.add(arena(place.memory))
    if any(step.output.place.level == 1 for step in plan.steps):
        used.add("l1")
    bases = {arena(number): base for number, base in enumerate(_bases(plan))}
    return tuple((n, base) for n, base in {"l1": "io->l1", **bases}.items() if n in used)


def _bases(plan: Plan) -> tuple[str, ...]:
    """Return the arenas of L2 as the caller hands them over."""
    more = (f"io->l2_more[{k}].base" for k in range(len(plan.more_l2_bytes)))
    return ("io->l2", *more)


def _parts(places: Sequence[Place]) -> str:
    """Return {offset, bytes} of each input or output in L3; empty when they lie without gaps."""
    gaps = any(b.offset != a.offset + a.size_bytes for a, b in pairwise(places))
    if _level(places) != 3 or not gaps:
        return ""
    return "{" + ", ".join(f"{{{p.offset}u, {p.size_bytes}u}}" for p in places) + "}"


def _level(places: Sequence[Place]) -> int:
    """Return the level of the network's inputs or outputs, which is one for all of them."""
    return max(place.level for place in places)
