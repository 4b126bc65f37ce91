"""Normalisations: every element is onnxruntime's, and what is refused."""

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
from dory_core.testing import CompileOptions, compile_network, make_vectors
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")


NORMS = (
    *("layer_norm", "rms_norm", "simplified_norm", "norm_written_out", "lp_norm"),
    "instance_norm",
)


def check(name: str, seeds: range, folder: Path) -> None:
    for seed in seeds:
        path = folder / f"net_{seed}.onnx"
        path.write_bytes(random_network(seed, 1, name))
        graph = parse(path, FrontendOptions())
        inference = infer(path.read_bytes(), folder, seed, inferences=2)
        golden = write_golden(inference.golden, folder / "golden.npz")
        _, report = make_vectors(graph, [golden])
        assert report is not None and report.layers
        assert inference.unexpected(graph) == frozenset(), "it computes the layer in reals"
        if __cpu_features__["AVX2"]:  # elsewhere it may be one step away
            assert report.apart == (), seed


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NORMS)
def test_random_norms_are_exact(name: str, tmp_path: Path) -> None:
    check(name, range(12), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMS)
def test_many_random_norms_are_exact(name: str, tmp_path: Path) -> None:
    check(name, range(100, 300), tmp_path)


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
@pytest.mark.parametrize("name", [*NORMS[1:], "group_norm"])
def test_norms_are_exact_in_applications(name: str, target: str, tmp_path: Path) -> None:
    model = random_network(11, 1, name)
    (tmp_path / "net.onnx").write_bytes(model)
    golden = write_golden(infer(model, tmp_path, 1).golden, tmp_path / "golden.npz")
    options = CompileOptions(tmp_path / "net.onnx", target, "qdq", tmp_path / "a", (golden,))
    compile_network(options, load_plugins())
    assert_exact(tmp_path / "a", plugins=load_plugins())


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


def rms_over_several_dimensions(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    scale = b.constant(np.ones(shape[2:], np.float32))
    return b.node("SimplifiedLayerNormalization", [x, scale], axis=2)


def written_out(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    mean = b.node("ReduceMean", [b.node("Mul", [x, x])], axes=[-1])
    root = b.node("Sqrt", [b.node("Add", [mean, b.constant(np.float32(1e-5))])])
    return b.node("Mul", [b.node("Div", [x, root]), ones(b, shape[-1])])


def norm_of_sums(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LpNormalization", [x], p=1)


def norm_beyond(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LpNormalization", [x], axis=4)


def instance_of_rows(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("InstanceNormalization", [x, ones(b, shape[1]), ones(b, shape[1])])


def instance_of_another_size(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("InstanceNormalization", [x, ones(b, 2), ones(b, 2)])


def groups(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    inputs = [x, ones(b, shape[1]), ones(b, shape[1])]
    return b.node("GroupNormalization", inputs, num_groups=2)


def local_response(b: Builder, x: str, shape: tuple[int, ...]) -> str:
    return b.node("LRN", [x], size=3)


@pytest.mark.parametrize(
    ("edit", "shape", "reason"),
    [
        (rms_over_several_dimensions, (1, 3, 4, 8), "only the last one is supported"),
        (written_out, (1, 3, 4, 7), "supported are multiples of 4"),
        (norm_of_sums, (1, 3, 4, 8), "supported only if p is 2"),
        (norm_beyond, (1, 3, 4, 8), "axis 4 of shape"),
        (instance_of_rows, (1, 8), "is no image"),
        (instance_of_another_size, (1, 3, 4, 8), "is not one real for each of 3"),
        (groups, (1, 4, 4, 8), "GroupNormalization .*not supported"),
        (local_response, (1, 4, 4, 8), "LRN .*not supported"),
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
    with pytest.raises(NotSupported, match=reason) as caught:
        parse(network(edit, shape, tmp_path), FrontendOptions())
    if edit in (groups, local_response):
        assert ("Reshape" if edit is groups else "batch") in caught.value.hint


def test_rows_are_channels_of_pixels(tmp_path: Path) -> None:
    def norm(b: Builder, x: str, shape: tuple[int, ...]) -> str:
        return b.node("LayerNormalization", [x, ones(b, shape[-1])])

    graph = parse(network(norm, (1, 5, 16), tmp_path), FrontendOptions())
    [layer] = [op for op in graph.ops if isinstance(op, ops.LayerNorm)]
    assert graph.tensors[layer.output].shape == (16, 1, 5)
