"""Operators that onnxruntime computes in reals, and moves of more than three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_qdq.grids import refined
from dory_qdq.importer import import_file
from dory_qdq.testing import MORE_OPERATORS, Builder, infer, random_network, write_golden
from dory_qdq.testing.builder import Tensor
from dory_qdq.testing.windows import transposed_window
from dory_qdq.values import Grid

from dory_core.api import Graph, NotSupported
from dory_core.testing import CompileOptions, compile_network, make_vectors
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

IMAGE = (1, 6, 4, 4)
IN_APPLICATIONS = [
    *("conv_transpose", "depth_to_space", "add_constant", "max", "where", "cumsum"),
    *("grouped_transpose", "reduce_min", "extreme_of_several", "div", "average_pool_up"),
    *("requantised", "reduction"),
]
Layer = Callable[[Builder, Tensor], str]


def built(layer: Layer, shape: tuple[int, ...], folder: Path, zero: int | None = None) -> Path:
    b = Builder(np.random.default_rng(3))
    x = b.input(IMAGE)
    if zero is not None:
        x = b.quantised(x.name, IMAGE, 0.02, zero)
    y = b.quantised(layer(b, x), shape, 0.03)
    path = folder / "net.onnx"
    path.write_bytes(b.model([(y.stored, shape)]))
    return path


def graph_of(layer: Layer, shape: tuple[int, ...], folder: Path) -> Graph:
    return import_file(built(layer, shape, folder)).graph


def integers(b: Builder, values: object) -> str:
    return b.constant(np.array(values, np.int64))


@pytest.mark.sample(7)
@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
@pytest.mark.parametrize("operator", IN_APPLICATIONS)
def test_operator_is_exact_in_applications(operator: str, target: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    model = random_network(11, 1, operator)
    (tmp_path / "net.onnx").write_bytes(model)
    golden = write_golden(infer(model, tmp_path, 1).golden, tmp_path / "golden.npz")
    options = CompileOptions(tmp_path / "net.onnx", target, "qdq", tmp_path / "a", (golden,))
    compile_network(options, load_plugins())
    assert_exact(tmp_path / "a", plugins=load_plugins())


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_computed_as_its_attribute_says(approximate: str, tmp_path: Path) -> None:
    """Without it, the two differ by more than a step where the scale of the result is small."""
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    b = Builder(np.random.default_rng(0))
    x = b.quantised(b.input((1, 300)).name, (1, 300), 0.03, 200)
    y = b.quantised(b.node("Gelu", [x.name], approximate=approximate), (1, 300), 0.0004, 255)
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model([(y.stored, y.shape)], opset=20))
    inference = infer(path.read_bytes(), tmp_path, 0, inferences=4)
    graph = import_file(path).graph
    _, report = make_vectors(graph, [write_golden(inference.golden, tmp_path / "golden.npz")])
    assert report is not None and report.layers


def test_random_windows_leave_rows_and_columns() -> None:
    b = Builder(np.random.default_rng(0))
    for _ in range(300):
        kernel, sizes = (b.rng.integers(1, most, 2).tolist() for most in (4, 3))
        assert min(transposed_window(b, kernel, sizes)[1]) > 0


def test_quotients_are_exact(tmp_path: Path) -> None:
    """Also by 0, of which onnxruntime makes the lowest or the largest value."""
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    for seed in range(40):
        model = random_network(seed, 1, "div")
        (tmp_path / "net.onnx").write_bytes(model)
        golden = write_golden(infer(model, tmp_path, seed).golden, tmp_path / "golden.npz")
        _, report = make_vectors(import_file(tmp_path / "net.onnx").graph, [golden])
        assert report is not None and report.layers and report.apart == (), seed


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [0, 1, 1, 0]])
@pytest.mark.parametrize("is_real", [False, True])
def test_windows_that_ceil_mode_adds_count_as_onnxruntime_does(
    is_real: bool, pads: list[int], tmp_path: Path
) -> None:
    """By all of their elements in integers, by those in image and pads in reals."""
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")

    def pool(b: Builder, x: Tensor) -> str:
        form = {"kernel_shape": [3, 3], "strides": [3, 2], "ceil_mode": 1, "count_include_pad": 1}
        out = b.node("AveragePool", [x.name], pads=pads, **form)
        return b.node("Clip", [out, "", b.constant(np.float32(0.9))]) if is_real else out

    path = built(pool, (1, 6, 2, 2), tmp_path, zero=100)
    golden = write_golden(infer(path.read_bytes(), tmp_path, 1).golden, tmp_path / "golden.npz")
    graph = import_file(path).graph
    _, report = make_vectors(graph, [golden])
    assert report is not None and report.layers
    assert any(graph.form(op.output).apart for op in graph.ops) == is_real
    assert any("ceil_mode" in note for note in graph.notes) == (not is_real)


def test_a_channel_shuffle_is_one_transposition(tmp_path: Path) -> None:
    def shuffle(b: Builder, x: Tensor) -> str:
        parts = b.node("Reshape", [x.name, integers(b, [1, 2, 3, 4, 4])])
        turned = b.node("Transpose", [parts], perm=[0, 2, 1, 3, 4])
        return b.node("Relu", [b.node("Reshape", [turned, integers(b, IMAGE)])])

    kinds = [op.kind for op in graph_of(shuffle, IMAGE, tmp_path).ops]
    assert kinds.count("Transpose") == 1 and not {"Slice", "Concat"} & {*kinds}


@pytest.mark.parametrize("op", ["Add", "Mul", "Max", "Div"])
def test_pairs_read_dimensions_that_are_parts_of_axes(op: str, tmp_path: Path) -> None:
    """The first operand is the result of a DepthToSpace, of which nothing has moved yet."""
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    b = Builder(np.random.default_rng(3))
    x, shape = b.input((1, 8, 2, 3)), (1, 2, 4, 6)
    blocks = b.quantised(b.node("DepthToSpace", [x.name], blocksize=2), shape, x.scale, x.zero)
    other = b.quantised(b.node("Neg", [blocks.name]), shape, 0.01, 100)
    y = b.quantised(b.node(op, [blocks.name, other.name]), shape, 0.02, 90)
    model = b.model([(y.stored, shape)])
    (tmp_path / "net.onnx").write_bytes(model)
    golden = write_golden(infer(model, tmp_path, 1).golden, tmp_path / "golden.npz")
    graph = import_file(tmp_path / "net.onnx").graph
    _, report = make_vectors(graph, [golden])
    assert report is not None and report.layers
    assert sum(layer.kind == "Concat" for layer in graph.ops) == 1, "it moves elements once"


def test_rows_of_pixels_move_nothing(tmp_path: Path) -> None:
    """Pixels as rows of a matrix lie in memory as an image does."""

    def rows(b: Builder, x: Tensor) -> str:
        flat = b.node("Reshape", [x.name, integers(b, [1, 6, 16])])
        turned = b.node("Transpose", [flat], perm=[0, 2, 1])
        weights = b.weights(np.ones((6, 5), np.int8), np.float32(0.01), 0)
        return b.node("MatMul", [turned, weights])

    kinds = [op.kind for op in graph_of(rows, (1, 16, 5), tmp_path).ops]
    assert "Transpose" not in kinds


def test_grids_are_refined_where_dimensions_are_multiples() -> None:
    grid = Grid((4, 6, 10), (2, 0, 1))  # in the file 10, 4, 6
    found = refined(grid, (5, 8, 6))
    assert found is not None
    assert found[0] == Grid((4, 6, 5, 2), (2, 3, 0, 1)) and found[1] == [[2], [3, 0], [1]]
    assert refined(grid, (4, 10, 6)) is None
    assert refined(grid, (10, 4, 5)) is None


@pytest.mark.parametrize("name", [*MORE_OPERATORS])
def test_every_operator_compiles_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(random_network(2, 1, name))
    assert import_file(path).graph.ops


def _groups(b: Builder, x: Tensor) -> str:
    weights = b.weights(np.ones((6, 1, 2, 2), np.int8), np.float32(0.01), 0)
    return b.node("ConvTranspose", [x.name, weights], group=4)


def _output_shape(b: Builder, x: Tensor) -> str:
    weights = b.weights(np.ones((6, 2, 2, 2), np.int8), np.float32(0.01), 0)
    return b.node("ConvTranspose", [x.name, weights], output_shape=[8, 8])


def _blocks(b: Builder, x: Tensor) -> str:
    return b.node("DepthToSpace", [x.name], blocksize=2)


def _logarithm(b: Builder, x: Tensor) -> str:
    negative = b.quantised(b.node("Neg", [x.name]), IMAGE, 0.02, 200)
    return b.node("Log", [negative.name])


def _three(b: Builder, x: Tensor) -> str:
    return b.node("Add", [x.name, x.name, x.name])


def _truths_of_reals(b: Builder, x: Tensor) -> str:
    return b.node("Where", [x.name, x.name, x.name])


def _plain_branches(b: Builder, x: Tensor) -> str:
    one = b.constant(np.float32(1))
    return b.node("Where", [b.truths(IMAGE), one, one])


def _branch_of_integers(b: Builder, x: Tensor) -> str:
    return b.node("Where", [b.truths(IMAGE), x.name, integers(b, [1])])


def _smaller_operands(b: Builder, x: Tensor) -> str:
    small = b.weights(np.ones((6, 1, 1), np.int8), np.float32(0.01), 0)
    return b.node("Where", [b.truths((1, 1, 4, 4)), x.name, small])


def _no_tensor_of_the_result(b: Builder, x: Tensor) -> str:
    row = b.quantised(b.node("ReduceMax", [x.name], axes=[2]), (1, 6, 1, 4), x.scale, x.zero)
    return b.node("Where", [b.truths((1, 1, 4, 1)), row.name, b.constant(np.float32(1))])


def _two_forms(b: Builder, x: Tensor) -> str:
    truths = b.truths((6, 4, 4))
    moved = [b.node("Unsqueeze", [truths, integers(b, [0])]) for _ in range(2)]
    first = b.quantised(b.node("Where", [moved[0], x.name, b.constant(np.float32(1))]), IMAGE, 0.1)
    return b.node("Where", [moved[1], first.name, x.name])


def _cast_too_far(b: Builder, x: Tensor) -> str:
    far = b.constant(np.float32(100))
    wide = b.quantised(b.node("Mul", [x.name, far]), IMAGE, 2.0, 120)
    return b.node("Cast", [b.node("Cast", [wide.name], to=3)], to=1)


def _cast_to_nothing(b: Builder, x: Tensor) -> str:
    return b.node("Cast", [x.name], to=16)


def _axis_beyond(b: Builder, x: Tensor) -> str:
    return b.node("CumSum", [x.name, integers(b, 4)])


def _long_sum(b: Builder, x: Tensor) -> str:
    tall = b.node("Tile", [x.name, integers(b, [1, 1, 300, 1])])
    return b.node("CumSum", [tall, integers(b, 2)])


def _largest_of_none(b: Builder, x: Tensor) -> str:
    return b.node("Max", [b.constant(np.float32(v)) for v in (1, 2, 3)])


def _powers(b: Builder, x: Tensor) -> str:
    return b.node("Pow", [x.name, x.name])


def _slopes(b: Builder, x: Tensor) -> str:
    slopes = b.weights(np.ones((6, 4, 4), np.int8), np.float32(0.01), 0)
    return b.node("PRelu", [x.name, slopes])


def _reals(b: Builder, x: Tensor) -> str:
    return b.node("Add", [x.name, b.constant(np.ones(IMAGE, np.float32))])


def _indices(b: Builder, x: Tensor) -> str:
    return b.node("Gather", [x.name, integers(b, [0, 6])], axis=1)


def _expanded(b: Builder, x: Tensor) -> str:
    return b.node("Expand", [x.name, integers(b, [1, 6, 8, 4])])


def _reflected(b: Builder, x: Tensor) -> str:
    return b.node("Pad", [x.name, integers(b, [0, 0, 4, 0, 0, 0, 0, 0])], mode="reflect")


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (_groups, "in 4 groups on 6 channels"),
        (_truths_of_reals, "is no truth values"),
        (_plain_branches, "is not quantised"),
        (_branch_of_integers, "holds no numbers"),
        (_smaller_operands, "are both broadcast"),
        (_no_tensor_of_the_result, "which none of its tensors has"),
        (_two_forms, "is read in two forms"),
        (_cast_too_far, "which its type does not hold"),
        (_cast_to_nothing, "it casts to type 16"),
        (_axis_beyond, "axis [4] of [1, 6, 4, 4]"),
        (_long_sum, "supported are sums of at most 1024 elements"),
        (_largest_of_none, "is not quantised"),
        (_output_shape, "output_shape and auto_pad are not supported"),
        (_blocks, "shape [1, 6, 4, 4] is not of whole blocks of 2"),
        (_logarithm, "which its input can be, is no number"),
        (_three, "it has 3 inputs; supported are two"),
        (_powers, "supported only if one operand is constant"),
        (_slopes, "supported are one value and one per channel"),
        (_reals, "supported are 8 bits with one scale"),
        (_indices, "indices [0, 6] of [1, 6, 4, 4] along dimension 1"),
        (_expanded, "[1, 6, 4, 4] does not become [1, 6, 8, 4]"),
        (_reflected, "reflect too much"),
    ],
)
def test_what_cannot_be_is_refused(layer: Layer, words: str, tmp_path: Path) -> None:
    with pytest.raises(NotSupported) as caught:
        import_file(built(layer, IMAGE, tmp_path, zero=128))
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("LRN", "train the network with batch normalisation"),
        ("Einsum", "Transpose, Reshape and MatMul"),
        ("BatchNormalization", "which folds it into a convolution"),
        ("NonMaxSuppression", "let the network end before it"),
    ],
)
def test_operators_that_are_not_read_have_the_way_out(op: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(NotSupported) as caught:
        graph_of(lambda b, x: b.node(op, [x.name]), IMAGE, tmp_path)
    assert words in caught.value.hint


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin", "TopK", "LogSoftmax"])
def test_what_only_the_host_computes_is_refused_in_the_middle(op: str, tmp_path: Path) -> None:
    with pytest.raises(NotSupported) as caught:
        graph_of(lambda b, x: b.node(op, [x.name]), IMAGE, tmp_path)
    assert "it stands behind the last integers" in caught.value.message
