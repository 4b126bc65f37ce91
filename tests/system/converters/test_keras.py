"""What the TFLite converter of today makes of Keras is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="`make test-converters` installs what is missing")

from tests.system.converters.checks import check_exact
from tests.system.converters.conversion import write_tflite
from tests.system.converters.keras_networks import NETWORKS

#: What TensorFlow Lite Micro does not run: it has no GELU, TILE and SELECT, and ends its process on
#: MobileNetV3.
NO_REFERENCE = {
    "activations",
    "convnext",
    "mobilenet_v3_small",
    "upsampled",
    "vision_transformer",
    "yolo_v8",
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
@pytest.mark.parametrize("name", NETWORKS)
def test_converted_network_is_exact(name: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    write_tflite(NETWORKS[name](), path)
    check_exact(path, target, tmp_path, name in NO_REFERENCE)


@pytest.mark.parametrize("name", ["activity_recognition", "autoencoder", "squeezenet", "unet"])
def test_activations_of_16_bits_are_exact(name: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    write_tflite(NETWORKS[name](), path, activation_bits=16)
    check_exact(path, "stm32h7", tmp_path)
