"""Files of PLiNIO's exporter: annotated like QuantLab's, but with plain residual Adds."""

from pathlib import Path

import numpy as np
import pytest
from dory_onnx.testing import evaluate
from dory_quantlab.dialect import parse
from dory_quantlab.testing import QuantlabBuilder

from dory_core.api import NotSupported, ops
from dory_core.importing import FrontendOptions
from dory_core.testing import random_inputs
from dory_core.testing import run_reference as run
from frontends.quantlab.tests.standard_onnx import standard


def residual(folder: Path, *, clipped: bool) -> tuple[QuantlabBuilder, Path]:
    """Two convolutions and their plain sum; clipped: Mul(1) Div(1) Floor Clip behind it."""
    builder = QuantlabBuilder((3, 6, 6), seed=2).conv(8, 1)
    branch = builder.value
    builder.conv(8, 3, pads=1)
    builder.node("Add", builder.value, branch, add_bits=32)
    if clipped:
        builder.node("Mul", builder.value, builder.constant(1), mult_bits=32)
        builder.node("Div", builder.value, builder.constant(1))
        builder.node("Floor", builder.value)
        builder.clip(0, 255)
    builder.end_layer().conv(4, 1)
    return builder, builder.save(folder / "net.onnx")


def test_a_plain_add_is_read_as_it_stands(tmp_path: Path) -> None:
    builder, path = residual(tmp_path, clipped=True)
    graph = parse(path, FrontendOptions())
    assert isinstance(graph.ops[2], ops.Add) and graph.tensors["layer_02"].hi == 255
    values = random_inputs(graph, 5)
    image = values["input"].reshape(builder.shapes[builder.input])
    expected = evaluate(standard(builder.model()), image, builder.layer_values)
    got = run(graph, values)
    for layer, value in zip(graph.ops, builder.layer_values, strict=True):
        shape = graph.tensors[layer.output].shape
        np.testing.assert_array_equal(got[layer.output], expected[value].reshape(shape), value)
    assert got["layer_02"].max() == 255, "the clip binds"


def test_without_a_clip_the_attributes_are_missed(tmp_path: Path) -> None:
    _, path = residual(tmp_path, clipped=False)
    with pytest.raises(NotSupported, match=r"Add '.*': attribute in1_rq is missing"):
        parse(path, FrontendOptions())
