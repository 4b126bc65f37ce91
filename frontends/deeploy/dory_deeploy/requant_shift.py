"""RequantShift and TrueIntegerDiv as steps of plain arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node, OnnxModel, Step, integers

from dory_core.api import NotSupported
from dory_deeploy.numbers import (
    DOMAINS,
    EXPORT_HINT,
    attribute,
    attribute_within,
    check_attributes,
    check_inputs,
    power_of_two,
)

#: The operator by the domains that exporters give it.
REQUANT_SHIFTS = frozenset(f"{domain}RequantShift" for domain in DOMAINS)
#: Division of a constant, which is a factor.
DIVISIONS = frozenset(f"{domain}TrueIntegerDiv" for domain in DOMAINS)
_MOST_LEVELS = 1 << 32
_MOST = (1 << 31) - 1


def plain_name(node: Node) -> str:
    """Return the operator without its domain."""
    return node.op.rpartition(".")[2]


def steps_of_requant_shift(
    model: OnnxModel, node: Node, shape: tuple[int, ...], axis: int
) -> tuple[Step, ...]:
    """Return Mul, Add, Div, Floor and Clip of a RequantShift on a value of ``shape``.

    The division is left out where it divides all factors. axis: that of the channels.

    Raises: NotSupported, naming node, attribute or tensor, for what has no exact meaning.
    """
    check_inputs(node, "the value", "mul", "add")
    check_attributes(node, "div", "n_levels", "n_levels_out", "signed")
    channels = shape[axis] if len(shape) > 1 else 1
    mul, add = (_per_channel(model, node, source, channels) for source in node.inputs[1:])
    div = power_of_two(node, "div")
    lo, hi = _bounds(node)
    add = [a + div // 2 for a in add]
    if all(m % div == 0 for m in mul):
        mul, add, div = [m // div for m in mul], [a // div for a in add], 1
    return (
        _step(node, "Mul", mul, node.input(1)),
        _step(node, "Add", add, node.input(2)),
        _step(node, "Div", [div], "div"),
        Step(node, kind="Floor"),
        Step(node, kind="Clip", lo=lo, hi=hi),
    )


def steps_of_division(node: Node) -> tuple[Step, ...]:
    """Return the product with floor(Delta * eta / (y * eta + eps)) that a TrueIntegerDiv is.

    Raises: NotSupported, naming the attribute.
    """
    check_inputs(node, "the value")
    check_attributes(node, "Delta", "eta", "eps", "y")
    delta, eta, eps, y = (
        attribute_within(node, name, 0, _MOST) for name in ("Delta", "eta", "eps", "y")
    )
    divisor = y * eta + eps
    if not divisor:
        raise NotSupported(f"{node.label}: it divides by y * eta + eps = 0", EXPORT_HINT)
    return (_step(node, "Mul", [delta * eta // divisor], "Delta"),)


def _step(node: Node, kind: str, values: list[int], source: str) -> Step:
    content: npt.NDArray[Any] = np.array(values, dtype=np.int64)
    return Step(node, content, source, kind=kind)


def _per_channel(model: OnnxModel, node: Node, source: str, channels: int) -> list[int]:
    """Return one value or one per channel; the constant may have any shape with one axis of it."""
    content = model.constant(source)
    if content is None:
        raise NotSupported(
            f"{node.label}: '{source}' is not a constant",
            "store mul and add as initializers",
        )
    if content.size != 1 and (content.size != channels or max(content.shape) != channels):
        raise NotSupported(
            f"{node.label}: constant '{source}' of shape {list(content.shape)} is neither one value"
            f" nor one for each of {channels} channels"
        )
    return [int(v) for v in integers(node, source, content.reshape(-1))]


def _bounds(node: Node) -> tuple[int, int]:
    name = "n_levels_out" if "n_levels_out" in node.attributes else "n_levels"
    levels, signed = attribute_within(node, name, 2, _MOST_LEVELS), attribute(node, "signed")
    if signed not in (0, 1):
        raise NotSupported(f"{node.label}: attribute signed = {signed} is neither 0 nor 1")
    lo = -(levels // 2) if signed else 0
    hi = levels // 2 - 1 if signed else levels - 1
    return lo, hi
