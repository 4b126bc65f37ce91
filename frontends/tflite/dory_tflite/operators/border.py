"""QUANTIZE and DEQUANTIZE: at the border they are left out; bytes become others by a table."""

from __future__ import annotations

from dory_core.api import ops
from dory_core.tools import quoting
from dory_tflite.fixed_point import INT32_MAX, quantize_multiplier
from dory_tflite.node import ACTIVATIONS, BYTES, WIDE, Constraint, Node, Operator
from dory_tflite.operators import islands
from dory_tflite.operators.tables import quantize_lower
from dory_tflite.requantisation import rescaling

#: Types of input and output with more than 8 bits that TFLM knows.
_RESCALED = {("INT8", wide) for wide in WIDE} | {("INT16", kind) for kind in ("INT8", *WIDE)}


def _quantize(node: Node) -> None:
    source, output = node.input(), node.output()
    if source.type != "FLOAT32":
        lower = quantize_lower if {source.type, output.type} <= set(BYTES) else _rescale
        lower(node)
        return
    y = node.quantisation(output)
    node.network.add_input(output, *y.bounds)
    node.network.notes.append(
        f"the network input is {output.label}: float input '{source.name}' is"
        f" round(value / {y.scale:.9g}) + {y.zero_point}"
    )


def _rescale(node: Node) -> None:
    """Append the rescaling from or to more than 8 bits: a mean over windows of one element."""
    source, output = node.input(), node.output()
    x, y = node.quantisation(source, wide=True), node.quantisation(output, wide=True)
    name = node.network.value(source)
    read = node.network.tensors[name]
    factor = quantize_multiplier(x.scale / y.scale)
    reach = (read.lo - x.zero_point, read.hi - x.zero_point)
    if max(abs(end) for end in reach) << factor.left_shift > INT32_MAX:
        raise node.error(f"the factor {x.scale / y.scale:.6g} brings its values beyond 32 bits")
    step = rescaling([factor], [reach], y.zero_point, y.bounds, turn=x.zero_point)
    node.emit(ops.AvgPool, output, name, window=ops.Window(kernel=(1, 1)), requants=(step,))


def _readable(node: Node) -> bool:
    source, kinds = node.input(), (node.input().type, node.output().type)
    if source.type == "FLOAT32":
        is_input = source.index in node.model.subgraphs[0].inputs
        return kinds[1] in ACTIVATIONS and is_input and node.readers[source.index] == 1
    return set(kinds) <= set(BYTES) or kinds in _RESCALED


def _dequantize(node: Node) -> None:
    source, output = node.input(), node.output()
    islands.dequantise(node)
    if source.data is not None:
        return  # the application knows it
    subgraph = node.model.subgraphs[0]
    is_output = output.index in subgraph.outputs
    readers = [op.position for op in subgraph.operators if output.index in op.inputs]
    if not is_output and readers and node.islands.issuperset(readers):
        return
    x = node.quantisation(source)
    node.network.notes.append(
        f"the network output is {source.label}: float {'output' if is_output else 'tensor'}"
        f" '{quoting.visible(output.name)}' is (value - {x.zero_point}) * {x.scale:.9g}"
    )


def _dequantizable(node: Node) -> bool:
    source, output = node.input(), node.output()
    readers = [op.position for op in node.model.subgraphs[0].operators if output.index in op.inputs]
    return source.type in BYTES or (source.type == "INT16" and not node.islands & set(readers))


OPERATORS = (
    Operator(
        "QUANTIZE",
        "nothing at a float input, AvgPool of one element from or to INT16 or INT32, otherwise Lut",
        _quantize,
        (
            Constraint(
                "input and output are INT8 or UINT8, or INT8 or INT16 becomes one of INT8, INT16"
                " and INT32, or the input is a float network input that nothing else reads",
                _readable,
                "convert the network with full integer quantisation",
            ),
        ),
    ),
    Operator(
        "DEQUANTIZE",
        "nothing: reals behind the last integers are left to the application, others are tables",
        _dequantize,
        (
            Constraint(
                "the input is INT8 or UINT8, or INT16 after the last integers",
                _dequantizable,
            ),
        ),
    ),
)
