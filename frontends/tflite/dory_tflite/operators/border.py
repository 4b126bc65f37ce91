"""QUANTIZE and DEQUANTIZE: at the border they are left out, between integers they are tables."""

from __future__ import annotations

from dataclasses import replace

from dory_core.api import ops, quoting
from dory_tflite.fixed_point import quantize_multiplier
from dory_tflite.node import BYTES, Constraint, Node, Operator
from dory_tflite.operators.tables import quantize_lower
from dory_tflite.requantisation import rescaling


def _quantize(node: Node) -> None:
    source, output = node.input(), node.output()
    if source.type == "INT16":
        _narrow(node)
        return
    if source.type != "FLOAT32":
        quantize_lower(node)
        return
    y = node.quantisation(output)
    node.network.add_input(output, *y.bounds)
    node.network.notes.append(
        f"the network input is {output.label}: float input '{source.name}' is"
        f" round(value / {y.scale:.9g}) + {y.zero_point}"
    )


def _narrow(node: Node) -> None:
    """Append the rescaling of 16 bits to bytes: the mean of each element alone."""
    source, y = node.input(), node.quantisation(node.output())
    name = node.network.value(source)
    read = node.network.tensors[name]
    scale, zero_point = source.scales[0], source.zero_points[0]
    step = rescaling(
        [quantize_multiplier(scale / y.scale)],
        [(read.lo - zero_point, read.hi - zero_point)],
        y.zero_point,
        y.bounds,
        turn=zero_point,
    )
    node.emit(ops.AvgPool, node.output(), name, window=ops.Window(kernel=(1, 1)), requants=(step,))


def _from_wide_input(node: Node) -> bool:
    """Return whether a network input of 16 bits becomes INT8, as TFLM can."""
    source = node.input()
    is_input = source.index in node.model.subgraphs[0].inputs
    return source.type == "INT16" and node.output().type == "INT8" and is_input


def _from_float_input(node: Node) -> bool:
    source = node.input()
    return (
        source.type in BYTES
        or _from_wide_input(node)
        or (source.index in node.model.subgraphs[0].inputs and node.readers[source.index] == 1)
    )


def _dequantize(node: Node) -> None:
    source, output = node.input(), node.output()
    if source.data is not None:
        return  # the application knows it
    x = node.quantisation(source)
    place = node.network.place(source)
    real = (x.scale, x.zero_point)
    node.network.bind(output, replace(place, real=real))
    is_output = output.index in node.model.subgraphs[0].outputs
    node.network.notes.append(
        f"the network output is {source.label}: float {'output' if is_output else 'tensor'}"
        f" '{quoting.visible(output.name)}' is (value - {x.zero_point}) * {x.scale:.9g}"
    )


OPERATORS = (
    Operator(
        "QUANTIZE",
        "nothing at a float input, AvgPool of one element behind INT16, otherwise Lut",
        _quantize,
        (
            Constraint("the output is INT8 or UINT8", lambda node: node.output().type in BYTES),
            Constraint(
                "the input is INT8 or UINT8, or a network input: INT16 that becomes INT8, or float"
                " that nothing else reads",
                _from_float_input,
                "convert the network with full integer quantisation",
            ),
        ),
    ),
    Operator(
        "DEQUANTIZE",
        "nothing: reals behind the last integers are left to the application",
        _dequantize,
        (Constraint("the input is INT8 or UINT8", lambda node: node.input().type in BYTES),),
    ),
)
