"""Attributes and constants of Deeploy's nodes, as exact integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node, OnnxModel, integers

from dory_core.api import NotSupported

#: Domains that exporters give the operators of their own.
DOMAINS = ("", "PACTOps.", "ai.onnx.contrib.")
EXPORT_HINT = "export the integer network again, with the operators of Deeploy's exporters"


def attribute(node: Node, name: str) -> int:
    """Return an attribute that is a number, or a tensor or list of one number."""
    value = node.attributes.get(name)
    if value is None:
        raise NotSupported(f"{node.label}: attribute {name} is missing", EXPORT_HINT)
    if hasattr(value, "data_type"):
        from onnx import numpy_helper

        try:
            value = numpy_helper.to_array(value)
        except (TypeError, ValueError, KeyError) as error:
            raise NotSupported(
                f"{node.label}: attribute {name} is damaged ({error})", EXPORT_HINT
            ) from error
    content = np.asarray(value).reshape(-1)
    if content.size != 1:
        raise NotSupported(f"{node.label}: attribute {name} has {content.size} values, not one")
    return int(integers(node, name, content)[0])


def attribute_within(node: Node, name: str, lo: int, hi: int) -> int:
    """Return an attribute within [lo, hi]; raises NotSupported."""
    value = attribute(node, name)
    if not lo <= value <= hi:
        raise NotSupported(
            f"{node.label}: attribute {name} = {value} is not in [{lo}, {hi}]", EXPORT_HINT
        )
    return value


def power_of_two(node: Node, name: str) -> int:
    """Return an attribute that is a power of two up to 2^62; raises NotSupported."""
    value = attribute(node, name)
    if not 1 <= value <= 1 << 62 or value & (value - 1):
        raise NotSupported(
            f"{node.label}: attribute {name} = {value} is not a power of two in [1, 2^62]",
            EXPORT_HINT,
        )
    return value


def check_attributes(node: Node, *known: str) -> None:
    """Raise NotSupported for an attribute that an operator does not have."""
    unknown = sorted(set(node.attributes) - set(known))
    if unknown:
        raise NotSupported(
            f"{node.label}: attribute '{unknown[0]}' of {node.op.rpartition('.')[2]} is unknown",
            EXPORT_HINT,
        )


def check_inputs(node: Node, *names: str) -> None:
    """Raise NotSupported for another number of inputs."""
    if len(node.inputs) != len(names) or not all(node.inputs):
        raise NotSupported(
            f"{node.label}: it has {sum(map(bool, node.inputs))} inputs, but"
            f" {node.op.rpartition('.')[2]} takes {len(names)}: {', '.join(names)}",
            EXPORT_HINT,
        )


def constant_row(model: OnnxModel, node: Node, position: int, length: int) -> npt.NDArray[np.int64]:
    """Return a constant input with one integer for each element of the last axis."""
    source = node.input(position)
    content: npt.NDArray[Any] | None = model.constant(source)
    if content is None:
        raise NotSupported(
            f"{node.label}: '{source}' is not a constant", "store it as an initializer"
        )
    values = integers(node, source, content.reshape(-1))
    if values.size not in (1, length) or max(content.shape, default=1) != values.size:
        raise NotSupported(
            f"{node.label}: constant '{source}' of shape {list(content.shape)} is neither one value"
            f" nor one for each of {length} elements",
            EXPORT_HINT,
        )
    return np.broadcast_to(values, (length,))
