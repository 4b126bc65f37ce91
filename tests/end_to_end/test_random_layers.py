"""Random single convolutions over the space in which the original tool fails on 59 of 260."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dory_core.compiler import CompileOptions, compile_network
from dory_core.errors import DoesNotFit
from dory_core.plugins import Plugins, load_plugins
from dory_core.testing.apps import assert_exact
from tests.builders import NemoBuilder

COUNT = 260
QUICK = 100
L2 = 512 * 1024


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
    def tensor_bytes(self) -> int:
        """Bytes of input, weights and output together: what two levels must hold in L2."""
        pad = self.kernel // 2
        h, w = ((n + 2 * pad - self.kernel) // self.stride + 1 for n in (self.height, self.width))
        weights = self.kernel**2 * self.c_out * (1 if self.depthwise else self.c_in)
        return self.height * self.width * self.c_in + weights + h * w * self.c_out


def _random_layers() -> list[Layer]:
    rng = np.random.default_rng(2021)
    layers = []
    for _ in range(COUNT):
        c_in, c_out = (int(2 ** rng.uniform(0, 9)) for _ in range(2))
        height = int(rng.integers(8, 225))
        width = height if rng.random() < 0.6 else int(rng.integers(8, 225))
        depthwise = bool(rng.random() < 0.3)
        layers.append(
            Layer(
                height,
                width,
                c_in,
                c_in if depthwise else c_out,
                int(rng.choice([1, 3, 3, 5, 7])) if not depthwise else int(rng.choice([3, 5])),
                int(rng.integers(1, 3)),
                depthwise and c_in > 1,
            )
        )
    return layers


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


def check(layer: Layer, plugins: Plugins, directory: Path) -> None:
    builder = NemoBuilder((layer.c_in, layer.height, layer.width), seed=layer.c_in + layer.height)
    builder.conv(
        layer.c_out,
        layer.kernel,
        stride=layer.stride,
        pads=layer.kernel // 2,
        groups=layer.c_in if layer.depthwise else 1,
    )
    path = builder.save(directory / "net.onnx")
    options = CompileOptions(path, "gap8", "nemo", directory / "app", budgets={2: L2})
    try:
        compile_network(options, plugins)
    except DoesNotFit as error:
        assert "L2" in error.message
        # constants are more than the weights: 16 bytes of requantisation per channel and padding
        assert layer.tensor_bytes + 32 * layer.c_out + 64 * layer.kernel**2 > L2 - 8192
        return
    assert_exact(directory / "app", plugins=plugins)


@pytest.mark.parametrize("layer", HARD, ids=str)
def test_layer_without_room_for_im2col_of_all_cores_is_exact(
    layer: Layer, plugins: Plugins, tmp_path: Path
) -> None:
    check(layer, plugins, tmp_path)


@pytest.mark.parametrize("layer", _random_layers()[:QUICK], ids=str)
def test_random_layer_is_exact_or_exceeds_l2(
    layer: Layer, plugins: Plugins, tmp_path: Path
) -> None:
    check(layer, plugins, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layer", _random_layers()[QUICK:], ids=str)
def test_more_random_layers_are_exact_or_exceed_l2(
    layer: Layer, plugins: Plugins, tmp_path: Path
) -> None:
    check(layer, plugins, tmp_path)
