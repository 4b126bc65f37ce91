"""SPACE_TO_BATCH_ND, a convolution, BATCH_TO_SPACE_ND: a dilated convolution of the whole image.

The batches are phases of the image: batch (i, j) has every ``block``-th row and column from (i, j)
on. So the convolution of each is that of the padded image with dilations. Phases are kept as the
image that they belong to, and only the three operators read them.
"""

from __future__ import annotations

from dataclasses import replace

from dory_core.api import ops
from dory_tflite.model import FileTensor
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators import convolution
from dory_tflite.operators.common import SAME_QUANTISATION, SAME_TYPE, byte_tensors, constant
from dory_tflite.places import Bound

Block = tuple[int, int]

_CONVOLUTIONS = {
    operator.code: operator
    for operator in convolution.OPERATORS
    if operator.code in ("CONV_2D", "DEPTHWISE_CONV_2D")
}
_NOTE = (
    "SPACE_TO_BATCH_ND pads with the zero point, as LiteRT does: TensorFlow Lite Micro takes memory"
    " that it has not initialised"
)
_HINT = "write a dilated convolution, which later converters do"


def reads_phases(node: Node) -> bool:
    """Return True when an operator reads phases of an image."""
    return any(index in node.network.phases for index in node.op.inputs)


def lower(node: Node) -> None:
    """Append what an operator of phases becomes; raises NotSupported for most of them."""
    if node.op.code == "BATCH_TO_SPACE_ND":
        _JOIN.check(node)
        _JOIN.lower(node)
        return
    known, block = _CONVOLUTIONS.get(node.op.code), node.network.phases.get(node.op.inputs[0])
    options = node.op.options
    if known is None or block is None:
        raise node.error(
            "it reads the result of a SPACE_TO_BATCH_ND; supported are convolutions between it and"
            " a BATCH_TO_SPACE_ND",
            _HINT,
        )
    if options["Padding"] != "VALID" or (options["StrideH"], options["StrideW"]) != (1, 1):
        raise node.error(
            f"between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND it has the padding"
            f" {options['Padding']} and strides {options['StrideH']} and {options['StrideW']};"
            " supported are VALID and 1",
            _HINT,
        )
    rows, columns = options["DilationHFactor"] * block[0], options["DilationWFactor"] * block[1]
    dilated = {**options, "DilationHFactor": rows, "DilationWFactor": columns}
    _is_image(node, node.output(), block)
    whole = replace(node, op=replace(node.op, options=dilated))
    known.check(whole)
    known.lower(whole)
    node.network.unnamed(node.network.place(node.output()).name)


def _is_image(node: Node, phases: FileTensor, block: Block) -> None:
    """Let other operators see phases as the image that they belong to."""
    batch, height, width, channels = phases.shape
    if batch != block[0] * block[1]:
        raise node.error(f"{phases.label} has {batch} batches of blocks {list(block)}")
    whole = (1, height * block[0], width * block[1], channels)
    node.network.file[phases.index] = replace(phases, shape=whole)
    node.network.phases[phases.index] = block


def _pairs(node: Node) -> tuple[Block, tuple[int, int, int, int]]:
    """Return the block, and (top, left, bottom, right) of pads or crops."""
    rows, columns = node.integers(1)
    top, bottom, left, right = node.integers(2)
    return (rows, columns), (top, left, bottom, right)


def _split(node: Node) -> None:
    source, output = node.input(), node.output()
    block, pads = _pairs(node)
    _, height, width, channels = source.shape
    sizes = (height + pads[0] + pads[2], width + pads[1] + pads[3])
    _is_image(node, output, block)
    if node.output().shape != (1, *sizes, channels):
        raise node.error(f"{list(source.shape)} becomes {list(output.shape)} in {list(block)}")
    name, zero_point = node.network.value(source), node.quantisation(output).zero_point
    if any(pads) and _NOTE not in node.network.notes:
        node.network.notes.append(_NOTE)
    node.network.bind(output, Bound(name, pads=pads, pad_value=zero_point))


def _join(node: Node) -> None:
    source, output = node.input(), node.output()
    block, (top, left, bottom, right) = _pairs(node)
    if node.network.phases.get(source.index) != block:
        raise node.error(
            f"it joins blocks of {list(block)} that no SPACE_TO_BATCH_ND before it has made", _HINT
        )
    name = node.network.value(source)
    channels, height, width = node.network.tensors[name].shape
    size = (channels, height - top - bottom, width - left - right)
    if output.shape != (1, size[1], size[2], channels) or min(size) < 1:
        raise node.error(f"crops of {list(source.shape)} give no {list(output.shape)}")
    node.emit(ops.Slice, output, name, begin=(0, top, left), size=size)


def _are_images(node: Node) -> bool:
    shapes = (node.input().shape, node.output().shape)
    return all(len(shape) == 4 for shape in shapes) and len(node.integers(1)) == 2


def _are_pairs(node: Node) -> bool:
    values = node.integers(2)
    return len(values) == 4 and min(values) >= 0 and min(node.integers(1)) >= 1


_COMMON = (
    byte_tensors(),
    SAME_TYPE,
    SAME_QUANTISATION,
    constant(1, "the block"),
    constant(2, "the tensor of pads or crops"),
    Constraint("tensors have four dimensions, blocks rows and columns", _are_images, _HINT),
    Constraint("there are two pads or crops for rows and for columns", _are_pairs),
)
_JOIN = Operator("BATCH_TO_SPACE_ND", "Slice after a dilated Conv", _join, _COMMON)

OPERATORS = (
    Operator("SPACE_TO_BATCH_ND", "dilations of a Conv", _split, _COMMON),
    _JOIN,
)
