"""From ONNX nodes to a Graph: one walk in file order, shared by all dialects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dory_core.api import Graph, NotSupported
from dory_core.importing import FrontendOptions, ranges
from dory_onnx.arithmetic import NARROW_TYPES, Step, data_input, integers, is_narrow_cast
from dory_onnx.chains import RESHAPES, keeps_order
from dory_onnx.dialect import Dialect
from dory_onnx.layers import LayersOfFile
from dory_onnx.marks import reader_of
from dory_onnx.means import REDUCTIONS
from dory_onnx.model import Node, OnnxModel, load
from dory_onnx.operators import LAYER_OPERATORS, check_inputs, chw_of, rows_of, zero_pads
from dory_onnx.quantised import check_quantised
from dory_onnx.values import Value

_CHW, _ROWS = (0, 1, 2), (1, 2, 0)
_SUPPORTED_HINT = (
    "supported are Conv, Gemm, MatMul, pools, ReduceMean, ReduceSum and ReduceMax over rows and"
    " columns, Add, Sub, Mul, Max and Min of two tensors, each with its requantisation, Relu, Pad,"
    " Concat, Slice, Split, Transpose, Reshape and nearest Resize; float operators only behind the"
    " last of them"
)
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


class _Import(LayersOfFile):
    """State of one import; lives for one call of :func:`import_onnx`."""

    def __init__(self, model: OnnxModel, options: FrontendOptions, dialect: Dialect) -> None:
        for node in model.nodes:
            check_inputs(node)
        super().__init__(model, options, dialect)
        self.host: list[Node] = []
        self.ends: dict[str, str] = {}  # tensors that leave the network, and who reads them

    def run(self) -> Graph:
        """Walk over the nodes once and return the typed Graph."""
        for node in self.model.nodes:
            if node.position in self.taken or all(self.model.is_constant(o) for o in node.outputs):
                continue
            layer = node.op in LAYER_OPERATORS or (
                node.op in REDUCTIONS and node.position in self.feeding
            )
            own = self.dialect.own_layers.get(node.op)
            if own is not None and node.input(0) in self.values:
                own(self, node)
            elif layer and node.input(0) in self.values:
                self.layer(node)
            elif not (self.pair(node) or self._passed(node) or self.moved(node)):
                self._leave_to_host(node)
        return self._finish()

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
        by_rows = value.tensor in self.by_rows
        if keeps_order(node, self.shapes, self.chw[value.tensor], by_rows):
            self.values[node.outputs[0]] = value
            return True
        if by_rows and node.op in RESHAPES and rows_of(self.shapes.get(node.outputs[0], ())):
            self.values[node.outputs[0]] = self.value(source)  # its elements keep their order
            return True
        if is_narrow_cast(node):
            self._check_range(node, value)
            self.values[node.outputs[0]] = value
            return True
        carried = node.op in ("Mul", "Add", "Sub", "Cast")
        if carried or node.op in self.dialect.rounding_operands:
            if by_rows:
                value = self.as_rows(node, source) if self._moved(source) else value
            axis = -1 if by_rows else 1
            steps = self.dialect.steps_of(self.model, node, self.shapes[source], axis)
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
        shape, by_rows = self.shapes[source], value.tensor in self.by_rows
        if self._moved(source):
            value = self.as_it_lies(node, source)
        if node.op == "Relu" and not value.steps:
            tensor = self.tensors[value.tensor]
            if tensor.lo >= 0:
                self.values[node.outputs[0]] = value
                return True
            own: tuple[Step, ...] = (Step(node, hi=max(tensor.hi, 0), kind="Clip"),)
        else:
            axis = -1 if by_rows else 1
            own = (*value.steps, *self.dialect.steps_of(self.model, node, shape, axis))
        steps, _ = self.chain(node, None, by_rows)
        requants = self.dialect.layer_requants(node, (*own, *steps), 1)
        self.append_rescaling(node, value.tensor, requants)
        return True

    def _moved(self, name: str) -> bool:
        """Return True when a value has another shape than its tensor."""
        tensor, shape = self.values[name].tensor, self.shapes[name]
        return (rows_of if tensor in self.by_rows else chw_of)(shape) != self.chw[tensor]

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
        by_rows = self.values[source].tensor in self.by_rows
        value = self.as_read(node, source) if by_rows else self.value(source, pads=True)
        new = zero_pads(self.model, node, self.shapes[source])
        if not any(new):
            return value
        top, left, bottom, right = (a + b for a, b in zip(value.pads, new, strict=True))
        return replace(value, pads=(top, left, bottom, right), pad_node=node)

    # --- the end ------------------------------------------------------------------------------

    def _leave_to_host(self, node: Node) -> None:
        """Leave out a node after the last layer; raises NotSupported before it."""
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
        direct = [output for output in self.model.outputs if output in self.values]
        for output in direct:
            self._end(output, f"output '{output}'")
        tensors = [self.values[output].tensor for output in direct]
        self.notes.extend(ranges.shared_outputs(direct, tensors))
        if not self.layers and (self.host or not self.ends):
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
        images = (name for name in self.tensors if name not in self.by_rows)
        forms = dict.fromkeys(images, ranges.FileForm(_CHW))
        for name, tensor in zip(self.model.inputs, self.inputs, strict=True):
            order = _ROWS if tensor.name in self.by_rows else _CHW
            forms[tensor.name] = ranges.FileForm(order, name)
        return forms
