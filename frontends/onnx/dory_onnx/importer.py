"""From ONNX nodes to a Graph: one walk in file order, shared by all dialects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dory_core.api import Array, FrontendOptions, Graph, NotSupported, ops, ranges, requant
from dory_onnx.arithmetic import NARROW_TYPES, Step, data_input, integers, is_narrow_cast
from dory_onnx.chains import RESHAPES, follow_chain, keeps_order
from dory_onnx.dialect import AddMeaning, Dialect, Operand
from dory_onnx.growing import GrowingGraph
from dory_onnx.marks import reader_of
from dory_onnx.means import REDUCTIONS, BorderMean, border_mean, is_rounded, reduced_window
from dory_onnx.model import EXPORT_HINT, Node, OnnxModel, load
from dory_onnx.movers import (
    MOVERS,
    OLD_ATTRIBUTES,
    RESIZES,
    extents_of,
    factors_of,
    joined_axis,
    repeated,
    taken_of,
    turned_axes,
)
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
    with_pads,
    zero_pads,
)
from dory_onnx.shapes import Shape
from dory_onnx.values import NO_PADS, Value, nodes_feeding_layers

_CHW = (0, 1, 2)
_SUPPORTED_HINT = (
    "supported are Conv, Gemm, MatMul, pools, ReduceMean, ReduceSum and ReduceMax over rows and"
    " columns, Add, Sub, Mul, Max and Min of two tensors, each with its requantisation, Relu, Pad,"
    " Concat, Slice, Split, Transpose, Reshape and nearest Resize; float operators only behind the"
    " last of them"
)
#: Functions of two tensors.
_PAIRS: Mapping[str, type[ops.Pairwise]] = MappingProxyType(
    {"Add": ops.Add, "Sub": ops.Add, "Mul": ops.Mul, "Max": ops.Maximum, "Min": ops.Minimum}
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


class _Import(GrowingGraph):
    """State of one import; lives for one call of :func:`import_onnx`."""

    def __init__(self, model: OnnxModel, options: FrontendOptions, dialect: Dialect) -> None:
        for node in model.nodes:
            check_inputs(node)
        super().__init__(model, options, dialect)
        self.taken: set[int] = set()  # positions of nodes that belong to a chain
        self.host: list[Node] = []
        self.ends: dict[str, str] = {}  # tensors that leave the network, and who reads them
        self.feeding = nodes_feeding_layers(model, self._is_layer)

    def _is_layer(self, node: Node) -> bool:
        """Return whether a node is a layer wherever it stands."""
        return node.op in LAYER_OPERATORS or (
            node.op in (*REDUCTIONS, *_PAIRS)
            and node.op != "Add"
            and sum(not self.model.is_constant(name) for name in node.inputs if name)
            == (2 if node.op in _PAIRS else 1)
            and is_rounded(self.model, node, self.dialect.arithmetic)
        )

    def run(self) -> Graph:
        """Walk over the nodes once and return the typed Graph."""
        for node in self.model.nodes:
            if node.position in self.taken or all(self.model.is_constant(o) for o in node.outputs):
                continue
            layer = node.op in LAYER_OPERATORS or (
                node.op in REDUCTIONS and node.position in self.feeding
            )
            if layer and node.input(0) in self.values:
                self._layer(node)
            elif not (self._pair(node) or self._passed(node) or self._moved(node)):
                self._leave_to_host(node)
        return self._finish()

    # --- layers -------------------------------------------------------------------------------

    def _layer(self, node: Node) -> None:
        check_attributes(node, self.dialect.extra_attributes | OLD_ATTRIBUTES)
        if any(self.model.readers(o) or o in self.model.outputs for o in node.outputs[1:] if o):
            raise NotSupported(f"{node.label}: its second output is used")
        shape = self.shapes[node.input(0)]
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

    def _conv(self, node: Node, value: Value, shape: Shape) -> ops.Op:
        bits = self.dialect.weight_bits(node)
        values = self._weights(node, bits)
        window = conv_window(node, values, shape, value.pads)
        steps, bias = self._chain(node, bias_of(self.model, node, len(values)))
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
        steps, _ = self._chain(node, None)
        requants = self.dialect.layer_requants(node, steps, 1)
        common = self.common(node, value.tensor)
        self.append(ops.MaxPool(**common, requants=requants, window=window))

    def _mean(self, node: Node, value: Value, window: ops.Window, divisor: int) -> None:
        steps, _ = self._chain(node, None)
        requants = self.dialect.layer_requants(node, steps, divisor)
        common = self.common(node, value.tensor)
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
        steps, _ = self._chain(node, None)
        requants = self.dialect.layer_requants(node, steps, border.divisor)
        common = self.common(node, sums)
        self.append(ops.Mul(**common, requants=requants, constant=border.factors))

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

    def _linear(self, node: Node, value: Value, shape: Shape) -> ops.Op:
        if node.op == "Gemm":
            check_gemm(node)
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
            **self.common(node, value.tensor),
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

    def _pair(self, node: Node) -> bool:
        """Import a function of two tensors; False when ``node`` is none.

        Only an Add is a layer behind the last integers, too.
        """
        kind = _PAIRS.get(node.op)
        if kind is None or len(node.inputs) != 2 or node.inputs[0] not in self.values:
            return False
        if node.inputs[1] not in self.values:
            return False
        if node.op != "Add" and node.position not in self.feeding:
            return False
        check_attributes(node, self.dialect.extra_attributes)
        names = list(node.inputs)
        shapes = [self.shapes[name] for name in names]
        of_sum = node.op in ("Add", "Sub")
        if self.shapes[node.outputs[0]] != shapes[0]:
            names, shapes = names[::-1], shapes[::-1]
        if shapes[0] != shapes[1] and (
            of_sum or self.shapes[node.outputs[0]] != shapes[0] or len(shapes[0]) != len(shapes[1])
        ):
            shown = " and ".join(str(list(self.shapes[name])) for name in node.inputs)
            raise NotSupported(
                f"{node.label}: operands of shapes {shown} are not computed element by element",
                "give both the shape of the result",
            )
        if not of_sum:
            values = [self.as_read(node, name) for name in names]
            steps, _ = self._chain(node, None)
            meaning = AddMeaning((None, None), self.dialect.layer_requants(node, steps, 1))
        else:
            values = [self._operand(name) for name in names]
            if self.chw[values[0].tensor] != self.chw[values[1].tensor]:
                values = [self.as_read(node, name) for name in names]
            steps, _ = self._chain(node, None)
            operands = (
                Operand(self.tensors[values[0].tensor], values[0].steps),
                Operand(self.tensors[values[1].tensor], values[1].steps),
            )
            meaning = self.dialect.residual_add(node, operands, steps)
        self.notes.extend(meaning.notes)
        common = self.common(node, values[0].tensor, values[1].tensor)
        self.append(kind(**common, requants=meaning.requants, operand_requants=meaning.operands))
        return True

    def _operand(self, name: str) -> Value:
        """Return an operand of a sum: its arithmetic is the sum's, zeros around it are a layer."""
        value = self.values[name]
        if value.pad_node is not None:
            value = self.values[name] = self.with_zeros(value)
        return value

    def _moved(self, node: Node) -> bool:
        """Import what moves elements for a layer that reads them; False when ``node`` does not."""
        if node.op not in MOVERS or node.position not in self.feeding:
            return False
        count = len(node.inputs) if node.op == "Concat" else 1
        names = node.inputs[:count]
        if any(name not in self.values for name in names):
            return False
        check_attributes(node, self.dialect.extra_attributes | OLD_ATTRIBUTES)
        shape = self.shapes[names[0]]
        axis = joined_axis(node, len(shape)) if node.op == "Concat" else 0
        factors = factors_of(self.model, node, shape) if node.op in RESIZES else None
        order = turned_axes(node, len(shape)) if node.op == "Transpose" else (0, 1, 2)
        made = chw_of(self.shapes.get(node.outputs[0], ()))
        if made is None or min(made) < 1:
            raise NotSupported(
                f"{node.label}: what it makes of {list(shape)} follows from no constants, or is not"
                " one image",
                EXPORT_HINT,
            )
        sources = tuple(self.as_read(node, name).tensor for name in names)
        if node.op in ("Slice", "Split"):
            self._taken(node, sources[0], shape)
            return True
        output = self.begin(node, node.outputs[0], made)
        common = self.common(node, *sources)
        if node.op == "Concat":
            self.append(ops.Concat(**common, axis=axis))
        elif node.op == "Transpose":
            self.append(ops.Transpose(**common, perm=order))
        else:
            assert factors is not None  # else the shape would be unknown
            taps = [repeated(n, f) for n, f in zip(shape[2:], factors, strict=True)]
            self.append(ops.Resize(**common, rows=taps[0], columns=taps[1]))
        self.values[node.outputs[0]] = Value(output)
        return True

    def _taken(self, node: Node, source: str, shape: Shape) -> None:
        """Append the layers of a Slice or Split whose results are read."""
        for name, taken in taken_of(self.model, node, shape).items():
            if not self.model.readers(name) and name not in self.model.outputs:
                continue
            begin, size, step = extents_of(taken[1:])
            output = self.begin(node, name, size)
            common = self.common(node, source)
            self.append(ops.Slice(**common, begin=begin, size=size, step=step))
            self.values[name] = Value(output)

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
        self.chw[tensor], self.labels[tensor] = chw, node.label
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
        if node.op == "Pad":
            self.values[node.outputs[0]] = self._padded(node, source)
            return True
        value = self.values[source]
        if node.op not in ("Identity", "Dropout") and value.pad_node is not None:
            value = self.values[source] = self.with_zeros(value)
        if keeps_order(node, self.shapes, self.chw[value.tensor]):
            self.values[node.outputs[0]] = value
            return True
        if is_narrow_cast(node):
            self._check_range(node, value)
            self.values[node.outputs[0]] = value
            return True
        carried = node.op in ("Mul", "Add", "Sub", "Cast")
        if carried or node.op in self.dialect.rounding_operands:
            steps = self.dialect.steps_of(self.model, node, self.shapes[source])
            self.values[node.outputs[0]] = replace(value, steps=(*value.steps, *steps))
            return True
        if node.position not in self.feeding:
            return False
        if arithmetic:
            return self._rescaling(node, source)
        after = chw_of(self.shapes.get(node.outputs[0], ()))
        if node.op not in RESHAPES or after is None:
            return False
        value = self.as_read(node, source)
        self.values[node.outputs[0]] = self.with_shape(node, node.outputs[0], value, after)
        return True

    def _rescaling(self, node: Node, source: str) -> bool:
        """Import arithmetic that belongs to no layer, as the mean of one element."""
        value = self.values[source]
        shape = self.shapes[source]
        if chw_of(shape) != self.chw[value.tensor]:
            value = self.as_read(node, source)
        if node.op == "Relu" and not value.steps:
            tensor = self.tensors[value.tensor]
            if tensor.lo >= 0:
                self.values[node.outputs[0]] = value
                return True
            own: tuple[Step, ...] = (Step(node, hi=max(tensor.hi, 0), kind="Clip"),)
        else:
            own = (*value.steps, *self.dialect.steps_of(self.model, node, shape))
        steps, _ = self._chain(node, None)
        requants = self.dialect.layer_requants(node, (*own, *steps), 1)
        common = self.common(node, value.tensor)
        self.append(ops.AvgPool(**common, requants=requants, window=ops.Window(kernel=(1, 1))))
        return True

    def _check_range(self, node: Node, value: Value) -> None:
        """Raise NotSupported for a Cast that changes values of its tensor."""
        tensor = self.tensors[value.tensor]
        lo, hi = NARROW_TYPES[node.attributes["to"]]
        if any(step.op != "Cast" for step in value.steps) or tensor.lo < lo or tensor.hi > hi:
            raise NotSupported(
                f"{node.label}: cast of {self.origin(value)}, whose values reach from {tensor.lo}"
                f" to {tensor.hi}, to a type of [{lo}, {hi}] may wrap",
                "export with a Clip to the type's range in front of the Cast",
            )

    def _padded(self, node: Node, source: str) -> Value:
        value = self.value(source, pads=True)
        new = zero_pads(self.model, node, self.shapes[source])
        if not any(new):
            return value
        top, left, bottom, right = (a + b for a, b in zip(value.pads, new, strict=True))
        return replace(value, pads=(top, left, bottom, right), pad_node=node)

    # --- the end ------------------------------------------------------------------------------

    def _leave_to_host(self, node: Node) -> None:
        """Leave out a node behind the last layer; NotSupported when it is before it."""
        self.dialect.check_host(node)
        if node.position in self.feeding:
            read = next((self.values[i] for i in node.inputs if i in self.values), None)
            if node.op in self.dialect.arithmetic and read is not None:
                self._check_constants(node)
                raise NotSupported(
                    f"{node.label}: it works on {self.origin(read)}, but belongs to no layer:"
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
                self._end(name, node.label)
        self.host.append(node)

    def _check_constants(self, node: Node) -> None:
        for name in node.inputs:
            content = self.model.constant(name) if name else None
            if content is not None:
                integers(node, name, content)

    def _end(self, name: str, reader: str) -> None:
        value = self.values[name]
        if any(step.node.op in self.dialect.rounding_operands for step in value.steps):
            value = self.value(name)
        if value.pad_node is not None:
            value = self.values[name] = self.with_zeros(value)
        for step in value.steps:
            self.dialect.check_host(step.node)
        self.host.extend(s.node for s in value.steps if s.node not in self.host)
        self.ends.setdefault(value.tensor, reader)

    def _finish(self) -> Graph:
        for output in self.model.outputs:
            if output in self.values:
                self._end(output, f"output '{output}'")
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
