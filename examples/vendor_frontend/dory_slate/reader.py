"""Slate files as Graphs: each record becomes a layer, range analysis finds the types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dory_core.api import Graph, Requant, Tensor, ops
from dory_core.importing import Array, ranges, requant
from dory_slate.records import Record, load

#: Name of the network input, in files and in Graphs.
_INPUT = "input"
Fields = dict[str, Any]


def parse(path: Path) -> Graph:
    """Return the integer network of a file.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    first, records = load(path)
    source = _input(first)
    layers: list[ops.Operator] = []
    tensors = {_INPUT: source}
    names = {_INPUT: _INPUT}  # of tensors in the Graph, by those of the file
    for record in records:
        name, operator = record.text("name"), record.text("operator")
        if operator not in _OPERATORS:
            raise record.refused(f"operator {operator} is none of {', '.join(_OPERATORS)}")
        if name in names:
            raise record.refused(f"a record before it is called {name}, too")
        kind, operands, fields_of = _OPERATORS[operator]
        reads = record.texts("reads", operands)
        if missing := [one for one in reads if one not in names]:
            raise record.refused(f"no record before it is called {missing[0]}")
        inputs = [names[one] for one in reads]
        fields = fields_of(record, tensors[inputs[0]])
        names[name] = ranges.append_layer(layers, tensors, kind, name, inputs, name, **fields)
    return ranges.infer_types(path.stem, (source,), tuple(layers), (layers[-1].output,))


def _input(record: Record) -> Tensor:
    lo, hi = record.span()
    bits, signed = ranges.storage_for(lo, hi)
    if bits > 16:
        raise record.refused(f"values from {lo} to {hi} need {bits} bits, 16 are possible")
    channels, height, width = record.numbers("shape", 3, 1, [])
    return Tensor(_INPUT, channels, height, width, lo, hi, bits, signed)


def _steps(record: Record, channels: int) -> tuple[Requant, ...]:
    """Return the requantisation: clip((multiply * sum + add) >> shift, least, greatest)."""
    mul, add = record.integers("multiply"), record.integers("add", default=[0])
    for name, values in (("multiply", mul), ("add", add)):
        if len(values) not in (1, channels):
            raise record.refused(f"its {name} has {len(values)} values, not 1 or {channels}")
    [shift] = record.numbers("shift", 1, 0, [0])
    if shift > 62:
        raise record.refused(f"it shifts by {shift} bits, 62 are possible")
    return (requant(mul.tolist(), add.tolist(), 1 << shift, *record.span()),)


def _window(record: Record, kernel: tuple[int, ...]) -> ops.Window:
    top, left, bottom, right = record.numbers("pads", 4, 0, [0, 0, 0, 0])
    down, across = record.numbers("strides", 2, 1, [1, 1])
    rows, columns = kernel
    pads = (top, left, bottom, right)
    return ops.Window(kernel=(rows, columns), strides=(down, across), pads=pads)


def _conv(record: Record, source: Tensor) -> Fields:
    weights = record.integers("weights", axes=4)  # (outputs, inputs, rows, columns)
    return {
        "weights": Array(weights),
        "window": _window(record, weights.shape[2:]),
        "requants": _steps(record, len(weights)),
    }


def _dense(record: Record, source: Tensor) -> Fields:
    weights = record.integers("weights", axes=2)  # (outputs, inputs in the order C, H, W)
    if weights.shape[1] != source.elements:
        raise record.refused(f"it has weights for {weights.shape[1]} of {source.elements} inputs")
    turned = weights.reshape(-1, *source.shape).transpose(0, 2, 3, 1)
    columns = turned.reshape(len(weights), -1)
    return {"weights": Array(columns), "requants": _steps(record, len(weights))}


def _maximum(record: Record, source: Tensor) -> Fields:
    return {"window": _window(record, record.numbers("kernel", 2, 1, []))}


def _sum(record: Record, source: Tensor) -> Fields:
    return {"requants": _steps(record, 1)}


#: Class, number of operands, and function of the fields of each operator.
_OPERATORS: dict[str, tuple[type[ops.Operator], int, Callable[[Record, Tensor], Fields]]] = {
    "conv": (ops.Conv, 1, _conv),
    "dense": (ops.Linear, 1, _dense),
    "maximum": (ops.MaxPool, 1, _maximum),
    "sum": (ops.Add, 2, _sum),
}
