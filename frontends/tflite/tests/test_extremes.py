"""ARG_MAX and ARG_MIN: which of equal elements, in every application."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

SHAPE = (1, 4, 5, 7)


@pytest.mark.parametrize("code", ["ARG_MAX", "ARG_MIN"])
def test_the_first_of_equal_elements_is_found(code: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden of dory-tflite is not installed")
    b = TfliteBuilder()
    x, y = b.input(SHAPE, 0.05, 3), b.plain(SHAPE[:3], "INT32")
    b.operator(code, [x, b.constant(np.array(3, np.int32))], [y])
    data = b.build([y])
    (tmp_path / "net.tflite").write_bytes(data)
    few = np.random.default_rng(1).choice([-128, 0, 127], SHAPE).astype(np.int8)
    golden = tmp_path / "golden.npz"
    arrays = golden_arrays(data, model_of(data, Path("net.tflite")), [{x: few}])
    assert len({*arrays[f"run0__t{y}"].reshape(-1).tolist()}) > 2, "the elements show nothing"
    np.savez(golden, **arrays)
    options = CompileOptions(tmp_path / "net.tflite", "gap8", "tflite", tmp_path / "a", (golden,))
    assert compile_network(options, load_plugins()).golden_exact
    assert_exact(tmp_path / "a", plugins=load_plugins())


@pytest.mark.sample(3)
@pytest.mark.parametrize("code", ["REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("dimensions", [(1, 3), (2, 4), (0, 2, 4)])
def test_dimensions_that_lie_apart_are_reduced_in_steps(
    code: str, dimensions: tuple[int, ...], tmp_path: Path
) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden of dory-tflite is not installed")
    shape = (1, 3, 4, 5, 6)
    b = TfliteBuilder()
    x = b.input((1, 3, 4, 30), 0.05, 3)
    grid = b.tensor(shape, 0.05, 3)
    b.operator("RESHAPE", [x, b.constant(np.array(shape, np.int32))], [grid])
    y = b.tensor([1 if n in dimensions else size for n, size in enumerate(shape)], 0.05, 3)
    b.operator(code, [grid, b.constant(np.array(dimensions, np.int32))], [y], KeepDims=True)
    data = b.build([y])
    (tmp_path / "net.tflite").write_bytes(data)
    values = np.random.default_rng(1).integers(-128, 128, (1, 3, 4, 30)).astype(np.int8)
    golden = tmp_path / "golden.npz"
    np.savez(golden, **golden_arrays(data, model_of(data, Path("net.tflite")), [{x: values}]))
    options = CompileOptions(tmp_path / "net.tflite", "gap8", "tflite", tmp_path / "a", (golden,))
    assert compile_network(options, load_plugins()).golden_exact
    assert_exact(tmp_path / "a", plugins=load_plugins())
