"""Nodes of a file that are layers, each with the arithmetic after it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, Requant, ops
from dory_core.importing import Array, FrontendOptions, requant
from dory_onnx.arithmetic import Step
from dory_onnx.chains import follow_chain
from dory_onnx.dialect import AddMeaning, Dialect, Operand
from dory_onnx.growing import Common
from dory_onnx.matrices import append_matrix, is_matrix_of_rows
from dory_onnx.means import REDUCTIONS, BorderMean, border_mean, is_rounded, reduced_window
from dory_onnx.model import Node, OnnxModel
from dory_onnx.movers import OLD_ATTRIBUTES
from dory_onnx.moving import MovingGraph
from dory_onnx.operators import (
    LAYER_OPERATORS,
    MATRICES,
    added_bias,
    bias_of,
    check_attributes,
    check_gemm,
    chw_of,
    conv_window,
    hwc_columns,
    pool_window,
    rows_of,
    weights_of,
    with_pads,
)
from dory_onnx.shapes import Shape
from dory_onnx.values import NO_PADS, Value, nodes_feeding_layers

#: Functions of two tensors.
_PAIRS: Mapping[str, type[ops.Pairwise]] = MappingProxyType(
    {"Add": ops.Add, "Sub": ops.Add, "Mul": ops.Mul, "Max": ops.Maximum, "Min": ops.Minimum}
)

_BYTES_NOTE = "weights of type uint8 are read as the bytes of signed weights"


class LayersOfFile(MovingGraph):
    """A growing Graph to which nodes of the file are appended as layers.

    taken: positions of nodes that belong to a layer before them. feeding: of those that are a layer
    wherever they stand, or lead to one.
    """

    def __init__(self, model: OnnxModel, options: FrontendOptions, dialect: Dialect) -> None:
        super().__init__(model, options, dialect)
        self.taken: set[int] = set()
        self.feeding = nodes_feeding_layers(model, self._is_layer)

    def _is_layer(self, node: Node) -> bool:
        """Return True when a node is a layer at every position of the network."""
        if node.op in LAYER_OPERATORS or node.op in self.dialect.own_layers:
            return True
        is_pair = node.op in _PAIRS
        if node.op == "Add" or not (is_pair or node.op in REDUCTIONS):
            return False
        computed = sum(not self.model.is_constant(name) for name in node.inputs if name)
        return computed == (2 if is_pair else 1) and is_rounded(
            self.model, node, self.dialect.arithmetic
        )

    def layer(self, node: Node) -> None:
        """Append a node that is a layer. Raises: NotSupported, naming the node."""
        check_attributes(node, self.dialect.extra_attributes | OLD_ATTRIBUTES)
        if any(self.model.readers(o) or o in self.model.outputs for o in node.outputs[1:] if o):
            raise NotSupported(f"{node.label}: its second output is used")
        shape = self.shapes[node.input(0)]
        if is_matrix_of_rows(self, node):
            append_matrix(self, node)
            return
        if node.op in MATRICES:
            self.append(self._linear(node, self.value(node.input(0)), shape))
            return
        value = self.as_read(node, node.input(0), pads=True)
        if node.op in REDUCTIONS:
            self._reduction(node, value, shape)
        elif node.op == "Conv":
            self.append(self._conv(node, value, shape))
        else:
            self._pool(node, value, shape)

    def _conv(self, node: Node, value: Value, shape: Shape) -> ops.Operator:
        bits = self.dialect.weight_bits(node)
        values = self.weights(node, bits)
        window = conv_window(node, values, shape, value.pads)
        steps, bias = self.chain(node, bias_of(self.model, node, len(values)))
        return ops.Conv(
            **self.common(node, value.tensor),
            requants=self.dialect.layer_requants(node, steps, 1),
            weights=Array(values[:, :, None, :] if values.ndim == 3 else values),
            window=window,
            weight_bits=bits,
            bias=None if bias is None else Array(bias),
            groups=int(node.attributes.get("group", 1)),
        )

    def _pool(self, node: Node, value: Value, shape: Shape) -> None:
        if node.op.endswith("MaxPool"):
            value = self._zeros_of_maximum(node, value, pool_window(node, shape, NO_PADS))
            self._maximum(node, value, pool_window(node, shape, value.pads))
            return
        window = pool_window(node, shape, value.pads)
        border = border_mean(node, shape)
        if border is None:
            self._mean(node, value, window, window.taps)
        else:
            self._border_mean(node, value, border)

    def _reduction(self, node: Node, value: Value, shape: Shape) -> None:
        window = reduced_window(self.model, node, shape)
        if node.op == "ReduceMax":
            value = self._zeros_of_maximum(node, value, window)
            self._maximum(node, value, with_pads(window, value.pads))
            return
        divisor = window.taps if node.op == "ReduceMean" else 1
        self._mean(node, value, with_pads(window, value.pads), divisor)

    def _maximum(self, node: Node, value: Value, window: ops.Window) -> None:
        common, requants = self.behind(node, value.tensor, 1)
        self.append(ops.MaxPool(**common, requants=requants, window=window))

    def _mean(self, node: Node, value: Value, window: ops.Window, divisor: int) -> None:
        common, requants = self.behind(node, value.tensor, divisor)
        self.append(ops.AvgPool(**common, requants=requants, window=window))

    def _border_mean(self, node: Node, value: Value, border: BorderMean) -> None:
        """Append sums, and their product with a factor per position."""
        _, height, width = border.factors.shape
        tensor = self.tensors[value.tensor]
        taps = border.window.taps
        bounds = min(tensor.lo * taps, 0), max(tensor.hi * taps, 0)
        sums = self.begin(node, "", (self.chw[value.tensor][0], height, width))
        self.append(
            ops.AvgPool(
                **self.common(node, value.tensor),
                requants=(requant(lo=bounds[0], hi=bounds[1]),),
                window=with_pads(border.window, value.pads),
            )
        )
        common, requants = self.behind(node, sums, border.divisor)
        self.append(ops.Mul(**common, requants=requants, constant=border.factors))

    def behind(
        self, node: Node, source: str, divisor: int = 1, own: tuple[Step, ...] = ()
    ) -> tuple[Common, tuple[Requant, ...]]:
        """Return the fields of a layer over a tensor, and the requantisations after it.

        The result has the same axis as channels. divisor: as in :meth:`Dialect.layer_requants`.
        own: steps of the node itself.
        """
        steps, _ = self.chain(node, None, source in self.by_rows)
        requants = self.dialect.layer_requants(node, (*own, *steps), divisor)
        return self.common(node, source), requants

    def _zeros_of_maximum(self, node: Node, value: Value, window: ops.Window) -> Value:
        """Return the value that a maximum reads; where zeros around it may win, they are a layer.

        Pads of a maximum never win. Zeros do over negative values, and where a window sees nothing
        but them.
        """
        if value.pad_node is None:
            return value
        sees_input = window.dilations == (1, 1) and all(
            pad < window.kernel[side % 2] for side, pad in enumerate(value.pads)
        )
        if self.tensors[value.tensor].lo >= 0 and sees_input:
            return value
        return self.with_zeros(value)

    def _linear(self, node: Node, value: Value, shape: Shape) -> ops.Operator:
        if node.op == "Gemm":
            check_gemm(node)
        bits = self.dialect.weight_bits(node)
        weights = self.weights(node, bits)
        outputs, columns = weights.shape
        if len(shape) != 2 or columns != shape[1]:
            raise NotSupported(
                f"{node.label}: weight tensor '{node.input(1)}' has {columns} inputs, but the"
                f" layer reads shape {list(shape)}: it must be fully connected over [1, {columns}]"
            )
        steps, bias = self.chain(node, bias_of(self.model, node, outputs))
        by_rows = value.tensor in self.by_rows  # then they lie in the order of the file
        return ops.Linear(
            **self.common(node, value.tensor),
            requants=self.dialect.layer_requants(node, steps, 1),
            weights=Array(weights if by_rows else hwc_columns(weights, self.chw[value.tensor])),
            weight_bits=bits,
            bias=None if bias is None else Array(bias),
        )

    def weights(self, node: Node, bits: int) -> npt.NDArray[np.int64]:
        """Return the weights of a layer; a note says where their type is not what they mean."""
        values, stored_as_bytes = weights_of(self.model, node, bits, self.dialect.byte_weights)
        if stored_as_bytes and _BYTES_NOTE not in self.notes:
            self.notes.append(_BYTES_NOTE)
        return values

    def pair(self, node: Node) -> bool:
        """Import a function of two tensors; return False for other nodes.

        After the last integers only an Add is a layer.
        """
        kind = _PAIRS.get(node.op)
        if kind is None or len(node.inputs) != 2 or node.inputs[0] not in self.values:
            return False
        if node.inputs[1] not in self.values:
            return False
        if node.op != "Add" and node.position not in self.feeding:
            return False
        check_attributes(node, self.dialect.extra_attributes)
        names = self._in_order(node)
        if node.op in ("Add", "Sub"):
            values = [self._operand(name) for name in names]
            forms = {(self.chw[v.tensor], v.tensor in self.by_rows) for v in values}
            by_rows = any(v.tensor in self.by_rows for v in values)
            by_rows |= self.shapes[names[0]] != self.shapes[names[1]]
            if len(forms) > 1:
                read = self.as_rows if by_rows else self.as_read
                values = [read(node, name) for name in names]
            steps, _ = self.chain(node, None, by_rows)
            first, second = (Operand(self.tensors[v.tensor], v.steps) for v in values)
            meaning = self.dialect.residual_add(node, (first, second), steps)
        else:
            by_rows = any(self.value(name).tensor in self.by_rows for name in names)
            values = [(self.as_rows if by_rows else self.as_read)(node, name) for name in names]
            steps, _ = self.chain(node, None, by_rows)
            meaning = AddMeaning((None, None), self.dialect.layer_requants(node, steps, 1))
        self.notes.extend(meaning.notes)
        common = self.common(node, values[0].tensor, values[1].tensor)
        self.append(kind(**common, requants=meaning.requants, operand_requants=meaning.operands))
        return True

    def _in_order(self, node: Node) -> list[str]:
        """Return the operands of a pair, that of the result's shape first.

        The other one may be smaller, and have fewer dimensions where channels are the last of them;
        not in a difference. Raises: NotSupported.
        """
        names, result = list(node.inputs), self.shapes[node.outputs[0]]
        if self.shapes[names[0]] != result:
            names.reverse()
        whole, other = (self.shapes[name] for name in names)
        by_rows = self.values[names[0]].tensor in self.by_rows
        if node.op in ("Add", "Sub"):
            spread = node.op == "Add" and by_rows
        else:
            spread = by_rows or len(whole) == len(other)
        if whole != other and not (spread and whole == result):
            shown = " and ".join(str(list(self.shapes[name])) for name in node.inputs)
            raise NotSupported(
                f"{node.label}: operands of shapes {shown} are not computed element by element",
                "give both the shape of the result",
            )
        return names

    def _operand(self, name: str) -> Value:
        """Return an operand of a sum: its arithmetic is the sum's, zeros around it are a layer."""
        value = self.values[name]
        if value.pad_node is not None:
            value = self.values[name] = self.with_zeros(value)
        return value

    # --- chains -------------------------------------------------------------------------------

    def chain(
        self, node: Node, bias: npt.NDArray[np.int64] | None, by_rows: bool = False
    ) -> tuple[tuple[Step, ...], npt.NDArray[np.int64] | None]:
        """Take the arithmetic after a layer and register the value at its end as its tensor.

        An Add directly after a Conv or matrix is bias; returns (other steps, bias). by_rows: the
        channels of the tensor are the last axis.
        """
        shape = self.shapes.get(node.outputs[0])
        chw = None if shape is None else (rows_of if by_rows else chw_of)(shape)
        if chw is None:
            shown = "unknown" if shape is None else str(list(shape))
            raise NotSupported(f"{node.label}: its output shape is {shown}, not that of one image")
        tensor = f"layer_{len(self.layers):02d}"
        self.chw[tensor], self.labels[tensor] = chw, node.label
        self.by_rows |= {tensor} if by_rows else set()
        steps, passed, end = follow_chain(
            self.model, self.shapes, self.dialect, node.outputs[0], chw, by_rows
        )
        self.taken.update(n.position for n in passed)
        self.values[end] = Value(tensor)
        self.names[tensor] = end
        if node.op == "Conv" or (node.op in MATRICES and self.model.is_constant(node.input(1))):
            first = next((i for i, step in enumerate(steps) if step.op != "Cast"), 0)
            if steps and steps[first].op == "Add":
                total = added_bias(steps[first], bias, chw[0])
                return steps[first + 1 :], total if total.any() else None
        return steps, bias
