"""Images of quantised ONNX networks on the emulated chip: every element of every layer, twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image import require_emulator, run_image

from dory_core.importing import Frontend, GoldenRequest
from dory_core.testing import CompileOptions, compile_network
from dory_core.tools import load_plugins
from tests.nets import onnx_names, onnx_net, transformer_names, transformer_net

FRONTENDS = {"deeploy": "deeploy", "made": "qdq", "ortq": "qdq", "qdq": "qdq"}


def params() -> list[object]:
    """Return networks with their frontends, and those that onnxruntime made of them."""
    found: list[object] = [
        pytest.param(name, frontend, file, id=f"{name}-{file}")
        for prefix, frontend in FRONTENDS.items()
        for name in onnx_names(prefix)
        for file in ("net.onnx", "fused.onnx")
        if (onnx_net(name).folder / file).is_file()
    ]
    skip = pytest.mark.skip(reason="no quantised ONNX networks beside the project")
    return found or [pytest.param("", "", "", marks=skip)]


def golden_of(path: Path, frontend: Frontend, folder: Path) -> Path:
    """Return the golden: the one beside it, or for QDQ what onnxruntime computes of the file.

    That beside QDQ networks has the names of the network that onnxruntime made.
    """
    if frontend.golden is None or path.name == "fused.onnx":
        return path.with_name("golden.npz")
    pytest.importorskip("onnxruntime", reason="the extra quantize of dory-qdq is not installed")
    np.savez(folder / "golden.npz", **frontend.golden(path, GoldenRequest(runs=2)))
    return folder / "golden.npz"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "frontend", "file"), params())
def test_image_is_exact(name: str, frontend: str, file: str, tmp_path: Path) -> None:
    require_emulator()
    net, plugins = onnx_net(name), load_plugins()
    path = net.folder / file
    golden = golden_of(path, plugins.frontend(frontend), tmp_path)
    options = CompileOptions(path, "stm32h7", frontend, tmp_path / "app", golden=(golden,))
    result = compile_network(options, plugins)
    assert result.golden_exact and result.plan.deployable
    first, second, *_ = run_image(tmp_path / "app", plugins).runs
    indices = sorted(step.index for step in result.plan.steps)
    assert sorted(layer.index for layer in first.layers) == indices
    assert len(second.layers) == len(indices)


@pytest.mark.slow
@pytest.mark.parametrize("name", transformer_names())
def test_image_of_a_transformer_is_exact(name: str, tmp_path: Path) -> None:
    require_emulator()
    net, plugins = transformer_net(name), load_plugins()
    with np.load(net / "golden.npz") as golden:
        signed = any(golden[key].min() < 0 for key in golden if key.startswith("in0__"))
    options = CompileOptions(
        net / "net.onnx",
        "stm32h7",
        "deeploy",
        tmp_path / "app",
        golden=(net / "golden.npz",),
        input_signed=signed,
    )
    result = compile_network(options, plugins)
    assert result.golden_exact and result.plan.deployable
    runs = run_image(tmp_path / "app", plugins).runs
    assert [len(run.layers) for run in runs] == [len(result.plan.steps)] * 2
