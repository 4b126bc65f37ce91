"""The dialect ${n.name} is read to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from dory_onnx.testing import OnnxBuilder
from ${n.package}.dialect import parse

from dory_core.importing import FrontendOptions
from dory_core.testing import run_reference


def test_requantisation_is_floor_of_the_integers(tmp_path: Path) -> None:
    net = OnnxBuilder((2, 1, 2))
    net.node("Conv", net.value, net.constant([[[[3]], [[-2]]]]), kernel_shape=[1, 1])
    net.shapes[net.value] = (1, 1, 2)
    net.node("Mul", net.value, net.constant(5))
    net.node("Add", net.value, net.constant(7))
    net.node("Div", net.value, net.constant(8))
    net.node("Floor", net.value)
    net.clip(0, 255)
    graph = parse(net.save(tmp_path / "net.onnx"), FrontendOptions())
    image = np.array([[[10, 200]], [[7, 1]]])
    [layer] = graph.layers
    result = run_reference(graph, {"input": image})[layer.output.name]
    expected = [(5 * (3 * 10 - 2 * 7) + 7) // 8, 255]
    assert result.reshape(-1).tolist() == expected
