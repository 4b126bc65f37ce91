"""Operators of integer ONNX at the beginning, in the middle and at the end of a network.

Every dialect computes what onnx's evaluator says, in the reference and in generated code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_deeploy.testing import DeeployBuilder, RequantShift
from dory_nemo.testing import NemoBuilder
from dory_onnx.testing import OnnxBuilder, evaluate
from dory_quantlab.testing import QuantlabBuilder

from dory_core.api import Graph, NotSupported
from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.importing import FrontendOptions
from dory_core.ir.reference import run
from dory_core.tools import load_plugins

SIZE = (4, 5, 6)
DIALECTS = {"nemo": NemoBuilder, "quantlab": QuantlabBuilder, "deeploy": DeeployBuilder}
Make = Callable[[OnnxBuilder], None]


def rounded(b: OnnxBuilder, divisor: int = 1) -> None:
    """End a layer as its dialect does."""
    if isinstance(b, DeeployBuilder):
        b.requant_shift(1, 0, divisor, 256, signed=True)
    else:
        if divisor > 1:
            b.node("Div", b.value, b.constant(divisor))
        b.node("Floor", b.value)
        b.clip(-128, 127)
    b.end_layer()


def shaped(b: OnnxBuilder, op: str, shape: tuple[int, ...], **attributes: object) -> None:
    b.node(op, b.value, **attributes)
    b.shapes[b.value] = shape


def two(b: OnnxBuilder) -> tuple[str, str]:
    first = b.value
    return first, b.conv(b.shape[0], 3, pads=1).value


def mean_with_ceil_mode(b: OnnxBuilder) -> None:
    form = {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}
    shaped(b, "AveragePool", (b.shape[0], 3, 3), **form)
    rounded(b)


def mean_without_padding(b: OnnxBuilder) -> None:
    shaped(b, "AveragePool", b.shape, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    rounded(b)


def mean_of_padding_with_ceil_mode(b: OnnxBuilder) -> None:
    form = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    shaped(b, "AveragePool", (b.shape[0], 3, 4), pads=[1, 1, 0, 1], **form)
    rounded(b)


def mean_of_uneven_padding(b: OnnxBuilder) -> None:
    form = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    shaped(b, "AveragePool", (b.shape[0], 3, 4), pads=[1, 2, 0, 1], **form)
    rounded(b)


def mean_behind_a_pad(b: OnnxBuilder) -> None:
    b.pad(1, 0, 0, 1)
    shaped(b, "AveragePool", (b.shape[0], 6, 7), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    rounded(b)


def reduced_mean(b: OnnxBuilder) -> None:
    shaped(b, "ReduceMean", (b.shape[0], 1, 1), axes=[2, 3])
    rounded(b)


def reduced_mean_of_rows(b: OnnxBuilder) -> None:
    shaped(b, "ReduceMean", (b.shape[0], b.shape[2]), axes=[-2], keepdims=0)
    b.shapes[b.value] = (b.shape[0], 1, b.shape[1])
    shape = b.constant([1, *b.shape], np.int64)
    b.node("Reshape", b.value, shape)
    rounded(b)


def reduced_sum(b: OnnxBuilder) -> None:
    shaped(b, "ReduceSum", (b.shape[0], 1, 1), axes=[2, 3])
    rounded(b, 32)


def reduced_maximum(b: OnnxBuilder) -> None:
    shaped(b, "ReduceMax", (b.shape[0], 1, 1), axes=[2, 3])
    rounded(b)


def difference(b: OnnxBuilder) -> None:
    b.node("Sub", *two(b))
    rounded(b)


def scaled_difference(b: OnnxBuilder) -> None:
    first, second = two(b)
    b.node("Sub", b.node("Mul", first, b.constant(3)), b.node("Mul", second, b.constant(5)))
    rounded(b, 8)


def minus_a_constant(b: OnnxBuilder) -> None:
    values = np.arange(b.shape[0]).reshape(-1, 1, 1)
    b.node("Sub", b.value, b.constant(values * 7))
    rounded(b)


def constant_minus(b: OnnxBuilder) -> None:
    b.node("Sub", b.constant(100), b.value)
    rounded(b)


def product(b: OnnxBuilder) -> None:
    b.node("Mul", *two(b))
    rounded(b, 256)


def gate(b: OnnxBuilder) -> None:
    """A product with one factor per channel, as squeeze and excitation has it."""
    source = b.value
    reduced_mean(b)
    shape = b.shapes[source]
    b.node("Mul", b.value, source)
    b.shapes[b.value] = shape
    rounded(b, 128)


def larger(b: OnnxBuilder) -> None:
    b.node("Max", *two(b))
    rounded(b)


def smaller(b: OnnxBuilder) -> None:
    b.node("Min", *two(b))
    rounded(b)


def joined(axis: int) -> Make:
    def make(b: OnnxBuilder) -> None:
        shape = list(b.shape)
        b.node("Concat", *two(b), axis=axis)
        shape[axis - 1] *= 2
        b.shapes[b.value] = tuple(shape)

    return make


def joined_with_a_pad(b: OnnxBuilder) -> None:
    shape = b.shape
    first, second = two(b)
    b.at(first).pad(1, 1, 1, 1)
    padded = b.value
    b.at(second).pad(1, 1, 1, 1)
    b.node("Concat", padded, b.value, axis=1)
    b.shapes[b.value] = (2 * shape[0], shape[1] + 2, shape[2] + 2)


def turned(*perm: int) -> Make:
    def make(b: OnnxBuilder) -> None:
        shaped(b, "Transpose", tuple(b.shape[axis - 1] for axis in perm), perm=[0, *perm])

    return make


def taken(b: OnnxBuilder) -> None:
    form = {"starts": [1, -5, 1], "ends": [3, 100, -1], "axes": [1, 2, 3]}
    shaped(b, "Slice", (2, 5, 4), **form)


def split(b: OnnxBuilder) -> None:
    channels, *size = b.shape
    b.node("Split", b.value, outputs=2, axis=1, split=[1, channels - 1])
    first, second = b.nodes[-1].output
    b.node("Concat", second, first, axis=1)
    b.shapes[b.value] = (channels, *size)


def padded(b: OnnxBuilder) -> None:
    b.pad(1, 0, 2, 1)
    shaped(b, "Transpose", (b.shape[0], b.shape[2], b.shape[1]), perm=[0, 1, 3, 2])


def rectified_beside_another_reader(b: OnnxBuilder) -> None:
    source = b.value
    shape = b.shape
    b.node("Relu", source)
    b.node("Concat", source, b.value, axis=1)
    b.shapes[b.value] = (2 * shape[0], *shape[1:])


def rescaled_beside_another_reader(b: OnnxBuilder) -> None:
    source = b.value
    shape = b.shape
    b.node("Mul", source, b.constant(3))
    first = b.conv(shape[0], 1).value
    b.node("Concat", source, first, axis=1)
    b.shapes[b.value] = (2 * shape[0], *shape[1:])


def reshaped(b: OnnxBuilder) -> None:
    channels, height, width = b.shape
    shape = (channels * height, 1, width)
    b.node("Reshape", b.value, b.constant([1, *shape], np.int64))
    b.shapes[b.value] = shape


CASES: dict[str, Make] = {
    make.__name__: make
    for make in (
        mean_with_ceil_mode,
        mean_without_padding,
        mean_of_padding_with_ceil_mode,
        mean_of_uneven_padding,
        mean_behind_a_pad,
        reduced_mean,
        reduced_mean_of_rows,
        reduced_sum,
        reduced_maximum,
        difference,
        scaled_difference,
        minus_a_constant,
        constant_minus,
        product,
        gate,
        larger,
        smaller,
        joined_with_a_pad,
        taken,
        split,
        padded,
        rectified_beside_another_reader,
        rescaled_beside_another_reader,
        reshaped,
    )
} | {
    "joined rows": joined(2),
    "joined columns": joined(3),
    "turned to columns and rows": turned(1, 3, 2),
    "turned to rows, columns, channels": turned(2, 3, 1),
    "turned to columns, channels, rows": turned(3, 1, 2),
}


def network(make: Make, dialect: str, place: str, signed: bool = True) -> OnnxBuilder:
    """Return a network of one operator. place: of it, begin, middle or end."""
    lo, hi = (-128, 127) if signed else (0, 255)
    b = DIALECTS[dialect](SIZE, seed=4, input_lo=lo, input_hi=hi)
    if place != "begin":
        b.conv(4, 3, pads=1)
    make(b)
    if place != "end":
        b.conv(3, 1) if len(b.shape) > 1 else b.linear(3)
    return b


def imported(b: OnnxBuilder, dialect: str, path: Path) -> Graph:
    signed = b.bounds[b.input][0] < 0
    return (
        load_plugins().frontend(dialect).parse(b.save(path), FrontendOptions(input_signed=signed))
    )


def check_reference(b: OnnxBuilder, graph: Graph) -> None:
    """Compare every tensor that has a name in the file with onnx's evaluator."""
    lo, hi = b.bounds[b.input]
    image = np.random.default_rng(7).integers(lo, hi, SIZE, endpoint=True)
    names = {op.tensor: op.output for op in graph.ops if op.tensor}
    model = b.model()
    for node in model.graph.node:  # the evaluator knows no attributes of exporters
        for attribute in [a for a in node.attribute if a.name.endswith("_bits")]:
            node.attribute.remove(attribute)
    wanted = evaluate(model, image, list(names), (RequantShift,))
    found = run(graph, {"input": image})
    assert graph.ops[-1].tensor
    for name, tensor in names.items():
        assert found[tensor].reshape(-1).tolist() == wanted[name].reshape(-1).tolist(), name


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", CASES)
def test_every_place_is_what_onnx_says(case: str, dialect: str, tmp_path: Path) -> None:
    for place in ("begin", "middle", "end"):
        builder = network(CASES[case], dialect, place)
        check_reference(builder, imported(builder, dialect, tmp_path / f"{place}.onnx"))


def many(b: OnnxBuilder) -> None:
    """Most operators in one network, so that it is compiled once."""
    for name in ("rectified_beside_another_reader", "mean_with_ceil_mode"):
        CASES[name](b)
    b.conv(4, 1)
    for name in ("scaled_difference", "split", "padded", "joined rows", "reshaped"):
        CASES[name](b)
    b.conv(5, 1)
    for name in ("constant_minus", "gate"):
        CASES[name](b)


def check_application(b: OnnxBuilder, dialect: str, target: str, folder: Path) -> None:
    graph = imported(b, dialect, folder / "net.onnx")
    check_reference(b, graph)
    signed = b.bounds[b.input][0] < 0
    options = CompileOptions(
        folder / "net.onnx", target, dialect, folder / "app", input_signed=signed
    )
    plugins = load_plugins()
    compile_network(options, plugins)
    assert run_application(folder / "app", plugins=plugins, runner="host").exact


@pytest.mark.parametrize(("dialect", "target"), [("deeploy", "gap8"), ("nemo", "stm32h7")])
def test_generated_code_of_most_of_them_is_exact(dialect: str, target: str, tmp_path: Path) -> None:
    check_application(network(many, dialect, "middle"), dialect, target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
@pytest.mark.parametrize("case", CASES)
def test_generated_code_of_each_is_exact(case: str, target: str, tmp_path: Path) -> None:
    for number, dialect in enumerate(DIALECTS):
        place = ("begin", "middle", "end")[(number + len(case)) % 3]
        builder = network(CASES[case], dialect, place)
        check_application(builder, dialect, target, tmp_path)


def test_what_the_host_computed_behind_the_last_layer_is_still_its_matter(tmp_path: Path) -> None:
    """A mean or difference of reals needs no rounding there."""

    def mean(b: OnnxBuilder) -> None:
        shaped(b, "ReduceMean", (b.shape[0], 1, 1), axes=[2, 3])

    def minus_half(b: OnnxBuilder) -> None:
        b.node("Sub", b.value, b.constant(0.5))

    for make, op in ((mean, "ReduceMean"), (minus_half, "Sub")):
        graph = imported(network(make, "nemo", "end"), "nemo", tmp_path / "net.onnx")
        assert [one.kind for one in graph.ops] == ["Conv"]
        assert any(f"left out: {op}" in note for note in graph.notes)


def test_relu_of_an_unsigned_input_is_nothing(tmp_path: Path) -> None:
    def make(b: OnnxBuilder) -> None:
        b.node("Relu", b.value)

    graph = imported(network(make, "nemo", "begin", signed=False), "nemo", tmp_path / "net.onnx")
    assert [one.kind for one in graph.ops] == ["Conv"]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "reason", "way"),
    [
        ("ReduceMean", 1, {"axes": [1, 2]}, "only rows and columns", "Conv of 1x1"),
        ("ReduceMean", 1, {"axes": [3], "keepdims": 0}, "drops the columns", "keepdims=1"),
        ("Transpose", 1, {"perm": [1, 0, 2, 3]}, "moves the batch", "first axis"),
        ("Slice", 1, {"starts": [3], "ends": [3], "axes": [2]}, "not one image", "export"),
        ("Concat", 2, {"axis": 0}, "joins along axis 0, the batch", "channels"),
        ("SpaceToDepth", 1, {"blocksize": 1}, "in the middle of the network", "Transpose"),
        ("Sub", 0.5, {}, "holds 0.5, which is not an integer", "integer network"),
    ],
)
def test_what_stays_refused_says_why_and_what_to_do(
    op: str,
    inputs: float,
    attributes: dict[str, object],
    reason: str,
    way: str,
    tmp_path: Path,
) -> None:
    def make(b: OnnxBuilder) -> None:
        second = [b.value] if inputs == 2 else [b.constant(0.5)] if inputs == 0.5 else []
        b.node(op, b.value, *second, **attributes)

    with pytest.raises(NotSupported, match=f"{op} '.*': .*({reason})") as caught:
        imported(network(make, "nemo", "middle"), "nemo", tmp_path / "net.onnx")
    assert way in str(caught.value.hint)
