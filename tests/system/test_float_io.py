"""Real networks with float input and output: the same integers, and the same floats, as TFLM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import load_plugins
from tests.nets import tflite_net

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tones"
# Float inputs in the file; several inputs and outputs; uint8.
NETWORKS = (
    "mlonmcu_catdog",
    "openmv_force_int_quant",
    "mcunet_vww",
    "mlonmcu_rnnoise_int8",
    "coral_mobilenet_v1_025_128_uint8",
)


@pytest.mark.parametrize(
    "target",
    ["gap8", *(pytest.param(name, marks=pytest.mark.slow) for name in ("stm32h7", "diana"))],
)
def test_example_takes_real_numbers(target: str, tmp_path: Path) -> None:
    plugins, app = load_plugins(), tmp_path / "app"
    if not any(plugin.entry == "tflite" for plugin in plugins.states):
        pytest.skip("plugins are needed: tflite")
    options = CompileOptions(
        EXAMPLE / "net.tflite",
        target,
        "tflite",
        app,
        golden=(EXAMPLE / "golden.npz",),
        float_io=True,
    )
    graph = compile_network(options, plugins).graph
    (tensor,) = (graph.tensors[name] for name in graph.inputs)
    reals = np.random.default_rng(0).normal(8, 6, (tensor.height, tensor.width, tensor.channels))
    np.save(tmp_path / "x.npy", reals.astype(np.float32))
    given = run_application(app, plugins=plugins, inputs=[tmp_path / "x.npy"], runner="host")
    assert given.exact and "equal to the bit" in given.notes[-1]
    assert run_application(app, plugins=plugins, runner="host", dma="random").exact


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
@pytest.mark.parametrize("name", NETWORKS)
def test_network_takes_real_numbers(name: str, target: str, tmp_path: Path) -> None:
    net, plugins, app = tflite_net(name), load_plugins(), tmp_path / "app"
    options = CompileOptions(net.path, target, "tflite", app, golden=(net.golden,), float_io=True)
    result = compile_network(options, plugins)
    assert result.golden_exact
    ran = run_application(app, plugins=plugins, runner="host")
    assert ran.exact and "equal to the bit" in ran.notes[-1]
    with np.load(net.golden) as golden:
        floats = [golden[key] for key in golden.files if key.startswith("in0__")]
    if len(floats) == 1 and floats[0].dtype.kind == "f":  # what the file itself quantises
        np.save(tmp_path / "x.npy", floats[0].reshape(-1))
        given = run_application(app, plugins=plugins, inputs=[tmp_path / "x.npy"], runner="host")
        assert given.exact and "equal to the bit" in given.notes[-1]
