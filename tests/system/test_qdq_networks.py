"""QDQ and QOperator networks: from the file to applications that equal the reference executor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import assert_exact
from tests.nets import onnx_names, onnx_net

TARGETS = ("gap8", "stm32h7")
FAST = {("made_torch_pt2e", "gap8"), ("ortq_espdl_streaming_u8s8_pc", "stm32h7")}


def cases() -> list[object]:
    found: list[object] = [
        pytest.param(name, target, marks=() if (name, target) in FAST else pytest.mark.slow)
        for prefix in ("made_", "ortq_", "qdq_")
        for name in onnx_names(prefix)
        for target in TARGETS
    ]
    skip = pytest.mark.skip(reason="no quantised ONNX networks beside the project")
    return found or [pytest.param("", "", marks=skip)]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "target"), cases())
def test_every_layer_is_exact_in_all_dma_modes(name: str, target: str, tmp_path: Path) -> None:
    net, plugins = onnx_net(name), load_plugins()
    if "qdq" not in [frontend.name for frontend in plugins.frontends()]:
        pytest.skip("the frontend dory-qdq is not installed")
    assert plugins.frontend_for(net.path).name == "qdq"
    options = CompileOptions(net.path, target, "qdq", tmp_path / "app")
    compile_network(options, plugins)
    assert_exact(tmp_path / "app", plugins=plugins)


def test_real_numbers_of_sums_with_a_scale_per_channel_are_those_of_onnxruntime(
    tmp_path: Path,
) -> None:
    net, plugins = onnx_net("made_torch_pt2e"), load_plugins()
    if "qdq" not in [frontend.name for frontend in plugins.frontends()]:
        pytest.skip("the frontend dory-qdq is not installed")
    golden, app = net.folder / "golden.npz", tmp_path / "app"
    options = CompileOptions(net.path, "stm32h7", "qdq", app, (golden,), float_io=True)
    plan = compile_network(options, plugins).plan
    assert any("'linear' is 32-bit sums with a scale per channel" in note for note in plan.notes)
    ran = run_application(app, plugins=plugins, runner="host")
    assert ran.exact and "equal to the bit" in ran.notes[-1]
    (tensor,) = (place.tensor for place in plan.outputs)
    assert tensor.scale is None and len(set(tensor.channel_scales)) == 10
    reals = np.fromfile(app / "vectors" / "output_float.bin", "<f4").reshape(2, 10)
    with np.load(golden) as archive:
        wanted = np.concatenate([archive["run0__linear"], archive["run1__linear"]])
    # Biases are rounded to whole sums.
    assert np.all(np.abs(reals - wanted) < np.array(tensor.channel_scales))
