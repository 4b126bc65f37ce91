"""Random single convolutions over the space in which the original tool fails on 59 of 260."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from dory_onnx.testing import IntegerOnnxBuilder

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.errors import DoesNotFit
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.apps import assert_exact
from dory_core.testing.sanitizers import require_sanitizer

COUNT = 260
L2 = 512 * 1024
L3 = 8 * 1024 * 1024

# Of the layers that exceed L2, or cost MANY_MACS multiplications and more, few are kept.
MANY_MACS = 8_000_000
MOST_MACS = 200_000_000
KEPT_BEYOND_L2 = 0.1
KEPT_OF_MANY_MACS = 0.5


@dataclass(frozen=True)
class Layer:
    """A convolution with padding ``kernel // 2``."""

    height: int
    width: int
    c_in: int
    c_out: int
    kernel: int
    stride: int
    depthwise: bool

    def __str__(self) -> str:
        kind = "dw" if self.depthwise else "conv"
        return (
            f"{kind}{self.kernel}x{self.kernel}s{self.stride}_"
            f"{self.height}x{self.width}x{self.c_in}_{self.c_out}"
        )

    @property
    def out_pixels(self) -> int:
        pad = self.kernel // 2
        h, w = ((n + 2 * pad - self.kernel) // self.stride + 1 for n in (self.height, self.width))
        return h * w

    @property
    def weights(self) -> int:
        return self.kernel**2 * self.c_out * (1 if self.depthwise else self.c_in)

    @property
    def macs(self) -> int:
        return self.out_pixels * self.weights

    @property
    def tensor_bytes(self) -> int:
        """Bytes of input, weights and output together: what two levels must hold in L2."""
        pixels = self.height * self.width
        return pixels * self.c_in + self.weights + self.out_pixels * self.c_out

    @property
    def must_fit_l2(self) -> bool:
        """True when there is room for the constants too: requantisation, tables, padding."""
        return self.tensor_bytes + 32 * self.c_out + 64 * self.kernel**2 <= L2 - 8192


def _random_layer(rng: np.random.Generator) -> Layer:
    c_in, c_out = (int(2 ** rng.uniform(0, 9)) for _ in range(2))
    height = int(rng.integers(8, 225))
    width = height if rng.random() < 0.6 else int(rng.integers(8, 225))
    depthwise = c_in > 1 and bool(rng.random() < 0.3)
    return Layer(
        height,
        width,
        c_in,
        c_in if depthwise else c_out,
        int(rng.choice([1, 3, 3, 5, 7])) if not depthwise else int(rng.choice([3, 5])),
        int(rng.integers(1, 3)),
        depthwise,
    )


def _random_layers() -> list[Layer]:
    rng = np.random.default_rng(2021)
    layers: list[Layer] = []
    while len(layers) < COUNT:
        layer = _random_layer(rng)
        kept = 1.0 if layer.macs <= MANY_MACS else KEPT_OF_MANY_MACS
        if not layer.must_fit_l2:
            kept = KEPT_BEYOND_L2 if layer.macs <= MOST_MACS else 0.0
        if rng.random() < kept and layer not in layers:
            layers.append(layer)
    return layers


RANDOM = _random_layers()

# Layers whose im2col buffer for all cores does not fit, and which the original refuses.
HARD = [
    Layer(8, 8, 256, 256, 3, 1, False),
    Layer(8, 8, 2048, 64, 1, 1, False),
    Layer(8, 8, 128, 64, 5, 1, False),
    Layer(8, 8, 512, 64, 3, 1, False),
    Layer(8, 8, 64, 64, 7, 2, False),
]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def check(layer: Layer, plugins: Plugins, directory: Path, **run: object) -> None:
    builder = IntegerOnnxBuilder(
        (layer.c_in, layer.height, layer.width), seed=layer.c_in + layer.height
    )
    builder.conv(
        layer.c_out,
        layer.kernel,
        stride=layer.stride,
        pads=layer.kernel // 2,
        groups=layer.c_in if layer.depthwise else 1,
    )
    path = builder.save(directory / "net.onnx")
    options = CompileOptions(path, "gap8", "nemo", directory / "app")
    try:
        compile_network(options, plugins)
    except DoesNotFit as error:
        assert "L3" in error.message
        assert layer.tensor_bytes + 64 * layer.c_out > L3, error.message
        return
    assert_exact(directory / "app", plugins=plugins, **run)  # type: ignore[arg-type]


def test_most_random_layers_fit_and_some_are_large() -> None:
    assert sum(layer.must_fit_l2 for layer in RANDOM) >= 200
    assert sum(layer.tensor_bytes > L2 for layer in RANDOM) >= 10
    assert sum(layer.macs > MANY_MACS for layer in RANDOM if layer.must_fit_l2) >= 10
    assert {layer.kernel for layer in RANDOM if layer.must_fit_l2} == {1, 3, 5, 7}
    assert sum(layer.depthwise for layer in RANDOM if layer.must_fit_l2) >= 40


@pytest.mark.sample(3)
@pytest.mark.parametrize("layer", HARD, ids=str)
def test_layer_without_room_for_im2col_of_all_cores_is_exact(
    layer: Layer, plugins: Plugins, tmp_path: Path
) -> None:
    check(layer, plugins, tmp_path)


@pytest.mark.sample(48)
@pytest.mark.parametrize("layer", RANDOM[::3], ids=str)
def test_random_layer_is_exact_or_exceeds_l3(
    layer: Layer, plugins: Plugins, tmp_path: Path
) -> None:
    check(layer, plugins, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [*RANDOM[1::3], *RANDOM[2::3]], ids=str)
def test_every_random_layer_is_exact_or_exceeds_l3(
    layer: Layer, plugins: Plugins, tmp_path: Path
) -> None:
    check(layer, plugins, tmp_path)


@pytest.mark.sample(10)
@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize("layer", RANDOM[::52], ids=str)
def test_random_layer_is_clean_under_sanitizers(
    layer: Layer, sanitize: str, plugins: Plugins, tmp_path: Path
) -> None:
    require_sanitizer(sanitize)
    check(layer, plugins, tmp_path, sanitize=sanitize)


@pytest.mark.slow
@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize("layer", RANDOM[26::13], ids=str)
def test_more_random_layers_are_clean_under_sanitizers(
    layer: Layer, sanitize: str, plugins: Plugins, tmp_path: Path
) -> None:
    require_sanitizer(sanitize)
    check(layer, plugins, tmp_path, sanitize=sanitize)
