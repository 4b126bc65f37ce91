"""The same arithmetic gives an equal Graph, whichever dialect the file is written in."""

from pathlib import Path

import numpy as np
import pytest
from dory_onnx.testing import OnnxBuilder
from dory_quantlab.dialect import parse
from dory_quantlab.testing import QuantlabBuilder

from dory_core.api import Graph
from dory_core.importing import FrontendOptions

nemo_dialect = pytest.importorskip("dory_nemo.dialect")
nemo_testing = pytest.importorskip("dory_nemo.testing")

FACTOR, SHIFT = 24, 14  # of the other dialect: a product with the factor, then a division


def both(ours: OnnxBuilder, theirs: OnnxBuilder, folder: Path) -> tuple[Graph, Graph]:
    options = FrontendOptions()
    return (
        parse(ours.save(folder / "ours.onnx"), options),
        nemo_dialect.parse(theirs.save(folder / "theirs.onnx"), options),
    )


def scaled(builder: OnnxBuilder, kappa: np.ndarray, lamda: np.ndarray, lo: int, hi: int) -> None:
    """Requantise the current value as the other dialect does."""
    form = (1, -1, *(1 for _ in builder.shape[1:])) if len(builder.shape) > 1 else (-1,)
    builder.node("Mul", builder.value, builder.constant(kappa.reshape(form)))
    builder.node("Add", builder.value, builder.constant(lamda.reshape(form)))
    builder.node("Mul", builder.value, builder.constant(FACTOR))
    builder.node("Div", builder.value, builder.constant(float(1 << SHIFT)))
    builder.clip(lo, hi)


@pytest.mark.parametrize("lo", [0, -128])
def test_whole_network(lo: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    hi = 255 + lo
    ours = QuantlabBuilder((3, 12, 10))
    theirs = nemo_testing.NemoBuilder((3, 12, 10))

    def constants(channels: int) -> tuple[np.ndarray, np.ndarray, tuple[object, object, int]]:
        kappa = rng.integers(-20, 20, channels)
        lamda = rng.integers(-5000, 5000, channels)
        return kappa, lamda, (kappa * FACTOR, lamda * FACTOR, SHIFT)

    weights = rng.integers(-64, 64, (8, 3, 3, 3))
    kappa, lamda, scale = constants(8)
    window = {"stride": 2, "pads": (1, 0, 2, 1)}
    ours.conv(8, 3, weights=weights, scale=scale, lo=lo, hi=hi, **window).maxpool(2)
    theirs.conv(8, 3, weights=weights, activation=False, **window)
    scaled(theirs, kappa, lamda, lo, hi)
    theirs.maxpool(2)
    branches = ours.value, theirs.value

    weights = rng.integers(-64, 64, (8, 1, 3, 3))
    kappa, lamda, scale = constants(8)
    ours.depthwise(3, pads=1, weights=weights, scale=scale, lo=lo, hi=hi)
    theirs.depthwise(3, pads=1, weights=weights, activation=False)
    scaled(theirs, kappa, lamda, lo, hi)

    ours.add(
        branches[0], in1=(19, 0, 0), in2=(32, 0, 0), out=(1, 0, 6), signed=lo < 0,
        levels=(1 << 20, 1 << 20, 256),
    )  # fmt: skip
    theirs.add(branches[1], factors=(19, 32), divisor=64)
    theirs.clip(lo, hi)
    ours.avgpool((2, 1), mul=2 * 300, add=0, shift=9, lo=-200, hi=200)
    theirs.avgpool((2, 1), ratio=300, divisor=512)
    theirs.clip(-200, 200)

    weights = rng.integers(-64, 64, (16, ours.shape[0] * ours.shape[1] * ours.shape[2]))
    kappa, lamda, scale = constants(16)
    ours.linear(16, weights=weights, scale=scale, lo=lo, hi=hi)
    theirs.linear(16, weights=weights, activation=False)
    scaled(theirs, kappa, lamda, lo, hi)
    last = rng.integers(-64, 64, (5, 16))
    ours.linear(5, gemm=False, weights=last, activation=False)
    theirs.linear(5, gemm=True, weights=last, activation=False)

    left, right = both(ours, theirs, tmp_path)
    assert [layer.kind for layer in left.ops] == [
        "Conv", "MaxPool", "Conv", "Add", "AvgPool", "Linear", "Linear",
    ]  # fmt: skip
    assert left.ops == right.ops
    assert left == right


def test_different_arithmetic_is_not_equal(tmp_path: Path) -> None:
    weights = np.ones((4, 3, 1, 1), int)
    ours = QuantlabBuilder((3, 4, 4)).conv(4, 1, weights=weights, scale=([7] * 4, [0] * 4, 10))
    theirs = nemo_testing.NemoBuilder((3, 4, 4)).conv(4, 1, weights=weights, activation=False)
    theirs.node("Mul", theirs.value, theirs.constant(7))
    theirs.node("Div", theirs.value, theirs.constant(1023.0))
    theirs.clip(0, 255)
    left, right = both(ours, theirs, tmp_path)
    assert left != right
    assert left.ops[0].requants[0].div == 1024
    assert right.ops[0].requants[0].div == 1023
