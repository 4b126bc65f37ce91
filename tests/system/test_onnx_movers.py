"""Concat, Upsample, Resize and Relu between integer layers are exact, or refused with a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_deeploy.testing import DeeployBuilder
from dory_nemo.testing import NemoBuilder
from dory_onnx.testing import write_golden
from dory_quantlab.testing import QuantlabBuilder

from dory_core.api import NotSupported, ops
from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.importing import FrontendOptions
from dory_core.tools import load_plugins

SIZE = (4, 6, 5)
Make = Callable[[NemoBuilder], None]


def joined(b: NemoBuilder) -> None:
    first = b.conv(3, 3, pads=1).value
    second = b.conv(5, 3, pads=1).value
    b.node("Concat", first, b.input, second, axis=1)
    b.shapes[b.value] = (12, *SIZE[1:])
    b.end_layer().conv(6, 3, pads=1)


def upsampled(b: NemoBuilder) -> None:
    b.conv(3, 3, pads=1)
    b.node("Upsample", b.value, b.constant([1, 1, 2, 3]), mode="nearest")
    b.shapes[b.value] = (3, 12, 15)
    b.end_layer().conv(4, 3, pads=1)


def resized(b: NemoBuilder, **attributes: str) -> None:
    b.conv(3, 3, pads=1)
    attributes = {"mode": "nearest", **attributes}
    b.node("Resize", b.value, b.constant([]), b.constant([1, 1, 3, 2]), **attributes)
    b.shapes[b.value] = (3, 18, 10)
    b.end_layer().conv(4, 3, pads=1)


def rectified(b: NemoBuilder) -> None:
    b.conv(3, 3, pads=1)
    b.layer_values.pop()
    b.node("Relu", b.value)
    b.end_layer().linear(7)


def reads(make: Make, kind: type[NemoBuilder], path: Path, **options: int) -> list[str]:
    builder = kind(SIZE, seed=3, **options)
    make(builder)
    name = {NemoBuilder: "nemo", QuantlabBuilder: "quantlab", DeeployBuilder: "deeploy"}[kind]
    graph = load_plugins().frontend(name).parse(builder.save(path), FrontendOptions())
    return [type(op).__name__ for op in graph.ops]


@pytest.mark.parametrize("kind", [NemoBuilder, QuantlabBuilder, DeeployBuilder])
@pytest.mark.parametrize(
    ("make", "opset", "layer"),
    [(joined, 9, ops.Concat), (upsampled, 9, ops.Resize), (resized, 11, ops.Resize)],
)
def test_what_moves_integers_is_a_layer(
    kind: type[NemoBuilder], make: Make, opset: int, layer: type[ops.Op], tmp_path: Path
) -> None:
    assert layer.__name__ in reads(make, kind, tmp_path / "net.onnx", opset=opset)


@pytest.mark.parametrize("kind", [NemoBuilder, QuantlabBuilder, DeeployBuilder])
def test_relu_is_a_bound_of_the_layer_before(kind: type[NemoBuilder], tmp_path: Path) -> None:
    assert reads(rectified, kind, tmp_path / "net.onnx") == ["Conv", "Linear"]


@pytest.mark.parametrize("make", [joined, upsampled, rectified])
def test_generated_code_computes_what_onnx_says(make: Make, tmp_path: Path) -> None:
    builder = NemoBuilder(SIZE, seed=5, input_lo=-128, input_hi=127)
    make(builder)
    options = CompileOptions(
        builder.save(tmp_path / "net.onnx"),
        "gap8",
        "nemo",
        tmp_path / "app",
        golden=(write_golden(builder, tmp_path / "golden.npz"),),
        input_signed=True,
    )
    plugins = load_plugins()
    compile_network(options, plugins)
    assert run_application(tmp_path / "app", plugins=plugins, runner="host").exact


@pytest.mark.parametrize(
    ("attributes", "reason", "way"),
    [
        ({"mode": "linear"}, "values between integers", "nearest"),
        (
            {"coordinate_transformation_mode": "align_corners"},
            "'align_corners' with nearest_mode 'round_prefer_floor' do not repeat",
            "'asymmetric'",
        ),
    ],
)
def test_other_ways_of_resizing_are_refused(
    attributes: dict[str, str], reason: str, way: str, tmp_path: Path
) -> None:
    def make(b: NemoBuilder) -> None:
        resized(b, **attributes)

    with pytest.raises(NotSupported, match=reason) as caught:
        reads(make, NemoBuilder, tmp_path / "net.onnx", opset=11)
    assert way in str(caught.value.hint)


def test_other_factors_are_refused(tmp_path: Path) -> None:
    def half(b: NemoBuilder) -> None:
        b.conv(3, 3, pads=1)
        b.node("Upsample", b.value, b.constant(np.array([1, 1, 1.5, 1])), mode="nearest")
        b.shapes[b.value] = (3, 9, 5)
        b.conv(3, 3, pads=1)

    with pytest.raises(NotSupported, match=r"by 1, 1, 1.5, 1: only whole factors"):
        reads(half, NemoBuilder, tmp_path / "net.onnx")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, 0x7F800001])
def test_constants_that_are_no_numbers_are_refused_without_warnings(
    value: float, tmp_path: Path
) -> None:
    """A signalling NaN, as damaged files hold, makes numpy warn in rint."""
    builder = NemoBuilder(SIZE, seed=1)
    builder.conv(3, 3, pads=1).linear(4)
    model = builder.model()
    weights = next(one for one in model.graph.initializer if len(one.dims) == 4)
    made = np.uint32(value) if isinstance(value, int) else np.float32(value)
    weights.raw_data = made.tobytes() + weights.raw_data[4:]
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(NotSupported, match=r"Conv '.*'"):
        load_plugins().frontend("nemo").parse(tmp_path / "net.onnx", FrontendOptions())
