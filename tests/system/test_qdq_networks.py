"""QDQ and QOperator networks: from the file to applications that equal the reference executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.compiler import CompileOptions, compile_network
from dory_core.plugins import load_plugins
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


@pytest.mark.parametrize(("name", "target"), cases())
def test_every_layer_is_exact_in_all_dma_modes(name: str, target: str, tmp_path: Path) -> None:
    net, plugins = onnx_net(name), load_plugins()
    if "qdq" not in [frontend.name for frontend in plugins.frontends()]:
        pytest.skip("the frontend dory-qdq is not installed")
    assert plugins.frontend_for(net.path).name == "qdq"
    options = CompileOptions(net.path, target, "qdq", tmp_path / "app")
    compile_network(options, plugins)
    assert_exact(tmp_path / "app", plugins=plugins)
