"""A Graph while an import appends its layers: values of the file, and layers that stand for what
no layer of the file takes along."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from dory_core.api import NotSupported, Requant, Tensor, ops
from dory_core.importing import FrontendOptions, ranges
from dory_onnx.arithmetic import ARITHMETIC, requants_of
from dory_onnx.dialect import Dialect
from dory_onnx.model import Node, OnnxModel
from dory_onnx.operators import chw_of
from dory_onnx.shapes import Shape, infer_shapes
from dory_onnx.values import Value, input_tensors

Triple = tuple[int, int, int]

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
        self.shapes: dict[str, Shape] = infer_shapes(model, dialect.arithmetic - ARITHMETIC)
        self.inputs = input_tensors(model, options)
        self.chw: dict[str, Triple] = {t.name: t.shape for t in self.inputs}
        self.tensors: dict[str, Tensor] = {t.name: t for t in self.inputs}
        self.ranges: list[ranges.LayerRanges] = []
        self.values = {
            value: Value(t.name) for value, t in zip(model.inputs, self.inputs, strict=True)
        }
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
        return Value(output)

    def append_rescaling(self, node: Node, source: str, requants: tuple[Requant, ...]) -> None:
        """Add a layer that rescales each element of a tensor: the mean of only this element."""
        common = self.common(node, source)
        self.append(ops.AvgPool(**common, requants=requants, window=_ONE))

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
            output = self.begin(node, "", (width, channels, height))
            self.append(ops.Transpose(**self.common(node, tensor), perm=(2, 0, 1)))
            tensor = output
        turned = chw[0] > 1 and chw[1] * chw[2] > 1
        shape = (chw[2], chw[0], chw[1]) if turned else chw
        output = self.begin(node, "" if turned else name, shape)
        self.append(ops.Reshape(**self.common(node, tensor), shape=shape))
        if turned:
            tensor, output = output, self.begin(node, name, chw)
            self.append(ops.Transpose(**self.common(node, tensor), perm=(1, 2, 0)))
        return Value(output)

    def as_read(self, node: Node, name: str, pads: bool = False) -> Value:
        """Return the value that ``node`` reads as ``name``, in the shape that it has there.

        pads: as for :meth:`value`; they are in the shape, but not in the tensor.
        """
        value = self.value(name, pads)
        wanted = chw_of(self.shapes.get(name, ()))
        if wanted is None:
            raise NotSupported(
                f"{node.label}: it reads shape {list(self.shapes.get(name, ()))}, not that of one"
                " image"
            )
        top, left, bottom, right = value.pads
        inner = (wanted[0], wanted[1] - top - bottom, wanted[2] - left - right)
        if value.pad_node is not None and inner != self.chw[value.tensor]:
            value = self.with_zeros(value)
            inner = wanted
        self.values[name] = self.with_shape(node, name, value, inner)
        return self.values[name]
