"""Operators of reals between a DEQUANTIZE and a QUANTIZE: functions of one element, and movers.

Nothing is computed until the QUANTIZE: the reals of a tensor are a table over its bytes, functions
change the table, movers move the bytes, and the QUANTIZE makes a layer of the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import ops
from dory_tflite.model import FileTensor
from dory_tflite.node import Node
from dory_tflite.operators import gathers, movers
from dory_tflite.operators.tables import by_byte
from dory_tflite.places import Bound
from dory_tflite.reals import BINARY, UNARY, NoNumberError, Reals, dequantised, quantised

_SELECT = ("SELECT", "SELECT_V2")
#: Functions of reals, and of truth values.
FUNCTIONS = frozenset([*UNARY, *BINARY, *_SELECT])
_MOVERS = {operator.code: operator for operator in (*movers.OPERATORS, *gathers.OPERATORS)}
_PADS = ("PAD", "PADV2")
#: What a refusal names.
SUPPORTED = "functions of one element, also with one constant, and operators that move elements"


def reads_reals(node: Node) -> bool:
    """Return True when an operator reads reals that are a table over bytes."""
    return any(
        index in node.network.bound and node.network.bound[index].real is not None
        for index in node.op.inputs
    )


def is_known(node: Node) -> bool:
    """Return True when an operator of reals is read."""
    return node.op.code in FUNCTIONS or node.op.code in _MOVERS or node.op.code == "QUANTIZE"


def dequantise(node: Node) -> None:
    """Say that the output is the reals of the input's bytes."""
    source, output, network = node.input(), node.output(), node.network
    if source.data is not None:
        x = node.quantisation(source)
        reals = dequantised(x).of(source.data.astype(np.int64))
        network.file[output.index] = replace(output, data=reals)
        return
    place = network.place(source)
    network.bind(output, replace(place, real=dequantised(node.quantisation(source))))
    _bytes_of(node, output, source)


def lower(node: Node) -> None:
    """Append what an operator of reals becomes."""
    if node.op.code == "QUANTIZE":
        _quantise(node)
    elif node.op.code in FUNCTIONS:
        _function(node)
    else:
        _move(node)


def _bytes_of(node: Node, output: FileTensor, source: FileTensor) -> None:
    """Let operators that move elements see the bytes of a tensor of reals."""
    node.network.file[output.index] = replace(
        output, type=source.type, scales=source.scales, zero_points=source.zero_points
    )


def _quantise(node: Node) -> None:
    source, output, network = node.input(), node.output(), node.network
    place, y = network.place(source), node.quantisation(output)
    if place.real is None:
        raise node.error(f"{source.label} is no tensor of reals")
    x = place.real.x
    read = network.tensors[place.name]
    least = x.bounds[0]
    reached = slice(read.lo - least, read.hi - least + 1)
    try:
        table = quantised(place.real.array, y, reached)
    except NoNumberError as error:
        raise node.error(str(error), "clip what it reads, or calibrate the network again") from None
    if x.signed == y.signed and bool((table == x.values)[reached].all()):
        network.bind(output, replace(place, real=None))
        return
    node.emit(ops.Lut, output, network.value(source), table=by_byte(table, x))


def _function(node: Node) -> None:
    """Change the table of the reals that the operator reads."""
    read = 1 if node.op.code in UNARY else 2 if node.op.code in BINARY else 3
    tensors = [node.input(n) for n in range(max(read, len(node.op.inputs)))]
    places = [node.network.bound.get(one.index) for one in tensors]
    found = [one for one in places if one is not None and one.real is not None]
    first = found[0]
    _check(node, tensors, places, first)
    values = [_operand(one, place) for one, place in zip(tensors, places, strict=True)]
    assert first.real is not None
    with np.errstate(all="ignore"):
        if node.op.code in UNARY:
            result = UNARY[node.op.code](values[0], node.op.options)
        elif node.op.code in BINARY:
            result = BINARY[node.op.code](values[0], values[1], node.op.options)
        else:
            result = np.where(values[0], values[1], values[2])
    output = node.output()
    node.network.bind(output, replace(first, real=first.real.become(np.asarray(result))))
    at = next(n for n, place in enumerate(places) if place is first)
    _bytes_of(node, output, tensors[at])


def _check(node: Node, tensors: list[FileTensor], places: list[Bound | None], first: Bound) -> None:
    """Raise NotSupported unless all operands are constants or reals of the same bytes."""
    for tensor, place in zip(tensors, places, strict=True):
        if tensor.data is not None:
            if tensor.data.size and bool((tensor.data == tensor.data.reshape(-1)[0]).all()):
                continue
            raise node.error(f"its constant {tensor.label} has several values; supported is one")
        if place is None or place.real is None or replace(place, real=first.real) != first:
            raise node.error(
                "its operands are reals of two tensors; supported are functions of one element,"
                " also with a constant",
                "convert the network with full integer quantisation, up to its last layers",
            )
    size = {t.elements for t in tensors if t.data is None} | {node.output().elements}
    if len(size) > 1:
        raise node.error("it repeats elements; supported are functions of one element")


def _operand(tensor: FileTensor, place: Bound | None) -> npt.NDArray[Any]:
    if tensor.data is not None:
        return np.asarray(tensor.data.reshape(-1)[0])
    assert place is not None and place.real is not None
    return place.real.array


def _move(node: Node) -> None:
    """Move the bytes; their reals stay what they are."""
    network, known = node.network, _MOVERS[node.op.code]
    source = next(t for t in node.inputs if _real(node, t) is not None)
    reals = _real(node, source)
    assert reals is not None
    if node.op.code in _PADS:
        at_zero = reals.values[reals.x.zero_point - reals.x.bounds[0]]
        if node.op.code != "PAD" or at_zero != 0:
            raise node.error(f"it pads reals that are {at_zero:g} where their bytes are zero")
    data = [t for t in node.inputs if t.data is None]
    if any(_real(node, tensor) != reals for tensor in data):
        raise node.error(
            "its inputs are reals of different functions", "quantise them to the same scale"
        )
    for output in node.outputs:
        _bytes_of(node, output, source)
    start = len(network.ops)
    known.check(node)
    known.lower(node)
    for output in node.outputs:
        network.bind(output, replace(network.place(output), real=reals))
        for layer in network.ops[start:]:
            if layer.tensor == f"t{output.index}":
                network.unnamed(layer.output)


def _real(node: Node, tensor: FileTensor) -> Reals | None:
    place = node.network.bound.get(tensor.index)
    return None if place is None else place.real
