"""Products of two tensors, heads, and whole transformers: every element equals its golden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dory_deeploy.dialect import parse
from dory_deeploy.testing import DeeployBuilder

from dory_core.api import ops
from dory_core.importing import FrontendOptions
from dory_core.testing import reference
from tests.deeploy_checks import as_given, check, in_file_order, refused
from tests.nets import transformer_names, transformer_net


def made(b: DeeployBuilder, shape: tuple[int, ...], op: str, *inputs: str, **more: Any) -> str:
    """Append a node whose result has a shape, the batch included."""
    b.node(op, *inputs, **more)
    b.shapes[b.value] = shape[1:]
    return b.value


def shape_of(b: DeeployBuilder, name: str) -> tuple[int, ...]:
    return (1, *b.shapes[name])


def rounded(b: DeeployBuilder, fan_in: int, signed: bool = True) -> str:
    """Requantise sums of products to a byte."""
    b.requant_shift(b.random.integers(50, 200), 77, 1 << 12 + fan_in.bit_length() // 2, 256, signed)
    return b.value


def dense(b: DeeployBuilder, source: str, features: int) -> str:
    """Append a MatMul with weights and a bias over the last axis."""
    *front, columns = shape_of(b, source)
    shape = (*front, features)
    made(b, shape, "MatMul", source, b.constant(b.weights((columns, features))))
    made(b, shape, "Add", b.constant(b.offsets(features, 999.0)), b.value)
    return rounded(b, columns)


def split(b: DeeployBuilder, source: str, heads: int, *perm: int) -> str:
    """Append the Reshape of the last axis to heads, and a Transpose."""
    _, rows, columns = shape_of(b, source)
    shape = (1, rows, heads, columns // heads)
    made(b, shape, "Reshape", source, b.constant(shape, np.int64))
    return made(b, tuple(shape[n] for n in perm), "Transpose", b.value, perm=perm)


def product(b: DeeployBuilder, first: str, second: str) -> str:
    """Append a product of two tensors."""
    shape = (*shape_of(b, first)[:-1], shape_of(b, second)[-1])
    made(b, shape, "MatMul", first, second)
    return rounded(b, shape_of(b, first)[-1])


def attention(b: DeeployBuilder, source: str, heads: int) -> str:
    """Append attention over the rows of a value (1, L, D)."""
    _, rows, columns = shape_of(b, source)
    queries = split(b, dense(b, source, columns), heads, 0, 2, 1, 3)
    keys = split(b, dense(b, source, columns), heads, 0, 2, 3, 1)
    values = split(b, dense(b, source, columns), heads, 0, 2, 1, 3)
    scores = product(b, queries, keys)
    shares = made(b, shape_of(b, scores), "ITAMax", scores, n_levels=256)
    mixed = product(b, shares, values)
    made(b, (1, rows, heads, columns // heads), "Transpose", mixed, perm=(0, 2, 1, 3))
    shape = (1, rows, columns)
    joined = made(b, shape, "Reshape", b.value, b.constant(shape, np.int64))
    return dense(b, joined, columns)


def builder(shape: tuple[int, ...], seed: int = 3) -> DeeployBuilder:
    return DeeployBuilder(shape, seed=seed, input_lo=-128, input_hi=127)


@pytest.mark.parametrize(("rows", "columns", "heads"), [(6, 12, 3), (9, 8, 1), (1, 6, 2)])
def test_attention(rows: int, columns: int, heads: int, tmp_path: Path) -> None:
    b = builder((rows, columns))
    attention(b, b.input, heads)
    graph = check(b, tmp_path)
    assert sum(isinstance(op, ops.MatMul) for op in graph.ops) == 2
    # Splitting and joining heads moves elements once each, reshapes move nothing.
    assert sum(isinstance(op, ops.Transpose) for op in graph.ops) <= 4


def test_an_image_becomes_rows_without_moving_twice(tmp_path: Path) -> None:
    b = builder((3, 6, 4)).conv(8, 3, pads=1, signed=True)
    made(b, (1, 6, 4, 8), "Transpose", b.value, perm=(0, 2, 3, 1))
    tokens = made(b, (1, 24, 8), "Reshape", b.value, b.constant((1, 24, 8), np.int64))
    dense(b, attention(b, tokens, 2), 5)
    kinds = [op.kind for op in check(b, tmp_path).ops]
    assert kinds.count("Transpose") == 4


@pytest.mark.parametrize("indices", [2, -1, [1, 2], [4, 2, 0]], ids=str)
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_gather_of_constant_indices(axis: int, indices: Any, tmp_path: Path) -> None:
    b = builder((5, 6, 7))
    source = dense(b, b.input, 7)
    index = b.constant(indices, np.int64)
    values = np.take(np.zeros(shape_of(b, source)), indices, axis)
    made(b, values.shape, "Gather", source, index, axis=axis)
    dense(b, b.value, 4)
    check(b, tmp_path)


@pytest.mark.parametrize("shape", [(1, 7), (1, 6, 7), (1, 1, 7), (1, 6, 1)], ids=str)
@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_rows_that_serve_all_others(op: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    b = builder((5, 6, 7))
    first = dense(b, b.input, 7)
    small = first
    for axis, size in zip((1, 2, 3), (1, 1, 1, *shape[1:])[-3:], strict=True):
        if size == 1:
            cut = (*shape_of(b, small)[:axis], 1, *shape_of(b, small)[axis + 1 :])
            small = made(b, cut, "Gather", small, b.constant([2], np.int64), axis=axis)
    small = made(b, shape, "Reshape", small, b.constant(shape, np.int64))
    made(b, shape_of(b, first), op, small, first)
    rounded(b, 6)
    dense(b, b.value, 3)
    check(b, tmp_path)


def test_joined_rows(tmp_path: Path) -> None:
    b = builder((4, 6))
    rows = dense(b, b.input, 6)
    joined = made(b, (1, 8, 6), "Concat", rows, dense(b, rows, 6), axis=-2)
    dense(b, made(b, (1, 8, 12), "Concat", joined, joined, axis=2), 5)
    check(b, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_attention(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    heads, depth, rows = (int(n) for n in random.integers(1, 7, 3))
    b = builder((rows, heads * depth), seed)
    value = b.input
    for _ in range(int(random.integers(1, 3))):
        value = attention(b, value, heads)
    check(b, tmp_path)


def test_matrices_that_cannot_be_multiplied(tmp_path: Path) -> None:
    b = builder((4, 6))
    rows = dense(b, b.input, 6)
    b.node("MatMul", rows, b.input)
    refused(b, tmp_path, r"shapes \[1, 4, 6\] and \[1, 4, 6\] cannot be")


def test_indices_at_other_distances(tmp_path: Path) -> None:
    b = builder((4, 6))
    rows = dense(b, b.input, 6)
    made(b, (1, 3, 6), "Gather", rows, b.constant([0, 1, 3], np.int64), axis=1)
    dense(b, b.value, 5)
    refused(b, tmp_path, r"it takes elements \[0, 1, 3\] of axis 1")


@pytest.mark.parametrize("name", transformer_names())
def test_every_tensor_of_deeploys_transformers_equals_its_golden(name: str) -> None:
    net = transformer_net(name)
    golden = np.load(net / "golden.npz")
    signed = any(bool((golden[k] < 0).any()) for k in golden if k.startswith("in0__"))
    graph = parse(net / "net.onnx", FrontendOptions(8, signed))
    inputs = {name: golden[f"in0__{graph.forms[name].source}"] for name in graph.inputs}
    given = {name: as_given(graph, name, v.astype(np.int64)) for name, v in inputs.items()}
    found = reference.run(graph, given)
    named = [op for op in graph.ops if f"run0__{op.tensor}" in golden]
    for op in named:
        got = in_file_order(graph, op.output, found[op.output])
        np.testing.assert_array_equal(got, golden[f"run0__{op.tensor}"].reshape(-1), op.tensor)
    assert len(named) >= 0.9 * len(graph.ops)
