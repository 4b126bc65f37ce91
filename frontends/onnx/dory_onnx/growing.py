"""A Graph while an import appends its layers: values of the file, and layers that stand for what
no layer of the file takes along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, Requant, Tensor, ops
from dory_core.importing import Array, FrontendOptions, ranges, rearrange
from dory_onnx.arithmetic import ARITHMETIC, requants_of
from dory_onnx.dialect import Dialect
from dory_onnx.model import Node, OnnxModel
from dory_onnx.operators import chw_of, rows_of
from dory_onnx.shapes import Shape, infer_shapes
from dory_onnx.values import Value, input_tensors

Triple = tuple[int, int, int]

#: Axes of (C, H, W) from the slowest to the fastest one in memory.
_IN_MEMORY = (1, 2, 0)
_ONE = ops.Window(kernel=(1, 1))


class Common(TypedDict):
    """What all layers are made with."""

    index: int
    name: str
    inputs: tuple[str, ...]
    output: str
    tensor: str


class GrowingGraph:
    """Layers and tensors of one import, and which value of the file stands for which tensor."""

    def __init__(self, model: OnnxModel, options: FrontendOptions, dialect: Dialect) -> None:
        self.model = model
        self.dialect = dialect
        keeping = (dialect.arithmetic - ARITHMETIC) | set(dialect.own_layers)
        self.shapes: dict[str, Shape] = infer_shapes(model, keeping)
        self.inputs = input_tensors(model, options)
        self.chw: dict[str, Triple] = {t.name: t.shape for t in self.inputs}
        self.tensors: dict[str, Tensor] = {t.name: t for t in self.inputs}
        self.ranges: list[ranges.LayerRanges] = []
        self.values = {
            value: Value(t.name) for value, t in zip(model.inputs, self.inputs, strict=True)
        }
        self.by_rows: set[str] = set()  # tensors whose channels are the last axis of the file
        self.layers: list[ops.Operator] = []
        self.labels: dict[str, str] = {}  # of the node that computes a tensor
        self.names: dict[str, str] = {}  # of tensors in the file
        self.notes: list[str] = []

    def append(self, layer: ops.Operator) -> None:
        """Add a layer; raises NotSupported where its values cannot be computed."""
        tensor, proven = ranges.infer_layer(layer, self.tensors)
        self.tensors[layer.output] = tensor
        self.layers.append(layer)
        self.ranges.append(proven)

    def begin(self, node: Node, name: str, chw: Triple) -> str:
        """Return the tensor of the next layer.

        Args:
            chw: Shape (C, H, W) of the result.
            name: Name of the value in the file, if it has one.
        """
        output = f"layer_{len(self.layers):02d}"
        self.labels[output], self.names[output], self.chw[output] = node.label, name, chw
        return output

    def common(self, node: Node, *sources: str) -> Common:
        """Return the fields of the next layer, which reads the tensors ``sources``."""
        output = f"layer_{len(self.layers):02d}"
        return {
            "index": len(self.layers),
            "name": node.title,
            "inputs": sources,
            "output": output,
            "tensor": self.names[output],
        }

    def origin(self, value: Value) -> str:
        """Return who computes a value, for messages."""
        label = self.labels.get(value.tensor)
        return "the network input" if label is None else f"the output of {label}"

    # --- layers of what no layer of the file takes along --------------------------------------

    def value(self, name: str, pads: bool = False) -> Value:
        """Return the value of a name in the file without arithmetic, which becomes a layer.

        pads: zeros around it may stay; else they also become a layer.
        """
        value = self.values[name]
        if any(step.op != "Cast" for step in value.steps):
            value = self._rescaled(value, name)
        if value.pad_node is not None and not pads:
            value = self.with_zeros(value)
        self.values[name] = value
        return value

    def _rescaled(self, value: Value, name: str) -> Value:
        """Return a value whose steps are a layer: the mean of one element."""
        node = value.steps[-1].node
        requants = requants_of(value.steps, node.label)
        if not requants:
            return replace(value, steps=())
        output = self.begin(node, name, self.chw[value.tensor])
        self.append_rescaling(node, value.tensor, requants)
        self.by_rows |= {output} if value.tensor in self.by_rows else set()
        return Value(output)

    def append_rescaling(self, node: Node, source: str, requants: tuple[Requant, ...]) -> None:
        """Add a layer that rescales each element: a table of bytes, or the mean of one element."""
        common, read = self.common(node, source), self.tensors[source]
        table = _table_of(read, requants)
        if table is None:
            self.append(ops.AvgPool(**common, requants=requants, window=_ONE))
        else:
            self.append(ops.Lut(**common, table=table))

    def with_zeros(self, value: Value) -> Value:
        """Return a value whose zeros around it are a layer."""
        assert value.pad_node is not None
        top, left, bottom, right = value.pads
        channels, height, width = self.chw[value.tensor]
        chw = (channels, height + top + bottom, width + left + right)
        output = self.begin(value.pad_node, value.pad_node.outputs[0], chw)
        common = self.common(value.pad_node, value.tensor)
        self.append(ops.Pad(**common, before=(0, top, left), after=(0, bottom, right)))
        return Value(output)

    def with_shape(self, node: Node, name: str, value: Value, chw: Triple) -> Value:
        """Return a value in another shape, as ``node`` makes it under ``name`` in the file.

        The elements keep their order in (C, H, W), which is not that in memory.
        """
        channels, height, width = self.chw[value.tensor]
        if (channels, height, width) == chw:
            return value
        tensor = value.tensor
        if channels > 1 and height * width > 1:
            tensor = self.turned(node, "", tensor, (2, 0, 1))
        turned = chw[0] > 1 and chw[1] * chw[2] > 1
        shape = (chw[2], chw[0], chw[1]) if turned else chw
        output = self.begin(node, "" if turned else name, shape)
        self.append(ops.Reshape(**self.common(node, tensor), shape=shape))
        return Value(self.turned(node, name, output, (1, 2, 0)) if turned else output)

    def as_read(self, node: Node, name: str, pads: bool = False) -> Value:
        """Return the value that ``node`` reads as ``name``, in the shape that it has there.

        pads: as for :meth:`value`; they are in the shape, but not in the tensor.
        """
        value = self.value(name, pads)
        wanted = self._one_image(node, chw_of(self.shapes.get(name, ())), name)
        if value.tensor in self.by_rows:
            rows = self.as_rows(node, name).tensor
            order = (1, 2, 0) if len(self.shapes[name]) == 4 else (2, 1, 0)
            self.values[name] = Value(self.turned(node, name, rows, order))
            return self.values[name]
        top, left, bottom, right = value.pads
        inner = (wanted[0], wanted[1] - top - bottom, wanted[2] - left - right)
        if value.pad_node is not None and inner != self.chw[value.tensor]:
            value = self.with_zeros(value)
            inner = wanted
        self.values[name] = self.with_shape(node, name, value, inner)
        return self.values[name]

    def as_rows(self, node: Node, name: str) -> Value:
        """Return the value that ``node`` reads as ``name``, with its last axis as channels.

        The elements of such a tensor lie in the order of the file.
        """
        wanted = self._one_image(node, rows_of(self.shapes.get(name, ())), name)
        value = self.value(name)
        if self._unread_input(value.tensor):
            channels, height, width = self.chw[value.tensor] = wanted
            self.tensors[value.tensor] = replace(
                self.tensors[value.tensor], channels=channels, height=height, width=width
            )
            self.by_rows.add(value.tensor)
        elif value.tensor not in self.by_rows:
            tensor = (
                value.tensor if len(self.shapes[name]) == 1 else self.as_read(node, name).tensor
            )
            order = (2, 0, 1) if len(self.shapes[name]) == 4 else (2, 1, 0)
            if len(self.shapes[name]) > 2:
                tensor = self.turned(node, name, tensor, order)
                self.by_rows.add(tensor)
            self.values[name] = Value(tensor)
        elif self.chw[value.tensor] != wanted:
            output = self.begin(node, name, wanted)
            self.append(ops.Reshape(**self.common(node, value.tensor), shape=wanted))
            self.by_rows.add(output)
            self.values[name] = Value(output)
        return self.values[name]

    def _unread_input(self, tensor: str) -> bool:
        """Return True for a network input that no layer has read yet."""
        is_input = any(tensor == one.name for one in self.inputs)
        return is_input and not any(tensor in layer.inputs for layer in self.layers)

    def as_it_lies(self, node: Node, name: str) -> Value:
        """Return the value that ``node`` reads as ``name``, in its shape and with either axis as
        channels."""
        by_rows = self.value(name).tensor in self.by_rows
        return self.as_rows(node, name) if by_rows else self.as_read(node, name)

    def turned(self, node: Node, name: str, tensor: str, order: Triple) -> str:
        """Return a tensor with its axes in another order; elements move only where they must."""
        shape = self.chw[tensor]
        made = (shape[order[0]], shape[order[1]], shape[order[2]])
        sizes = [shape[axis] for axis in _IN_MEMORY]
        blocks, _ = rearrange.blocks_of(sizes, [_IN_MEMORY.index(order[n]) for n in _IN_MEMORY])
        output = self.begin(node, name, made)
        common = self.common(node, tensor)
        if len(blocks) > 1:
            self.append(ops.Transpose(**common, perm=order))
        else:
            self.append(ops.Reshape(**common, shape=made))
        return output

    def _one_image(self, node: Node, chw: Triple | None, name: str) -> Triple:
        if chw is None:
            shown = list(self.shapes.get(name, ()))
            raise NotSupported(f"{node.label}: it reads shape {shown}, not that of one image")
        return chw


def _table_of(x: Tensor, requants: tuple[Requant, ...]) -> Array | None:
    """Return steps from bytes to bytes that are the same for all channels, as a table."""
    if x.lo < -128 or x.hi > (127 if x.lo < 0 else 255):
        return None
    if any(step.is_channelwise for step in requants):
        return None
    table = byte_table(x, np.arange(x.lo, x.hi + 1), requants)
    least, most = int(table.values.min()), int(table.values.max())
    return None if least < -128 or most > (127 if least < 0 else 255) else table


def byte_table(x: Tensor, values: npt.NDArray[np.int64], requants: Sequence[Requant]) -> Array:
    """Return the table of a function of one byte: shape (256,), or (C, 256) with steps by channel.

    Args:
        x: The tensor of bytes.
        values: The function from the lowest value of the tensor to the highest.
        requants: Steps after the function.
    """
    table = np.zeros((1, 256), np.int64)
    table[0, np.arange(x.lo, x.hi + 1) & 255] = values
    if any(step.is_channelwise for step in requants):
        table = np.repeat(table, x.channels, axis=0)
    for step in requants:
        table = step.apply(table)
    return Array(table if len(table) > 1 else table[0])
