"""Derived values of a Plan that the templates of the network print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from dory_core.codegen.names import address, layer_arenas
from dory_core.plan import LayerStep, Place, Plan
from dory_core.plan.memories import l2_memory
from dory_core.planning.constants import L3_IMAGE

if TYPE_CHECKING:
    from dory_core.ir import Tensor


def shape_text(places: Sequence[Place]) -> str:
    """Return the types and shapes of the network's inputs or outputs in words."""
    return ", ".join(
        f"{t.type_name}, H x W x C = {t.height} x {t.width} x {t.channels}"
        for t in (p.tensor for p in places)
    )


def constants_text(plan: Plan) -> str:
    """Return the bytes of constants outside of the arenas in words."""
    return " and ".join(f"{n} B of constants in L{level}" for level, n in plan.static_bytes.items())


def linked_steps(plan: Plan) -> list[LayerStep]:
    """Return the layers whose constants are linked."""
    return [step for step in plan.steps if step.weights is not None and step.weights.linked]


def table_macro(step: LayerStep) -> str:
    """Return the macro with the place of the constants of a layer."""
    assert step.weights is not None
    return "DORY_TABLE_FAR" if step.weights.far else "DORY_TABLE"


def shared_rows(plan: Plan) -> str:
    """Return the sentence on functions that several layers run, empty where there are none."""
    if not any(function.is_shared for function in plan.program.functions):
        return ""
    return "\n * Where several layers run one, its parameter row says which of them."


def required(plan: Plan) -> tuple[str, ...]:
    """Return the pointers of dory_network_io_t that may not be NULL."""
    buffers = (("input", plan.inputs), ("output", plan.outputs))
    calls = (("next_rows", plan.inputs), ("put_rows", plan.outputs))
    return (
        "l1",
        "l2",
        *(name for name, places in buffers if any(copied(name, places))),
        *(name for name, places in calls if by_rows(places)),
    )


def by_rows(places: Sequence[Place]) -> bool:
    """Return True when the network's inputs or outputs pass by rows: all of them or none."""
    return any(place.passing for place in places)


def rows_table(places: Sequence[Place]) -> str:
    """Return {first byte in a buffer of all, bytes of a row, rows} of each input or output."""
    found, at = list[str](), 0
    for place in places:
        found.append(f"{{{at}u, {place.row_bytes}u, {place.rows}u}}")
        at += place.size_bytes
    return "{" + ", ".join(found) + "}"


def given(plan: Plan) -> tuple[Place, ...]:
    """Return the places of L2 that hold data when the first layer starts: inputs and state."""
    inputs = (place for place in plan.inputs if place.level == 2 and not place.passing)
    return (*inputs, *(state.place for state in plan.states))


def ticket_count(plan: Plan) -> int:
    """Return the tickets of transfers between L3 and L2 that are open at once."""
    return 1 + max((transfer.slot for transfer in plan.transfers), default=-1)


def copy_function(plan: Plan) -> str:
    """Return the C function that copies bytes, with all cores where there are several."""
    return "copy_bytes" if plan.cores > 1 else "memcpy"


def l3_image_bytes(plan: Plan) -> int:
    """Return the size of the file with what L3 holds before the first inference."""
    return next((len(file.content) for file in plan.files if file.path == L3_IMAGE), 0)


def quantisation_text(tensor: Tensor) -> str:
    """Return the formula from integers to real values, empty when the file gives no scale."""
    if tensor.channel_scales:
        return f", value = SCALES[channel] * (q - {tensor.zero_point})"
    if tensor.scale is None:
        return ""
    return f", value = {tensor.scale!r} * (q - {tensor.zero_point})"


def tensor_macros(plan: Plan) -> Iterator[str]:
    """Yield the macros with shape and meaning of each input and output of the public header.

    Of several, the names carry a number; ``AT`` is the first byte in the caller's buffer.
    """
    for role, places in (("INPUT", plan.inputs), ("OUTPUT", plan.outputs)):
        at = 0
        for number, place in enumerate(places):
            tensor = place.tensor
            name = f"#define {plan.prefix.upper()}_{role}"
            if len(places) > 1:
                name += f"_{number}"
                yield f"{name}_AT {at}u"
            yield f"{name}_HEIGHT {tensor.height}u"
            yield f"{name}_WIDTH {tensor.width}u"
            yield f"{name}_CHANNELS {tensor.channels}u"
            if tensor.channel_scales:
                told = "of each channel; integers of different channels do not compare"
                yield f"{name}_SCALES {c_scales(tensor)} /* {told} */"
            elif tensor.scale is not None:
                yield f"{name}_SCALE {tensor.scale!r}f"
            if tensor.has_scale:
                yield f"{name}_ZERO_POINT {_c_number(tensor.zero_point)}"
            if place.passing:
                yield f"{name}_ROW_BYTES {place.row_bytes}u /* it passes by rows */"
            at += tensor.size_bytes


def c_scales(tensor: Tensor) -> str:
    """Return the scales of the channels as an initialiser."""
    return "{" + ", ".join(f"{scale!r}f" for scale in tensor.channel_scales) + "}"


def _c_number(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"


def total_bytes(places: Sequence[Place]) -> int:
    """Return the bytes of the caller's buffer with the network's inputs or outputs."""
    return sum(place.tensor.size_bytes for place in places)


def level_of(places: Sequence[Place]) -> int:
    """Return the level of the network's inputs or outputs, which is one for all of them."""
    return max(place.level for place in places)


def copied(buffer: str, places: Sequence[Place]) -> Iterator[tuple[str, str, int]]:
    """Yield (place in the caller's buffer, place in L2, bytes) of each copy by the cores.

    The cores copy neither tensors in L3 nor what passes by rows.
    """
    source = 0
    for place in places:
        size = place.tensor.size_bytes
        if place.level == 2 and not place.passing:
            yield address(buffer, source), place_address(place), size
        source += size


def place_address(place: Place) -> str:
    """Return the C expression of a place in L2."""
    return address(str(l2_memory(place.memory)), place.offset)


def l2_bases(plan: Plan) -> tuple[str, ...]:
    """Return the C expressions of the arenas of L2 that the caller passes."""
    more = (f"io->l2_more[{k}].base" for k in range(len(plan.more_l2_bytes)))
    return ("io->l2", *more)


def used_arenas(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return the name and the base of every arena that something uses."""
    used = {name for step in plan.steps for name in layer_arenas(step)}
    if plan.transfers:
        used.add(str(l2_memory(0)))
    converted = (place for c in plan.conversions for place in (c.source, c.target))
    states = (place for state in plan.states for place in (state.place, state.left))
    for place in (*plan.inputs, *plan.outputs, *converted, *states):
        if place.level == 2:
            used.add(str(l2_memory(place.memory)))
    if any(step.output.place.level == 1 for step in plan.steps):
        used.add("l1")
    bases = {str(l2_memory(number)): base for number, base in enumerate(l2_bases(plan))}
    return tuple((n, base) for n, base in {"l1": "io->l1", **bases}.items() if n in used)


def l3_parts(places: Sequence[Place]) -> str:
    """Return {offset, bytes} of each input or output in L3; empty when they lie without gaps."""
    gaps = any(b.offset != a.offset + a.size_bytes for a, b in pairwise(places))
    if level_of(places) != 3 or not gaps:
        return ""
    return "{" + ", ".join(f"{{{p.offset}u, {p.size_bytes}u}}" for p in places) + "}"
