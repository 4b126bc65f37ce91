"""From ONNX nodes to a Graph: one walk in file order, shared by all dialects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Array,
    FrontendOptions,
    Graph,
    NotSupported,
    ops,
    ranges,
)
from dory_onnx.arithmetic import ARITHMETIC, NARROW_TYPES, Step, data_input, is_narrow_cast
from dory_onnx.chains import follow_chain, keeps_order
from dory_onnx.dialect import Dialect, Operand
from dory_onnx.marks import reader_of
from dory_onnx.model import EXPORT_HINT, Node, OnnxModel, load
from dory_onnx.movers import MOVERS, check_concat, factors_of, repeated
from dory_onnx.operators import (
    LAYER_OPERATORS,
    MATRICES,
    added_bias,
    bias_of,
    check_attributes,
    check_gemm,
    check_inputs,
    check_quantised,
    chw_of,
    conv_window,
    hwc_columns,
    pool_window,
    weights_of,
    zero_pads,
)
from dory_onnx.shapes import Shape, infer_shapes
from dory_onnx.values import NO_PADS, Value, input_tensors, nodes_feeding_layers

_CHW = (0, 1, 2)
_SUPPORTED_HINT = (
    "supported are Conv, Gemm, MatMul, MaxPool, AveragePool, their global forms and Add, each with"
    " its requantisation, Relu, Concat and nearest Resize; float operators only behind the last of"
    " them"
)

_BYTES_NOTE = "weights of type uint8 are read as the bytes of signed weights"

_GENERAL_HINT = (
    "change this part of the network or its export; `dory check` tells whether the result can be"
    " computed"
)


def import_onnx(path: Path, options: FrontendOptions, dialect: Dialect) -> Graph:
    """Return the integer network of an ONNX file.

    Raises: UsageError when the file is missing, NotSupported when it is no network that can be
    computed exactly; the message names the node.
    """
    model = None
    try:
        model = load(Path(path), check_quantised)
        return _Import(model, options, dialect).run()
    except NotSupported as error:
        operators = {node.op for node in model.nodes} if model is not None else set()
        hint = reader_of(operators - dialect.arithmetic) or error.hint or _GENERAL_HINT
        raise NotSupported(error.message, hint) from error


class _Common(TypedDict):
    index: int
    name: str
    inputs: tuple[str, ...]
    output: str
    tensor: str


class _Import:
    """State of one import; lives for one call of :func:`import_onnx`."""

    def __init__(self, model: OnnxModel, options: FrontendOptions, dialect: Dialect) -> None:
        for node in model.nodes:
            check_inputs(node)
        self.model = model
        self.dialect = dialect
        self.shapes: dict[str, Shape] = infer_shapes(model, dialect.arithmetic - ARITHMETIC)
        self.inputs = input_tensors(model, options)
        self.chw = {t.name: t.shape for t in self.inputs}
        self.tensors = {t.name: t for t in self.inputs}
        self.ranges: list[ranges.LayerRanges] = []
        self.values = {
            value: Value(t.name) for value, t in zip(model.inputs, self.inputs, strict=True)
        }
        self.layers: list[ops.Op] = []
        self.labels: dict[str, str] = {}  # of the node that computes a tensor
        self.names: dict[str, str] = {}  # of tensors in the file
        self.notes: list[str] = []
        self.taken: set[int] = set()  # positions of nodes that belong to a chain
        self.host: list[Node] = []
        self.ends: dict[str, str] = {}  # tensors that leave the network, and who reads them
        self.feeding = nodes_feeding_layers(model)

    def run(self) -> Graph:
        """Walk over the nodes once and return the typed Graph."""
        for node in self.model.nodes:
            if node.position in self.taken or all(self.model.is_constant(o) for o in node.outputs):
                continue
            if node.op in LAYER_OPERATORS and node.input(0) in self.values:
                self._layer(node)
            elif not (self._residual(node) or self._passed(node) or self._moved(node)):
                self._leave_to_host(node)
        return self._finish()

    # --- layers -------------------------------------------------------------------------------

    def _layer(self, node: Node) -> None:
        check_attributes(node, self.dialect.extra_attributes)
        value = self.values[node.input(0)]
        shape = self.shapes[node.input(0)]
        self._reject_steps(value)
        if any(self.model.readers(o) or o in self.model.outputs for o in node.outputs[1:] if o):
            raise NotSupported(f"{node.label}: its second output is used")
        self.labels[f"layer_{len(self.layers):02d}"] = node.label
        if node.op in MATRICES:
            layer = self._linear(node, value, shape)
        else:
            channels, height, width = self.chw[value.tensor]
            top, left, bottom, right = value.pads
            if chw_of(shape) != (channels, height + top + bottom, width + left + right):
                raise NotSupported(
                    f"{node.label}: it reads shape {list(shape)}, but {self._origin(value)} has"
                    f" (C, H, W) = {self.chw[value.tensor]}: the reshape between them is no no-op"
                )
            make = self._conv if node.op == "Conv" else self._pool
            layer = make(node, value, shape)
        self._append(layer)

    def _append(self, layer: ops.Op) -> None:
        tensor, proven = ranges.infer_layer(layer, self.tensors)
        self.tensors[layer.output] = tensor
        self.layers.append(layer)
        self.ranges.append(proven)

    def _conv(self, node: Node, value: Value, shape: Shape) -> ops.Op:
        bits = self.dialect.weight_bits(node)
        values = self._weights(node, bits)
        window = conv_window(node, values, shape, value.pads)
        steps, bias = self._chain(node, bias_of(self.model, node, len(values)))
        return ops.Conv(
            **self._common(node, value),
            requants=self.dialect.layer_requants(node, steps, 1),
            weights=Array(values[:, :, None, :] if values.ndim == 3 else values),
            window=window,
            weight_bits=bits,
            bias=None if bias is None else Array(bias),
            groups=int(node.attributes.get("group", 1)),
        )

    def _pool(self, node: Node, value: Value, shape: Shape) -> ops.Op:
        if node.op.endswith("MaxPool"):
            value = self._zeros_of_maximum(node, value, shape)
        window = pool_window(node, shape, value.pads)
        steps, _ = self._chain(node, None)
        common = self._common(node, value)
        if node.op.endswith("MaxPool"):
            requants = self.dialect.layer_requants(node, steps, 1)
            return ops.MaxPool(**common, requants=requants, window=window)
        kh, kw = window.kernel
        requants = self.dialect.layer_requants(node, steps, kh * kw)
        return ops.AvgPool(**common, requants=requants, window=window)

    def _zeros_of_maximum(self, node: Node, value: Value, shape: Shape) -> Value:
        """Return the value that a maximum reads; where zeros around it may win, they are a layer.

        Pads of a maximum never win. Zeros do over negative values, and where a window sees nothing
        but them.
        """
        if value.pad_node is None:
            return value
        window = pool_window(node, shape, NO_PADS)
        sees_input = window.dilations == (1, 1) and all(
            pad < window.kernel[side % 2] for side, pad in enumerate(value.pads)
        )
        if self.tensors[value.tensor].lo >= 0 and sees_input:
            return value
        channels, height, width = self.chw[value.tensor]
        top, left, bottom, right = value.pads
        padded = f"layer_{len(self.layers):02d}"
        self.labels[padded] = value.pad_node.label
        self.names[padded] = node.input(0)
        self.chw[padded] = (channels, height + top + bottom, width + left + right)
        around: _Common = {**self._common(value.pad_node, value), "output": padded}
        self._append(ops.Pad(**around, before=(0, top, left), after=(0, bottom, right)))
        self.labels[f"layer_{len(self.layers):02d}"] = node.label
        return Value(padded)

    def _linear(self, node: Node, value: Value, shape: Shape) -> ops.Op:
        if node.op == "Gemm":
            check_gemm(node)
        self._reject_pads(value)
        bits = self.dialect.weight_bits(node)
        weights = self._weights(node, bits)
        outputs, columns = weights.shape
        if len(shape) != 2 or columns != shape[1]:
            raise NotSupported(
                f"{node.label}: weight tensor '{node.input(1)}' has {columns} inputs, but the"
                f" layer reads shape {list(shape)}: it must be fully connected over [1, {columns}]"
            )
        steps, bias = self._chain(node, bias_of(self.model, node, outputs))
        return ops.Linear(
            **self._common(node, value),
            requants=self.dialect.layer_requants(node, steps, 1),
            weights=Array(hwc_columns(weights, self.chw[value.tensor])),
            weight_bits=bits,
            bias=None if bias is None else Array(bias),
        )

    def _weights(self, node: Node, bits: int) -> npt.NDArray[np.int64]:
        """Return the weights of a layer; a note says where their type is not what they mean."""
        values, stored_as_bytes = weights_of(self.model, node, bits, self.dialect.byte_weights)
        if stored_as_bytes and _BYTES_NOTE not in self.notes:
            self.notes.append(_BYTES_NOTE)
        return values

    def _residual(self, node: Node) -> bool:
        """Import an Add of two tensors; False when ``node`` is none."""
        if node.op != "Add" or any(name not in self.values for name in node.inputs):
            return False
        check_attributes(node, self.dialect.extra_attributes)
        left, right = (self.values[name] for name in node.inputs)
        shapes = [self.shapes[name] for name in node.inputs]
        for value in (left, right):
            self._reject_pads(value)
        if shapes[0] != shapes[1] or self.chw[left.tensor] != self.chw[right.tensor]:
            raise NotSupported(
                f"{node.label}: operands of shapes {list(shapes[0])} and {list(shapes[1])} are not"
                " added element by element"
            )
        self.labels[f"layer_{len(self.layers):02d}"] = node.label
        steps, _ = self._chain(node, None)
        operands = (
            Operand(self.tensors[left.tensor], left.steps),
            Operand(self.tensors[right.tensor], right.steps),
        )
        meaning = self.dialect.residual_add(node, operands, steps)
        self.notes.extend(meaning.notes)
        common = self._common(node, left)
        common["inputs"] = (left.tensor, right.tensor)
        self._append(
            ops.Add(**common, requants=meaning.requants, operand_requants=meaning.operands)
        )
        return True

    def _moved(self, node: Node) -> bool:
        """Import a Concat or Resize that a layer reads; False when ``node`` is none."""
        if node.op not in MOVERS or node.position not in self.feeding:
            return False
        count = len(node.inputs) if node.op == "Concat" else 1
        if any(name not in self.values for name in node.inputs[:count]):
            return False
        check_attributes(node, self.dialect.extra_attributes)
        values = [self.values[name] for name in node.inputs[:count]]
        for value, name in zip(values, node.inputs, strict=False):
            self._reject_pads(value)
            self._reject_steps(value)
            if chw_of(self.shapes[name]) != self.chw[value.tensor]:
                raise NotSupported(
                    f"{node.label}: it reads shape {list(self.shapes[name])}, but"
                    f" {self._origin(value)} has (C, H, W) = {self.chw[value.tensor]}"
                )
        output = f"layer_{len(self.layers):02d}"
        shape, factors = self.shapes[node.input(0)], None
        if node.op == "Concat":
            check_concat(node, len(shape))
        else:
            factors = factors_of(self.model, node, shape)
        made = chw_of(self.shapes.get(node.outputs[0], ()))
        if made is None or (node.op != "Concat" and factors is None):
            raise NotSupported(f"{node.label}: its scales or sizes are no constants", EXPORT_HINT)
        self.labels[output], self.names[output], self.chw[output] = (
            node.label,
            node.outputs[0],
            made,
        )
        common: _Common = self._common(node, values[0])
        if factors is None:
            common["inputs"] = tuple(value.tensor for value in values)
            self._append(ops.Concat(**common, axis=0))
        else:
            taps = [repeated(n, f) for n, f in zip(shape[2:], factors, strict=True)]
            self._append(ops.Resize(**common, rows=taps[0], columns=taps[1]))
        self.values[node.outputs[0]] = Value(output)
        return True

    def _common(self, node: Node, value: Value) -> _Common:
        index = len(self.layers)
        output = f"layer_{index:02d}"
        return {
            "index": index,
            "name": node.title,
            "inputs": (value.tensor,),
            "output": output,
            "tensor": self.names[output],
        }

    # --- chains -------------------------------------------------------------------------------

    def _chain(
        self, node: Node, bias: npt.NDArray[np.int64] | None
    ) -> tuple[tuple[Step, ...], npt.NDArray[np.int64] | None]:
        """Take the arithmetic behind a layer and register the value at its end as its tensor.

        An Add directly behind a Conv or matrix is bias; returns (other steps, bias).
        """
        shape = self.shapes.get(node.outputs[0])
        chw = None if shape is None else chw_of(shape)
        if chw is None:
            shown = "unknown" if shape is None else str(list(shape))
            raise NotSupported(f"{node.label}: its output shape is {shown}, not that of one image")
        tensor = f"layer_{len(self.layers):02d}"
        self.chw[tensor] = chw
        steps, passed, end = follow_chain(
            self.model, self.shapes, self.dialect, node.outputs[0], chw
        )
        self.taken.update(n.position for n in passed)
        self.values[end] = Value(tensor)
        self.names[tensor] = end
        if node.op == "Conv" or node.op in MATRICES:
            first = next((i for i, step in enumerate(steps) if step.op != "Cast"), 0)
            if steps and steps[first].op == "Add":
                total = added_bias(steps[first], bias, chw[0])
                return steps[first + 1 :], total if total.any() else None
        return steps, bias

    # --- between layers -----------------------------------------------------------------------

    def _passed(self, node: Node) -> bool:
        """Carry a tensor through a reshape, a Pad or the steps of an operand of a residual Add."""
        arithmetic = node.op in self.dialect.arithmetic
        source = data_input(self.model, node) if arithmetic else node.input(0)
        if source is None or source not in self.values:
            return False
        value = self.values[source]
        if node.op == "Pad":
            self.values[node.outputs[0]] = self._padded(node, value)
            return True
        if node.op not in ("Identity", "Dropout"):
            self._reject_pads(value)
        if keeps_order(node, self.shapes, self.chw[value.tensor]):
            self.values[node.outputs[0]] = value
            return True
        if is_narrow_cast(node):
            self._check_range(node, value)
            self.values[node.outputs[0]] = value
            return True
        if node.op in ("Mul", "Add", "Cast") or node.op in self.dialect.rounding_operands:
            steps = self.dialect.steps_of(self.model, node, self.shapes[source])
            self.values[node.outputs[0]] = replace(value, steps=(*value.steps, *steps))
            return True
        return False

    def _check_range(self, node: Node, value: Value) -> None:
        """Raise NotSupported for a Cast that changes values of its tensor."""
        tensor = self.tensors[value.tensor]
        lo, hi = NARROW_TYPES[node.attributes["to"]]
        if any(step.op != "Cast" for step in value.steps) or tensor.lo < lo or tensor.hi > hi:
            raise NotSupported(
                f"{node.label}: cast of {self._origin(value)}, whose values reach from {tensor.lo}"
                f" to {tensor.hi}, to a type of [{lo}, {hi}] may wrap",
                "export with a Clip to the type's range in front of the Cast",
            )

    def _padded(self, node: Node, value: Value) -> Value:
        self._reject_steps(value)
        new = zero_pads(self.model, node, self.shapes[node.input(0)])
        if not any(new):
            return value
        top, left, bottom, right = (a + b for a, b in zip(value.pads, new, strict=True))
        return replace(value, pads=(top, left, bottom, right), pad_node=node)

    def _reject_pads(self, value: Value) -> None:
        if value.pad_node is not None:
            raise NotSupported(
                f"{value.pad_node.label}: it is not followed by a Conv or pool that could take the"
                " padding"
            )

    def _reject_steps(self, value: Value) -> None:
        for step in value.steps:
            if step.op != "Cast":
                raise NotSupported(
                    f"{step.node.label}: it rescales {self._origin(value)} for one of several"
                    " readers; only a residual Add can carry that"
                )

    def _origin(self, value: Value) -> str:
        label = self.labels.get(value.tensor)
        return "the network input" if label is None else f"the output of {label}"

    # --- the end ------------------------------------------------------------------------------

    def _leave_to_host(self, node: Node) -> None:
        """Leave out a node behind the last layer; NotSupported when it is before it."""
        self.dialect.check_host(node)
        if node.position in self.feeding:
            read = next((self.values[i] for i in node.inputs if i in self.values), None)
            if node.op in self.dialect.arithmetic and read is not None:
                raise NotSupported(
                    f"{node.label}: it works on {self._origin(read)}, but belongs to no layer:"
                    " a requantisation needs a constant operand and must be the only reader of"
                    " what it requantises",
                    _SUPPORTED_HINT,
                )
            raise NotSupported(
                f"{node.label}: operator {node.op} in the middle of the network is not supported in"
                " networks of this format",
                _SUPPORTED_HINT,
            )
        for name in node.inputs:
            if name in self.values:
                self._end(self.values[name], node.label)
        self.host.append(node)

    def _end(self, value: Value, reader: str) -> None:
        self._reject_pads(value)
        for step in value.steps:
            self.dialect.check_host(step.node)
        self.host.extend(s.node for s in value.steps if s.node not in self.host)
        self.ends.setdefault(value.tensor, reader)

    def _finish(self) -> Graph:
        for output in self.model.outputs:
            if output in self.values:
                self._end(self.values[output], f"output '{output}'")
        if not self.layers:
            raise NotSupported(
                f"{self.model.path.name}: it holds no integer layer", _SUPPORTED_HINT
            )
        if not self.ends:
            raise NotSupported(
                f"{self.model.path.name}: no output of it is computed by an integer layer",
                _SUPPORTED_HINT,
            )
        if self.host:
            names = ", ".join(dict.fromkeys(n.op for n in self.host if n.op != "Cast"))
            if names:
                ends = " and ".join(self.labels.get(end, end) for end in self.ends)
                self.notes.append(f"host post-processing left out: {names} (behind {ends})")
        return Graph(
            name=self.model.path.stem,
            inputs=tuple(tensor.name for tensor in self.inputs),
            outputs=tuple(self.ends),
            ops=tuple(self.layers),
            tensors=self.tensors,
            ranges=tuple(self.ranges),
            notes=tuple(self.notes),
            reference=self.dialect.reference,
            forms=self._forms(),
        )

    def _forms(self) -> dict[str, ranges.FileForm]:
        """Return how tensors stand in the file: in CHW order, inputs with their names there."""
        forms = dict.fromkeys(self.tensors, ranges.FileForm(_CHW))
        for name, tensor in zip(self.model.inputs, self.inputs, strict=True):
            forms[tensor.name] = ranges.FileForm(_CHW, name)
        return forms
