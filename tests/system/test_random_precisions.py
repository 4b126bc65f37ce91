"""Random networks of mixed precisions through both dialects, in little L1 and L2.

Goldens come from the evaluator of ONNX, so that import, packing, tiling, streaming and kernels are
judged by what shares no code with them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_nemo.testing import NemoBuilder
from dory_onnx.testing import OnnxBuilder, evaluate
from dory_quantlab.testing import QuantlabBuilder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dory_core.driver.compiler import CompileOptions, CompileResult, compile_network
from dory_core.errors import DoesNotFit
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.apps import DMA_MODES, assert_exact
from dory_core.testing.precisions import TYPES, type_name
from frontends.quantlab.tests.standard_onnx import Signs, standard

DIALECTS = ("quantlab", "nemo")

common = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass(frozen=True)
class Network:
    """A network to compile. signs: of the residuals' clips, for the evaluator. text: its layers."""

    builder: OnnxBuilder
    signs: tuple[Signs, ...]
    text: str

    def __repr__(self) -> str:
        return f"Network({self.text})"

    def evaluated(self) -> onnx.ModelProto:
        """Return the model in standard operators."""
        model = self.builder.model()
        return standard(model, self.signs) if self.builder.__class__ is QuantlabBuilder else model


class Sketch:
    """A network in the making."""

    def __init__(self, draw: st.DrawFn, dialect: str) -> None:
        self.draw = draw
        self.quantlab = dialect == "quantlab"
        shape = (self.integer(1, 13), self.integer(1, 9), self.integer(1, 9))
        lo, hi = self.type()
        make = QuantlabBuilder if self.quantlab else NemoBuilder
        self.builder = make(shape, seed=self.integer(0, 99), input_lo=lo, input_hi=hi)
        self.lines = [f"{shape} {type_name((lo, hi))}"]
        self.signs: list[Signs] = []

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, max(low, high)))

    def type(self) -> tuple[int, int]:
        return self.draw(st.sampled_from(TYPES))

    def activation(self) -> dict[str, object]:
        """Return range of the outputs and bits of the weights, of which one dialect has 8."""
        lo, hi = self.type()
        bits = {"weight_bits": self.draw(st.sampled_from([2, 4, 8]))} if self.quantlab else {}
        self.lines.append(f"-> {type_name((lo, hi))} {bits}")
        return {"lo": lo, "hi": hi, **bits}

    def conv(self) -> None:
        size = self.draw(st.sampled_from([1, 3]))
        channels = self.integer(1, 21)
        stride = self.draw(st.sampled_from([1, 1, 2]))
        self.lines.append(f"conv {channels} {size} {stride}")
        bias = self.draw(st.booleans())
        self.builder.conv(
            channels, size, stride=stride, pads=size // 2, bias=bias, **self.activation()
        )

    def depthwise(self) -> None:
        self.lines.append("depthwise")
        self.builder.depthwise(3, pads=1, **self.activation())

    def max_pool(self) -> None:
        size = tuple(min(2, extent) for extent in self.builder.shape[1:])
        self.lines.append(f"maxpool {size}")
        self.builder.maxpool(size)

    def avg_pool(self) -> None:
        size = tuple(min(2, extent) for extent in self.builder.shape[1:])
        self.lines.append(f"avgpool {size}")
        if self.quantlab:
            lo, hi = self.type()
            self.lines.append(f"-> {type_name((lo, hi))}")
            self.builder.avgpool(size, lo=lo, hi=hi)
        else:
            self.builder.avgpool(size)

    def add(self) -> None:
        builder = self.builder
        other = builder.value
        channels = builder.shape[0]
        self.lines.append("residual")
        builder.conv(channels, 3, pads=1, **self.activation())
        if not self.quantlab:
            builder.add(other, divisor=64)
            return
        (lo, hi), ends = self.type(), (builder.bounds[builder.value], builder.bounds[other])
        first, second = (high - low + 1 for low, high in ends)
        self.lines.append(f"-> {type_name((lo, hi))}")
        builder.add(other, out=(1, 0, 1), levels=(first, second, hi - lo + 1), signed=lo < 0)
        self.signs.append((ends[0][0] < 0, ends[1][0] < 0, lo < 0))

    def linear(self) -> None:
        features = self.integer(1, 19)
        self.lines.append(f"linear {features}")
        self.builder.linear(features, gemm=True, bias=self.draw(st.booleans()), **self.activation())


@st.composite
def networks(draw: st.DrawFn, dialect: str) -> Network:
    """Draw one to four layers and perhaps one or two fully connected ones."""
    sketch = Sketch(draw, dialect)
    steps = (Sketch.conv, Sketch.depthwise, Sketch.max_pool, Sketch.avg_pool, Sketch.add)
    for _ in range(draw(st.integers(1, 4))):
        draw(st.sampled_from(steps))(sketch)
    for _ in range(draw(st.integers(0, 2))):
        sketch.linear()
    return Network(sketch.builder, tuple(sketch.signs), " ".join(sketch.lines))


def hwc(values: np.ndarray) -> np.ndarray:
    """Flatten (C, H, W) or (F,) in HWC order."""
    return np.moveaxis(values, 0, -1).reshape(-1).astype(np.int64)


def write_golden(network: Network, path: Path) -> Path:
    """Evaluate the network for a random input with both ends of its range."""
    builder = network.builder
    lo, hi = builder.bounds[builder.input]
    rng = np.random.default_rng(0)
    image = rng.integers(lo, hi, builder.shapes[builder.input], endpoint=True)
    image.flat[0], image.flat[-1] = lo, hi
    values = evaluate(network.evaluated(), image, builder.layer_values)
    arrays = {f"layer_{n:02d}": hwc(values[v]) for n, v in enumerate(builder.layer_values)}
    np.savez(path, input=hwc(image), **arrays)
    return path


def compiled(
    network: Network,
    dialect: str,
    kernels: str,
    budgets: Mapping[int, int],
    folder: Path,
    plugins: Plugins,
) -> CompileResult:
    """Compile with the budgets, or with the least that the errors say is needed."""
    lo, hi = network.builder.bounds[network.builder.input]
    onnx_file = network.builder.save(folder / "net.onnx")
    golden = write_golden(network, folder / "golden.npz")
    given_bytes = dict(budgets)
    while True:
        options = CompileOptions(
            onnx_file,
            "gap8",
            dialect,
            folder / "app",
            golden=(golden,),
            input_bits=(hi - lo).bit_length(),
            input_signed=lo < 0,
            budgets=given_bytes,
            settings={"kernels": kernels},
        )
        try:
            return compile_network(options, plugins)
        except DoesNotFit as error:
            level = 1 if " L1" in error.message else 2
            assert error.needed_bytes is not None, error.message
            assert error.needed_bytes > given_bytes[level], error.message
            given_bytes[level] = error.needed_bytes


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def check(dialect: str, examples: int, plugins: Plugins) -> None:
    kernels = st.sampled_from(["portable", "portable", "dory"])
    budgets = st.fixed_dictionaries(
        {1: st.sampled_from([64, 400, 2000, 16384]), 2: st.sampled_from([256, 1500, 8000, 65536])}
    )

    @settings(common, max_examples=examples)
    @given(networks(dialect), kernels, budgets, st.sampled_from(DMA_MODES), st.integers(1, 99))
    def property_(
        network: Network, kernels: str, budgets: dict[int, int], mode: str, seed: int
    ) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            result = compiled(network, dialect, kernels, budgets, folder, plugins)
            assert result.golden_exact
            if kernels == "portable":
                lo, hi = network.builder.bounds[network.builder.input]
                tensor = result.plan.inputs[0].tensor
                assert tensor.bits == (hi - lo).bit_length()
                row = (tensor.channels * tensor.bits + 7) // 8
                size = (folder / "app" / "vectors" / "input.bin").stat().st_size
                assert size == tensor.height * tensor.width * row
            assert_exact(folder / "app", plugins=plugins, dma=(mode,), seed=seed)

    property_()


@pytest.mark.sample(2)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_random_precisions_are_exact(dialect: str, plugins: Plugins) -> None:
    check(dialect, 4, plugins)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_many_random_precisions_are_exact(dialect: str, plugins: Plugins) -> None:
    check(dialect, 60, plugins)


@pytest.mark.parametrize("rows", [2, 8])
def test_cores_without_a_channel_wait_for_nothing(
    rows: int, tmp_path: Path, plugins: Plugins
) -> None:
    """Eight cores copy four channels of a tile."""
    builder = NemoBuilder((12, rows, 5), seed=1, input_lo=-128, input_hi=127)
    builder.depthwise(3, pads=1, lo=0, hi=15)
    network = Network(builder, (), "")
    result = compiled(network, "nemo", "dory", {1: 400, 2: 65536}, tmp_path, plugins)
    assert result.golden_exact
    assert result.plan.steps[0].inputs[0].form == "channels"
    assert_exact(tmp_path / "app", plugins=plugins)
