"""Float input and output of an application: ``--float-io``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dory_core.codegen.network import c_scales
from dory_core.errors import NotSupported
from dory_core.ir.tensor import value_range
from dory_core.plan import Place, Plan

#: Functions of the application, without its prefix.
FLOAT_FUNCTIONS = ("quantize_input", "dequantize_output")


def with_float_border(plan: Plan, ties_even: bool) -> Plan:
    """Return a plan whose application converts float input and output.

    Args:
        plan: The plan.
        ties_even: Rounding: True for ties to even, False for ties away from zero.

    Raises:
        NotSupported: When an input or an output has no scale, elements narrower than a byte, or
            elements in two halves.
    """
    for place in (*plan.inputs, *plan.outputs):
        tensor = place.tensor
        if not tensor.has_scale:
            raise NotSupported(
                f"--float-io: the file gives no scale and zero point for '{tensor.name}'",
                "leave --float-io out and convert in the program that calls the network",
            )
        if tensor.bits < 8 or tensor.halves:
            what = "two halves" if tensor.halves else f"{tensor.bits} bits"
            raise NotSupported(
                f"--float-io: '{tensor.name}' has elements of {what}",
                "leave --float-io out: narrow elements are packed by the caller",
            )
    return replace(plan, float_io=True, ties_even=ties_even)


def scale_arrays(name: str, places: Sequence[Place]) -> Iterator[str]:
    """Yield the arrays with the scales of channels, where each has its own."""
    for number, tensor in enumerate(place.tensor for place in places):
        if tensor.channel_scales:
            yield f"static const float {name}_scales_{number}[] = {c_scales(tensor)};"


def quantized_rows(name: str, places: Sequence[Place]) -> Iterator[str]:
    """Yield the ``dory_quantized_t`` of each tensor as it is stored."""
    for number, tensor in enumerate(place.tensor for place in places):
        zero_point, (lo, hi) = tensor.zero_point + tensor.offset, (tensor.lo, tensor.hi)
        if tensor.signed and lo >= 0:  # its sign tells how it is read
            lo, _ = value_range(tensor.bits, tensor.signed)
        scales = f"{name}_scales_{number}" if tensor.channel_scales else "0"
        yield (
            f"{{{tensor.elements}u, {tensor.bits // 8}u, {tensor.scale or 0.0!r}f, {zero_point},"
            f" {lo}, {hi}, {tensor.channels}u, {scales}}}, /* {tensor.type_name} */"
        )


def values_of(places: Sequence[Place]) -> int:
    """Return the real numbers of all inputs or outputs."""
    return sum(place.tensor.elements for place in places)
