"""Softmax: saturation, ties, rows of one element and old versions of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_qdq.importer import parse
from dory_qdq.testing import OPERATORS, Builder
from onnx import TensorProto, helper, numpy_helper

from dory_core.api import ops
from dory_core.importing import FrontendOptions
from frontends.qdq.tests.test_against_onnxruntime import difference


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_softmax_saturates_as_onnxruntime_does(channels: int, tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(channels))
    last = OPERATORS["softmax"](builder, builder.input((1, channels)))
    model = builder.model([(last.stored, last.shape)])
    assert difference(model, tmp_path, 3) == ""


@pytest.mark.sample(5)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("above", [0, 10, 128, 255])
@pytest.mark.parametrize("scale", [1 / 255, 1 / 256, 1 / 200, 1 / 128, 0.003, 0.1, 1.0, 1.5])
def test_softmax_over_one_element_is_the_whole_rounded_down(
    scale: float, above: int, signed: bool, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(1), signed=signed)
    x = builder.input((1, 1, 1, 3))
    out = builder.node("Softmax", [x.name], axis=1)
    last = builder.quantised(out, x.shape, scale, above - 128 * signed)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("signed", [False, True])
def test_softmax_before_opset_13_takes_all_dimensions_behind_its_axis(
    signed: bool, axis: int | None, opset: int, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(1), signed=signed)
    x = builder.input((1, 3, 1 if axis == 0 else 2, 4))
    out = builder.node("Softmax", [x.name], **({} if axis is None else {"axis": axis}))
    last = builder.quantised(out, x.shape, 1 / 200)
    assert difference(builder.model([(last.stored, last.shape)], opset), tmp_path) == ""


@pytest.mark.parametrize("size", [3, 10, 13, 44, 64])
def test_shares_of_a_softmax_that_are_ties(size: int, tmp_path: Path) -> None:
    """n largest elements: the share of each is a tie now and then, and is rounded once."""
    import onnxruntime as ort

    rows = np.where(np.arange(size) < np.arange(1, size + 1)[:, None], 255, 0).astype(np.uint8)
    for scale in (1 / 255, 1 / 254.5, 1 / 77.3, 1 / 51.9, 1 / 35.7, 1 / 29.7):
        constants = {"xs": 10.0, "ys": scale}
        stored = [numpy_helper.from_array(np.float32(v), k) for k, v in constants.items()]
        stored.append(numpy_helper.from_array(np.uint8(0), "z"))
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["q"]),
            helper.make_node(
                "QLinearSoftmax",
                ["q", "xs", "z", "ys", "z"],
                ["s"],
                domain="com.microsoft",
                axis=-1,
                opset=13,
            ),
            helper.make_node("DequantizeLinear", ["s", "ys", "z"], ["y"]),
        ]
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, size, size]) for n in "xy"
        ]
        graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], stored)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        (tmp_path / "net.onnx").write_bytes(data)
        [op] = parse(tmp_path / "net.onnx", FrontendOptions()).ops
        assert isinstance(op, ops.Softmax)
        proto = onnx.load_from_string(data)
        proto.graph.output.append(helper.make_empty_tensor_value_info("s"))
        session = ort.InferenceSession(proto.SerializeToString())
        x = rows.astype(np.float32).reshape(1, 1, size, size) * 10
        expected = session.run(["s"], {"x": x})[0].reshape(size, size)
        found = op.compute([rows.T.reshape(size, 1, size).astype(np.int64)])
        assert np.array_equal(np.minimum(found.reshape(size, size).T, 255), expected)
