"""The files that belong to the network as a whole: network.c, network.h, Makefile, README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dory_core.codegen.cexpr import comment, string
from dory_core.codegen.conversions import (
    ConversionView,
    conversion_view,
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
from dory_core.plan import ExtTransfer, Place, Plan
from dory_core.planning.place import L3_IMAGE


@dataclass(frozen=True, slots=True)
class CopyView:
    """A network input or output: byte offset in the caller's buffer; arena, offset, size in L2."""

    source: int
    base: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CallView:
    """What happens at one position.

    events: statements of core 0 before the part runs. call: of the part, empty at the ends.
    report: (layer index, arena of L2, byte offset, bytes) of the output that is then complete.
    conversions: behind the events.
    """

    events: tuple[str, ...]
    call: str = ""
    report: tuple[int, str, int, int] | None = None
    conversions: tuple[ConversionView, ...] = ()


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
    prologue: tuple[str, ...]
    calls: tuple[CallView, ...]
    epilogue: tuple[str, ...]
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
    final_conversions: tuple[ConversionView, ...]


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
    events = _events(plan)
    calls = _calls(plan, events)
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
        prologue=events.get(-1, ()),
        calls=calls,
        epilogue=events.get(len(calls), ()),
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
        final_conversions=tuple(conversion_view(plan, c) for c in plan.final_conversions),
    )


def _calls(plan: Plan, events: Mapping[int, tuple[str, ...]]) -> tuple[CallView, ...]:
    """Return the calls of all parts of layers in the order of execution."""
    calls = []
    for step in plan.steps:
        place = step.output.place
        base = "l1" if place.level == 1 else arena(place.memory)
        for k, part in enumerate(step.parts):
            number = f", {k}" if len(step.parts) > 1 else ""
            report = None if part.report is None else (step.index, base, *part.report)
            call = f"{layer_symbol(step)}({', '.join(layer_arenas(step))}{number});"
            conversions = step.conversions if k == 0 else ()
            views = tuple(conversion_view(plan, c) for c in conversions)
            calls.append(CallView(events.get(part.position, ()), call, report, views))
    return tuple(calls)


def _arenas(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return the name and the base of every arena of L2 that something uses."""
    used = {name for step in plan.steps for name in layer_arenas(step)}
    if plan.transfers:
        used.add(arena(0))
    converted = (place for c in plan.conversions for place in (c.source, c.target))
    for place in (*plan.inputs, *plan.outputs, *converted):
        if place.level == 2:
            used.add(arena(place.memory))
    bases = ["io->l2", *(f"io->l2_more[{k}].base" for k in range(len(plan.more_l2_bytes)))]
    return tuple((arena(k), base) for k, base in enumerate(bases) if arena(k) in used)


def _parts(places: Sequence[Place]) -> str:
    """Return {offset, bytes} of each input or output in L3; empty when they lie without gaps."""
    gaps = any(b.offset != a.offset + a.size_bytes for a, b in pairwise(places))
    if _level(places) != 3 or not gaps:
        return ""
    return "{" + ", ".join(f"{{{p.offset}u, {p.size_bytes}u}}" for p in places) + "}"


def _level(places: Sequence[Place]) -> int:
    """Return the level of the network's inputs or outputs, which is one for all of them."""
    return max(place.level for place in places)


def _events(plan: Plan) -> dict[int, tuple[str, ...]]:
    """Return what core 0 does before the part at each position, in the order of ``streaming``."""
    end = sum(len(step.parts) for step in plan.steps)
    events: dict[int, list[str]] = {}

    def at(position: int) -> list[str]:
        return events.setdefault(position, [])

    def wait(transfer: ExtTransfer) -> str:
        return f"dory_ext_wait(tickets[{transfer.slot}]); /* {comment(transfer.name)} */"

    def start(transfer: ExtTransfer) -> str:
        direction = "DORY_L3_TO_L2" if transfer.incoming else "DORY_L2_TO_L3"
        return (
            f"tickets[{transfer.slot}] = dory_ext_start(l2 + {transfer.l2_offset}, "
            f"{transfer.l3_offset}u, {transfer.size}u, {direction}); /* {comment(transfer.name)} */"
        )

    for transfer in plan.transfers:
        if transfer.start < transfer.wait:
            at(transfer.wait).append(wait(transfer))
    for incoming in (False, True):
        mine = [t for t in plan.transfers if t.incoming == incoming]
        for transfer in mine:
            at(transfer.start).append(start(transfer))
        for transfer in mine:
            if transfer.start == transfer.wait:
                at(transfer.wait).append(wait(transfer))
        if not incoming:
            l2 = next(level for level in plan.levels if level.name == "L2")
            for block in l2.blocks:
                if 0 <= block.last < end - 1:
                    base = arena(block.memory)
                    at(block.last + 1).append(
                        f"DORY_SIM_L2_DEAD({base} + {block.offset}, {block.size});"
                    )
    return {position: tuple(lines) for position, lines in events.items()}
