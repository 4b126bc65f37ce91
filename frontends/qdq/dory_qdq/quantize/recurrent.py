"""GRU, LSTM and RNN of a float network, written as one cell after the other.

onnxruntime's static quantiser knows none of them, but every operator of their cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported

Floats = npt.NDArray[np.float32]

_GATES: Mapping[str, int] = MappingProxyType({"LSTM": 4, "GRU": 3, "RNN": 1})
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
)
#: Inputs of the node: lengths of sequences, initial states, peepholes.
_LENGTHS, _HIDDEN, _CELL, _PEEPHOLES = 4, 5, 6, 7
_MOST_STEPS = 512
_HINT = "export it with default activations, fixed sizes and the sequence first"


@dataclass(slots=True)
class _Writer:
    """Nodes and constants that take the place of one node."""

    prefix: str
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"{self.prefix}_{self.count}"

    def constant(self, values: npt.NDArray[Any]) -> str:
        name = self.name()
        self.constants[name] = np.ascontiguousarray(values)
        return name

    def node(self, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node; returns its output."""
        from onnx import helper

        name = output or self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [name], f"{name}_{op}", **attributes))
        return name

    def split(self, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Add a Split; returns its outputs."""
        from onnx import helper

        if len(sizes) == 1:
            return [value]
        names = [self.name() for _ in sizes]
        parts = self.constant(np.array(sizes, np.int64))
        self.nodes.append(
            helper.make_node("Split", [value, parts], names, f"{names[0]}_Split", axis=axis)
        )
        return names

    def reshape(self, value: str, shape: Sequence[int], output: str = "") -> str:
        sizes = self.constant(np.array(shape, np.int64))
        return self.node("Reshape", value, sizes, output=output)

    def product(self, value: str, weights: Floats, bias: Floats | None = None) -> str:
        """Add a Gemm with weights (outputs, inputs); that of a constant is one."""
        if value in self.constants:
            known = self.constants[value] @ weights.T
            return self.constant(known if bias is None else known + bias)
        names = [self.constant(weights), *([] if bias is None else [self.constant(bias)])]
        return self.node("Gemm", value, *names, transB=1)


@dataclass(frozen=True, slots=True)
class _Direction:
    """Weights of one direction: of the input and of the hidden state, with their biases.

    Attributes:
        w, r: Shapes (gates * units, features) and (gates * units, units).
        w_bias, r_bias: Shape (gates * units,).
        before: A GRU multiplies by its reset gate after the product with the hidden state.
    """

    w: Floats
    r: Floats
    w_bias: Floats
    r_bias: Floats
    before: bool

    @property
    def units(self) -> int:
        """The number of hidden units."""
        return self.r.shape[1]


@dataclass(frozen=True, slots=True)
class _State:
    """Hidden state and cell after a step, of shape (1, units); empty names stand for zeros."""

    hidden: str = ""
    cell: str = ""


_Cell = Callable[[_Writer, _Direction, str, _State], _State]


def unroll(name: str, proto: Any) -> bool:
    """Replace recurrent layers by their cells, in place; returns True when there were any.

    Args:
        name: Of the file.
        proto: The model, with shapes of its values and folded constants.

    Raises:
        NotSupported: For what the cells do not have.
    """
    from onnx import numpy_helper

    graph = proto.graph
    found = [node for node in graph.node if node.op_type in _GATES and not node.domain]
    for node in found:
        writer = _Writer(f"{node.name or node.output[0]}_unrolled")
        _unrolled(name, graph, node, writer)
        at = list(graph.node).index(node)
        after = list(graph.node)[at + 1 :]
        del graph.node[at:]
        graph.node.extend([*writer.nodes, *after])
        read = {one for node in writer.nodes for one in node.input}
        graph.initializer.extend(
            numpy_helper.from_array(values, one)
            for one, values in writer.constants.items()
            if one in read
        )
    return bool(found)


def _unrolled(name: str, graph: Any, node: Any, writer: _Writer) -> None:
    """Write the cells of one layer."""
    from onnx import helper

    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    _check(name, node, attributes)
    steps, features = _sequence(name, graph, node)
    directions = _directions(name, graph, node, attributes)
    source = writer.reshape(node.input[0], (steps, features))
    states = _initial(graph, node, writer, directions)
    kind = _text(attributes.get("direction", b"forward"))
    sequences, ends = [], []
    for number, (direction, state) in enumerate(zip(directions, states, strict=True)):
        turned = kind == "reverse" or number == 1
        rows = _projected(writer, node.op_type, direction, source, steps)
        hidden = []
        for row in rows[::-1] if turned else rows:
            state = _CELLS[node.op_type](writer, direction, row, state)
            hidden.append(state.hidden)
        sequences.append(hidden[::-1] if turned else hidden)
        ends.append(state)
    _write_outputs(graph, node, writer, sequences, ends, directions[0].units)


def _check(name: str, node: Any, attributes: Mapping[str, Any]) -> None:
    """Raise NotSupported for what a cell does not have."""
    count = 2 if _text(attributes.get("direction", b"forward")) == "bidirectional" else 1
    wanted = _ACTIVATIONS[node.op_type] * count
    given = tuple(_text(a) for a in attributes.get("activations", wanted))
    reasons = {
        f"its activations are {', '.join(given)}": given != wanted,
        "it clips its cells": "clip" in attributes,
        "its input and forget gates are coupled": bool(attributes.get("input_forget")),
        "its batch comes first": bool(attributes.get("layout")),
        "its sequences have lengths": _input(node, _LENGTHS) != "",
        "it has peepholes": _input(node, _PEEPHOLES) != "",
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise _refused(name, node, reason)


def _sequence(name: str, graph: Any, node: Any) -> tuple[int, int]:
    """Return steps and features of the input."""
    for value in (*graph.value_info, *graph.input):
        if value.name == node.input[0]:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            if len(shape) == 3 and shape[1] == 1 and 0 < shape[0] <= _MOST_STEPS and shape[2]:
                return shape[0], shape[2]
            raise _refused(
                name,
                node,
                f"its input has the shape {shape}; supported are at most {_MOST_STEPS} steps of"
                " one sequence (steps, 1, features)",
            )
    raise _refused(name, node, f"the shape of its input '{node.input[0]}' is not known")


def _directions(
    name: str, graph: Any, node: Any, attributes: Mapping[str, Any]
) -> list[_Direction]:
    from onnx import numpy_helper

    stored = {tensor.name: tensor for tensor in graph.initializer}
    names = [_input(node, n) for n in (1, 2, 3)]
    if any(one and one not in stored for one in names):
        raise _refused(name, node, "its weights are no constants")
    w, r = (numpy_helper.to_array(stored[one]).astype(np.float32) for one in names[:2])
    both = np.zeros((len(w), 2 * w.shape[1]), np.float32)
    if names[2]:
        both = numpy_helper.to_array(stored[names[2]]).astype(np.float32)
    half, before = w.shape[1], bool(attributes.get("linear_before_reset", 0))
    return [_Direction(w[n], r[n], both[n, :half], both[n, half:], before) for n in range(len(w))]


def _initial(
    graph: Any, node: Any, writer: _Writer, directions: Sequence[_Direction]
) -> list[_State]:
    """Return the states before the first step."""
    from onnx import numpy_helper

    stored = {tensor.name: tensor for tensor in graph.initializer}
    count, units = len(directions), directions[0].units

    def rows(name: str) -> list[str]:
        if not name:
            return [""] * count
        if name not in stored:
            return writer.split(writer.reshape(name, (count, units)), [1] * count, 0)
        values = numpy_helper.to_array(stored[name]).astype(np.float32).reshape(count, 1, units)
        return [writer.constant(row) if row.any() else "" for row in values]

    hidden, cells = (rows(_input(node, position)) for position in (_HIDDEN, _CELL))
    if node.op_type != "LSTM":
        cells = [""] * count
    return [_State(*pair) for pair in zip(hidden, cells, strict=True)]


def _projected(
    writer: _Writer, op: str, direction: _Direction, source: str, steps: int
) -> list[str]:
    """Return the products of the inputs of all steps, one row per step, with what is added."""
    bias = direction.w_bias + direction.r_bias
    if op == "GRU" and direction.before:  # the reset gate multiplies this bias
        bias = bias - np.where(np.arange(len(bias)) < 2 * direction.units, 0, direction.r_bias)
    return writer.split(writer.product(source, direction.w, bias), [1] * steps, 0)


def _with_state(writer: _Writer, row: str, state: str, weights: Floats) -> str:
    """Return a row with the product of the hidden state added."""
    return writer.node("Add", row, writer.product(state, weights)) if state else row


def _lstm(writer: _Writer, direction: _Direction, row: str, state: _State) -> _State:
    """Write a cell with the gates input, output, forget and cell."""
    units = direction.units
    sums = _with_state(writer, row, state.hidden, direction.r)
    three, cell_sum = writer.split(sums, [3 * units, units], 1)
    first, out, forget = writer.split(writer.node("Sigmoid", three), [units] * 3, 1)
    cell = writer.node("Mul", first, writer.node("Tanh", cell_sum))
    if state.cell:
        cell = writer.node("Add", writer.node("Mul", forget, state.cell), cell)
    return _State(writer.node("Mul", out, writer.node("Tanh", cell)), cell)


def _gru(writer: _Writer, direction: _Direction, row: str, state: _State) -> _State:
    """Write a cell with the gates update and reset, and the hidden state."""
    units, r, hidden = direction.units, direction.r, state.hidden
    two, own = writer.split(row, [2 * units, units], 1)
    two = _with_state(writer, two, hidden, r[: 2 * units])
    update, reset = writer.split(writer.node("Sigmoid", two), [units] * 2, 1)
    bias = direction.r_bias[2 * units :]
    if direction.before:
        kept = writer.product(hidden, r[2 * units :], bias) if hidden else ""
        kept = kept or writer.constant(bias.reshape(1, -1))
        own = writer.node("Add", own, writer.node("Mul", reset, kept))
    elif hidden:
        own = _with_state(writer, own, writer.node("Mul", reset, hidden), r[2 * units :])
    rest = writer.node("Sub", writer.constant(np.ones((1, 1), np.float32)), update)
    found = writer.node("Mul", rest, writer.node("Tanh", own))
    if hidden:
        found = writer.node("Add", found, writer.node("Mul", update, hidden))
    return _State(found)


def _rnn(writer: _Writer, direction: _Direction, row: str, state: _State) -> _State:
    """Write a plain cell."""
    sums = _with_state(writer, row, state.hidden, direction.r)
    return _State(writer.node("Tanh", sums))


_CELLS: Mapping[str, _Cell] = MappingProxyType({"LSTM": _lstm, "GRU": _gru, "RNN": _rnn})


def _write_outputs(
    graph: Any,
    node: Any,
    writer: _Writer,
    sequences: Sequence[Sequence[str]],
    ends: Sequence[_State],
    units: int,
) -> None:
    """Write what other nodes read: all hidden states, the last ones, the last cells."""
    used = {name for one in graph.node for name in one.input}
    used |= {value.name for value in graph.output}
    outputs = [name if name in used else "" for name in node.output]
    steps, count = len(sequences[0]), len(sequences)
    if outputs[0]:
        each = [_joined(writer, list(sequence), 0) for sequence in sequences]
        writer.reshape(_joined(writer, each, 1), (steps, count, 1, units), outputs[0])
    lasts = ([end.hidden for end in ends], [end.cell for end in ends])
    for output, names in zip(outputs[1:], lasts, strict=False):
        if output:
            writer.reshape(_joined(writer, names, 0), (count, 1, units), output)


def _joined(writer: _Writer, names: Sequence[str], axis: int) -> str:
    return names[0] if len(names) == 1 else writer.node("Concat", *names, axis=axis)


def _input(node: Any, position: int) -> str:
    return str(node.input[position]) if position < len(node.input) else ""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _refused(name: str, node: Any, reason: str) -> NotSupported:
    title = node.name or next(iter(node.output), "")
    return NotSupported(f"{name}: {node.op_type} '{title}': {reason}", _HINT)
