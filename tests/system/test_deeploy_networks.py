"""Networks of Deeploy's tests: from the file to applications that equal the goldens."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.frontend import FrontendOptions
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import assert_exact
from tests.nets import onnx_names, onnx_net

TARGETS = ("gap8", "stm32h7", "diana")
FAST = {("deeploy_KeywordSpotting", "gap8"), ("deeploy_ImageClassification", "stm32h7")}


def cases() -> list[object]:
    found: list[object] = [
        pytest.param(name, target, marks=() if (name, target) in FAST else pytest.mark.slow)
        for name in onnx_names("deeploy_")
        for target in TARGETS
    ]
    skip = pytest.mark.skip(reason="no quantised ONNX networks beside the project")
    return found or [pytest.param("", "", marks=skip)]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "target"), cases())
def test_every_layer_is_exact_in_all_dma_modes(name: str, target: str, tmp_path: Path) -> None:
    net, plugins = onnx_net(name), load_plugins()
    if "deeploy" not in [frontend.name for frontend in plugins.frontends()]:
        pytest.skip("the frontend dory-deeploy is not installed")
    frontend = plugins.frontend_for(net.path)
    assert frontend.name == "deeploy"
    graph = frontend.parse(net.path, FrontendOptions())
    golden = net.golden_of_layers(graph, tmp_path / "golden.npz")
    options = CompileOptions(net.path, target, "deeploy", tmp_path / "app", golden=(golden,))
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins)
