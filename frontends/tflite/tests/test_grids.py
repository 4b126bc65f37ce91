"""Elements taken by constant places, and shapes of more than four dimensions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder, random_network

from dory_core.api import Graph, NotSupported, ops
from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

NET = Path("net.tflite")


def imported(b: TfliteBuilder, *outputs: int) -> Graph:
    return import_model(model_of(b.build(outputs), NET)).graph


def refusal(b: TfliteBuilder, *outputs: int) -> str:
    with pytest.raises(NotSupported) as caught:
        imported(b, *outputs)
    return caught.value.message


OPERATORS = (
    *("BROADCAST_TO", "MIRROR_PAD", "REVERSE_V2", "GATHER", "DEPTH_TO_SPACE", "five dimensions"),
    "CUMSUM",
)
FAST = {
    ("CUMSUM", "stm32h7"),
    ("DEPTH_TO_SPACE", "gap8"),
    ("five dimensions", "stm32h7"),
    ("MIRROR_PAD", "gap8"),
}


@pytest.mark.parametrize(
    ("operator", "target"),
    [
        pytest.param(name, target, marks=() if (name, target) in FAST else pytest.mark.slow)
        for name in OPERATORS
        for target in ("gap8", "stm32h7")
    ],
)
def test_operator_is_exact_in_applications(operator: str, target: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    data = random_network(3, only=operator)
    model = model_of(data, NET)
    (tmp_path / "net.tflite").write_bytes(data)
    golden = tmp_path / "golden.npz"
    inputs = random_inputs(model, np.random.default_rng(1))
    np.savez(golden, **golden_arrays(data, model, [inputs]))
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "a", (golden,))
    assert compile_network(options, load_plugins()).golden_exact
    assert_exact(tmp_path / "a", plugins=load_plugins())


def _shuffled(b: TfliteBuilder, groups: int) -> int:
    x = b.input((1, 4, 4, 6), 0.05, 3)
    split = (1, 4, 4, groups, 6 // groups)
    parts, turned = b.tensor(split, 0.05, 3), b.tensor((*split[:3], *split[:2:-1]), 0.05, 3)
    b.operator("RESHAPE", (x, b.constant(np.int32(split))), (parts,))
    b.operator("TRANSPOSE", (parts, b.constant(np.int32([0, 1, 2, 4, 3]))), (turned,))
    y = b.tensor((1, 4, 4, 6), 0.05, 3)
    b.operator("RESHAPE", (turned, b.constant(np.int32([1, 4, 4, 6]))), (y,))
    return y


def test_a_channel_shuffle_is_one_transposition() -> None:
    b = TfliteBuilder()
    kinds = [op.kind for op in imported(b, _shuffled(b, 2)).ops]
    assert [kind for kind in kinds if kind != "Reshape"] == ["Transpose"]


def test_two_shuffles_that_undo_each_other_move_twice_as_the_file_says() -> None:
    b = TfliteBuilder()
    y = _shuffled(b, 6)  # groups of one channel: nothing moves
    assert [op.kind for op in imported(b, y).ops if op.kind != "Reshape"] == []


def _tile(b: TfliteBuilder, x: int) -> int:
    y = b.tensor((1, 4, 4, 6), 0.05, 3)
    b.operator("TILE", (x, b.constant(np.int32([1, 1, 0, 1]))), (y,))
    return y


def _gather(b: TfliteBuilder, x: int) -> int:
    y = b.tensor((1, 4, 4, 2), 0.05, 3)
    b.operator("GATHER", (x, b.constant(np.int32([0, 6]))), (y,), Axis=3)
    return y


def _gather_computed(b: TfliteBuilder, x: int) -> int:
    y = b.tensor((1, 4, 4, 2), 0.05, 3)
    b.operator("GATHER", (x, x), (y,), Axis=3)
    return y


def _broadcast(b: TfliteBuilder, x: int) -> int:
    y = b.tensor((1, 8, 4, 6), 0.05, 3)
    b.operator("BROADCAST_TO", (x, b.constant(np.int32([1, 8, 4, 6]))), (y,))
    return y


def _mirror(b: TfliteBuilder, x: int) -> int:
    y = b.tensor((1, 8, 4, 6), 0.05, 3)
    pads = b.constant(np.int32([[0, 0], [4, 0], [0, 0], [0, 0]]))
    b.operator("MIRROR_PAD", (x, pads), (y,), Mode="REFLECT")
    return y


def _depth(b: TfliteBuilder, x: int) -> int:
    y = b.tensor((1, 8, 8, 1), 0.05, 3)
    b.operator("DEPTH_TO_SPACE", (x,), (y,), BlockSize=2)
    return y


def _pooled_grid(b: TfliteBuilder, x: int) -> int:
    shape = (1, 4, 4, 2, 3)
    grid, y = b.tensor(shape, 0.05, 3), b.tensor(shape, 0.05, 3)
    b.operator("RESHAPE", (x, b.constant(np.int32(shape))), (grid,))
    b.operator("MAX_POOL_2D", (grid,), (y,), FilterHeight=1, FilterWidth=1, StrideH=1, StrideW=1)
    return y


def _pair_with(b: TfliteBuilder, x: int, code: str, shape: tuple[int, ...]) -> int:
    whole = (1, 4, 2, 4, 3)
    grid, y = b.tensor(whole, 0.05, 3), b.tensor(whole, 0.05, 3)
    b.operator("RESHAPE", (x, b.constant(np.int32(whole))), (grid,))
    b.operator(code, (grid, b.constant(np.ones(shape, np.int8), [0.1])), (y,))
    return y


def _pair_of_grids(b: TfliteBuilder, x: int) -> int:
    return _pair_with(b, x, "MUL", (1, 4, 1, 1, 1))


def _pair_along_half_the_rows(b: TfliteBuilder, x: int) -> int:
    return _pair_with(b, x, "SUB", (1, 4, 1, 4, 3))


def _mean_of_grid(b: TfliteBuilder, x: int) -> int:
    shape = (1, 2, 2, 4, 2, 3)
    grid, y = b.tensor(shape, 0.05, 3), b.tensor((1, 1, 2, 1, 2, 1), 0.05, 3)
    b.operator("RESHAPE", (x, b.constant(np.int32(shape))), (grid,))
    b.operator("MEAN", (grid, b.constant(np.int32([1, 3, 5]))), (y,), KeepDims=True)
    return y


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (_tile, "multiples [1, 1, 0, 1] of [1, 4, 4, 6]"),
        (_gather, "indices [0, 6] of [1, 4, 4, 6] along dimension 3"),
        (_gather_computed, "supported only if the tensor of indices is a constant"),
        (_broadcast, "[1, 4, 4, 6] does not become [1, 8, 4, 6]"),
        (_mirror, "pads [0, 0, 4, 0, 0, 0, 0, 0] of [1, 4, 4, 6]"),
        (_depth, "[1, 4, 4, 6] becomes [1, 8, 8, 1]"),
        (_pooled_grid, "supported only if tensors have four dimensions at most"),
        (_pair_of_grids, "supported only if operands of more than four dimensions have"),
        (_pair_along_half_the_rows, "and in all others together"),
        (_mean_of_grid, "dimensions [1, 3, 5] of [1, 2, 2, 4, 2, 3]: too many"),
    ],
)
def test_what_cannot_be_is_refused(
    network: Callable[[TfliteBuilder, int], int], words: str
) -> None:
    b = TfliteBuilder()
    assert words in refusal(b, network(b, b.input((1, 4, 4, 6), 0.05, 3)))


def _phases(b: TfliteBuilder, code: str, **options: object) -> int:
    x = b.input((1, 4, 4, 6), 0.05, 3)
    phases = b.tensor((4, 3, 3, 6), 0.05, 3)
    block, pads = b.constant(np.int32([2, 2])), b.constant(np.int32([[1, 1], [1, 1]]))
    b.operator("SPACE_TO_BATCH_ND", (x, block, pads), (phases,))
    y = b.tensor((4, 2, 2, 5) if code == "CONV_2D" else (4, 3, 3, 6), 0.1, 0)
    weights = b.constant(np.ones((5, 2, 2, 6), np.int8), [0.01])
    b.operator(code, (phases, weights) if code == "CONV_2D" else (phases,), (y,), **options)
    return y


def test_a_convolution_of_phases_is_dilated() -> None:
    b = TfliteBuilder()
    y = _phases(b, "CONV_2D", Padding="VALID", StrideH=1, StrideW=1)
    z = b.tensor((1, 4, 4, 5), 0.1, 0)
    crops = b.constant(np.int32([[0, 0], [0, 0]]))
    b.operator("BATCH_TO_SPACE_ND", (y, b.constant(np.int32([2, 2])), crops), (z,))
    graph = imported(b, z)
    first = graph.ops[0]
    assert isinstance(first, ops.Conv)
    assert first.window.dilations == (2, 2) and first.window.pads == (1, 1, 1, 1)
    assert any("memory that it has not initialised" in note for note in graph.notes)


def test_phases_have_to_be_joined_again() -> None:
    b = TfliteBuilder()
    y = _phases(b, "CONV_2D", Padding="VALID", StrideH=1, StrideW=1)
    assert "an output is the result of a SPACE_TO_BATCH_ND" in refusal(b, y)
    b = TfliteBuilder()
    y = _phases(b, "CONV_2D", Padding="VALID", StrideH=2, StrideW=2)
    assert "it has the padding VALID and strides 2 and 2" in refusal(b, y)
    b = TfliteBuilder()
    y = _phases(b, "LOGISTIC")
    assert "it reads the result of a SPACE_TO_BATCH_ND; supported are convolutions" in refusal(b, y)
    b = TfliteBuilder()
    x, z = b.input((4, 2, 2, 5), 0.1, 0), b.tensor((1, 4, 4, 5), 0.1, 0)
    crops = b.constant(np.int32([[0, 0], [0, 0]]))
    b.operator("BATCH_TO_SPACE_ND", (x, b.constant(np.int32([2, 2])), crops), (z,))
    assert "has a batch" in refusal(b, z)


@pytest.mark.parametrize("axis", [1, 2, 3, 4])
@pytest.mark.parametrize("code", ["CONCATENATION", "PACK"])
def test_five_dimensions_of_which_few_are_wide_are_joined(code: str, axis: int) -> None:
    """A dimension of size 1 becomes 2: others are rows and columns then."""
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    from frontends.tflite.tests.test_against_tflite_micro import differing

    b = TfliteBuilder()
    whole = [1, 6, 1, 1, 10] if code == "CONCATENATION" else [1, 6, 1, 10]
    x, source = b.input((1, 1, 6, 10), 0.05, 3), b.tensor(whole, 0.05, 3)
    b.operator("RESHAPE", (x, b.constant(np.int32(whole))), (source,), NewShape=tuple(whole))
    if code == "PACK":
        whole.insert(axis, 2)
    else:
        whole[axis] *= 2
    y, z = (b.tensor(whole, 0.05, 3) for _ in range(2))
    more = {"ValuesCount": 2} if code == "PACK" else {}
    b.operator(code, (source, source), (y,), Axis=axis, **more)
    b.operator("RELU6", (y,), (z,))
    assert differing(b.build((z,))) == []
