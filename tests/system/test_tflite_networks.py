"""TensorFlow Lite networks that people have: from the file to exact applications.

Every layer of the application equals TensorFlow Lite Micro's golden. A network that does not fit a
chip says so in numbers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.errors import DoesNotFit, DoryError
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import assert_exact
from dory_core.testing.sanitizers import require_sanitizer
from tests.nets import tflite_names, tflite_net

TARGETS = ("gap8", "stm32h7")
# One of each kind: fully connected, depthwise, several inputs and outputs, state.
FAST = {
    ("mlperf_kws_ref_model", "gap8"),
    ("tflm_hello_world", "stm32h7"),
}
# Every kind of layer of the collection: branches, views, state, tables, movers, padding values.
SANITIZED = (
    "esphome_okay_nabu",
    "mlonmcu_cnn_s",
    "mlonmcu_micro_kws_m",
    "mlonmcu_rnnoise_int8",
    "mlperf_kws_ref_model",
    "mlperf_pretrainedResnet_quant",
    "openmv_fomo_face",
)
REFUSED: dict[tuple[str, str], tuple[type[DoryError], str]] = {
    ("openmv_movenet_192", "stm32h7"): (
        DoesNotFit,
        r"has 253\d{4} B of constants, 1966080 B of L3",  # padding depends on tiles
    ),
}


def cases() -> list[object]:
    names = [(name, target) for name in tflite_names() for target in TARGETS]
    slow = pytest.mark.slow
    skip = pytest.mark.skip(reason="no TensorFlow Lite networks beside the project")
    found: list[object] = [
        pytest.param(*case, marks=() if case in FAST else slow, id="-".join(case)) for case in names
    ]
    return found or [pytest.param("", "", marks=skip)]


@pytest.mark.parametrize(("name", "target"), cases())
def test_every_layer_is_exact(name: str, target: str, tmp_path: Path) -> None:
    net, plugins = tflite_net(name), load_plugins()
    options = CompileOptions(net.path, target, "tflite", tmp_path / "app", golden=(net.golden,))
    if (name, target) in REFUSED:
        kind, reason = REFUSED[name, target]
        with pytest.raises(kind, match=reason):
            compile_network(options, plugins)
        return
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SANITIZED)
def test_sanitizers_find_nothing(name: str, target: str, sanitizer: str, tmp_path: Path) -> None:
    require_sanitizer(sanitizer)
    net, plugins = tflite_net(name), load_plugins()
    compile_network(CompileOptions(net.path, target, "tflite", tmp_path / "app"), plugins)
    assert_exact(tmp_path / "app", dma=("random",), sanitize=sanitizer, plugins=plugins)
