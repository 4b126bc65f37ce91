"""RequantShift as steps of plain arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node, OnnxModel, Step, integers

from dory_core.api import NotSupported

#: The operator by the domains that exporters give it.
REQUANT_SHIFTS = frozenset(["RequantShift", "PACTOps.RequantShift", "ai.onnx.contrib.RequantShift"])
_ATTRIBUTES = frozenset(["div", "n_levels", "n_levels_out", "signed"])
_EXPORT_HINT = "export the integer network again, with the RequantShift of Deeploy's exporters"
_LARGEST_DIVISOR = 1 << 62
_MOST_LEVELS = 1 << 32


def plain_name(node: Node) -> str:
    """Return the operator without its domain."""
    return node.op.rpartition(".")[2]


def steps_of_requant_shift(
    model: OnnxModel, node: Node, shape: tuple[int, ...]
) -> tuple[Step, ...]:
    """Return Mul, Add, Div, Floor and Clip of a RequantShift on a value of ``shape``.

    The division is left out where it divides all factors.

    Raises: NotSupported, naming node, attribute or tensor, for what has no exact meaning.
    """
    if len(node.inputs) != 3 or not all(node.inputs):
        raise NotSupported(
            f"{node.label}: it has {sum(map(bool, node.inputs))} inputs, but RequantShift takes 3:"
            " the value, mul and add",
            _EXPORT_HINT,
        )
    unknown = sorted(set(node.attributes) - _ATTRIBUTES)
    if unknown:
        raise NotSupported(f"{node.label}: attribute '{unknown[0]}' of RequantShift is unknown")
    channels = shape[1] if len(shape) > 1 else 1
    mul, add = (_per_channel(model, node, source, channels) for source in node.inputs[1:])
    div = _divisor(node)
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


def _divisor(node: Node) -> int:
    div = _attribute(node, "div")
    if not 1 <= div <= _LARGEST_DIVISOR or div & (div - 1):
        raise NotSupported(
            f"{node.label}: attribute div = {div} is not a power of two in [1, 2^62]", _EXPORT_HINT
        )
    return div


def _bounds(node: Node) -> tuple[int, int]:
    name = "n_levels_out" if "n_levels_out" in node.attributes else "n_levels"
    levels, signed = _attribute(node, name), _attribute(node, "signed")
    if not 2 <= levels <= _MOST_LEVELS:
        raise NotSupported(f"{node.label}: attribute {name} = {levels} is not in [2, 2^32]")
    if signed not in (0, 1):
        raise NotSupported(f"{node.label}: attribute signed = {signed} is neither 0 nor 1")
    lo = -(levels // 2) if signed else 0
    hi = levels // 2 - 1 if signed else levels - 1
    return lo, hi


def _attribute(node: Node, name: str) -> int:
    """Return an attribute that is a number, or a tensor or list of one number."""
    value = node.attributes.get(name)
    if value is None:
        raise NotSupported(f"{node.label}: attribute {name} is missing", _EXPORT_HINT)
    if hasattr(value, "data_type"):
        from onnx import numpy_helper

        try:
            value = numpy_helper.to_array(value)
        except (TypeError, ValueError, KeyError) as error:
            raise NotSupported(
                f"{node.label}: attribute {name} is damaged ({error})", _EXPORT_HINT
            ) from error
    content = np.asarray(value).reshape(-1)
    if content.size != 1:
        raise NotSupported(f"{node.label}: attribute {name} has {content.size} values, not one")
    return int(integers(node, name, content)[0])
