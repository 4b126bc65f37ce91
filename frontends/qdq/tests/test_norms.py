"""LayerNormalization: every element is onnxruntime's, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_qdq.importer import parse
from dory_qdq.testing import Builder, infer, random_network, write_golden
from numpy._core._multiarray_umath import __cpu_features__

from dory_core.api import NotSupported, ops
from dory_core.importing import FrontendOptions
from dory_core.testing import make_vectors

pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")


def check(seeds: range, folder: Path) -> None:
    for seed in seeds:
        path = folder / f"net_{seed}.onnx"
        path.write_bytes(random_network(seed, 1, "layer_norm"))
        graph = parse(path, FrontendOptions())
        inference = infer(path.read_bytes(), folder, seed, inferences=2)
        golden = write_golden(inference.golden, folder / "golden.npz")
        _, report = make_vectors(graph, [golden])
        assert report is not None and report.layers
        assert inference.unexpected(graph) == frozenset(), "it computes the layer in reals"
        if __cpu_features__["AVX2"]:  # elsewhere it may be one step away
            assert report.apart == (), seed


def test_random_norms_are_exact(tmp_path: Path) -> None:
    check(range(12), tmp_path)


@pytest.mark.slow
def test_many_random_norms_are_exact(tmp_path: Path) -> None:
    check(range(100, 300), tmp_path)


Edit = Callable[[Builder, str, tuple[int, ...]], str]


def network(edit: Edit, shape: tuple[int, ...], folder: Path) -> Path:
    """Write a network of a norm that ``edit`` adds, with the shape of its input."""
    b = Builder(np.random.default_rng(1))
    x = b.input(shape)
    last = b.quantised(edit(b, x.name, shape), shape, 0.03, 128)
    path = folder / "net.onnx"
    path.write_bytes(b.model([(last.stored, shape)]))
    return path


def ones(b: Builder, length: int) -> str:
    return b.constant(np.ones(length, np.float32))


def several_dimensions(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    scale = b.constant(np.ones(shape[2:], np.float32))
    return b.node("LayerNormalization", [x, scale], axis=2)


def short_rows(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LayerNormalization", [x, ones(b, shape[-1])])


def computed_scale(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LayerNormalization", [x, b.input(shape[-1:]).name])


def scale_of_another_size(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LayerNormalization", [x, ones(b, 3)])


def scale_that_is_no_number(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LayerNormalization", [x, b.constant(np.full(shape[-1], np.nan, np.float32))])


def no_epsilon(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LayerNormalization", [x, ones(b, shape[-1])], epsilon=0.0)


@pytest.mark.parametrize(
    ("edit", "shape", "reason"),
    [
        (several_dimensions, (1, 3, 4, 8), "normalises dimensions of .* with the last one"),
        (short_rows, (1, 5, 7), "its rows have 7 elements; supported are 8 and more"),
        (computed_scale, (1, 5, 8), "supported only if scale and bias are constant"),
        (scale_of_another_size, (1, 5, 8), r"of shape \[3\] is not one real for each of 8"),
        (scale_that_is_no_number, (1, 5, 8), "is not one real for each of 8"),
        (no_epsilon, (1, 5, 8), "epsilon 0; possible are numbers in"),
    ],
)
def test_what_is_not_exact_is_refused(
    edit: Edit, shape: tuple[int, ...], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(NotSupported, match=reason):
        parse(network(edit, shape, tmp_path), FrontendOptions())


def test_rows_are_channels_of_pixels(tmp_path: Path) -> None:
    def norm(b: Builder, x: str, shape: tuple[int, ...]) -> str:
        return b.node("LayerNormalization", [x, ones(b, shape[-1])])

    graph = parse(network(norm, (1, 5, 16), tmp_path), FrontendOptions())
    [layer] = [op for op in graph.ops if isinstance(op, ops.LayerNorm)]
    assert graph.tensors[layer.output].shape == (16, 1, 5)
