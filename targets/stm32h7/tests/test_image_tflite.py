"""Images of TensorFlow Lite networks on the emulated chip: every element of every layer, twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from image import require_emulator, run_image

from dory_core.testing import CompileOptions, compile_network
from dory_core.tools import load_plugins
from tests.nets import tflite_names, tflite_net

FAST = "tflm_hello_world"
# Its constants need more than the flash of the chip.
SETTINGS = {"openmv_movenet_192": {"external_flash_kib": "8192"}}


def params() -> list[object]:
    skip = pytest.mark.skip(reason="no TensorFlow Lite networks beside the project")
    slow = pytest.mark.slow
    found: list[object] = [
        pytest.param(name, marks=() if name == FAST else slow) for name in tflite_names()
    ]
    return found or [pytest.param("", marks=skip)]


@pytest.mark.parametrize("name", params())
def test_image_is_exact(name: str, tmp_path: Path) -> None:
    require_emulator()
    net, plugins = tflite_net(name), load_plugins()
    options = CompileOptions(
        net.path,
        "stm32h7",
        "tflite",
        tmp_path / "app",
        golden=(net.golden,),
        settings=SETTINGS.get(name, {}),
        float_io=name == FAST,  # its functions are built for the chip, too
    )
    result = compile_network(options, plugins)
    assert result.golden_exact and result.plan.deployable
    first, second, *_ = run_image(tmp_path / "app", plugins).runs
    indices = sorted(step.index for step in result.plan.steps)
    assert sorted(layer.index for layer in first.layers) == indices
    assert len(second.layers) == len(indices)
