"""The dialect ${n.name} is read to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from dory_onnx import Dialect, read_operators
from dory_onnx.testing import OnnxBuilder

from dory_core.testing import FrontendConformance, NetworkFile


def built() -> OnnxBuilder:
    """Return a network as ${n.name} exports it: floor((5 * sum + 7) / 8), clipped."""
    net = OnnxBuilder((2, 1, 2))
    net.node("Conv", net.value, net.constant([[[[3]], [[-2]]]]), kernel_shape=[1, 1])
    net.shapes[net.value] = (1, 1, 2)
    net.node("Mul", net.value, net.constant(5))
    net.node("Add", net.value, net.constant(7))
    net.node("Div", net.value, net.constant(8))
    net.node("Floor", net.value)
    net.clip(0, 255)
    return net


def content() -> bytes:
    """Return the file."""
    return built().model().SerializeToString()


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ${n.name} computes, by the names of the file. Call the exporter itself here."""
    [image] = inputs.values()
    sums = 3 * image[0] - 2 * image[1]
    return {built().value: np.clip((5 * sums + 7) // 8, 0, 255)}


class Test${n.title}(FrontendConformance):
    """Files against the reference, and damaged files."""

    frontend = "${n.name}"
    networks = (
        NetworkFile(
            "conv", "net.onnx", content, reference, ("Conv", "Mul", "Add", "Div", "Floor", "Clip")
        ),
    )
    # Take out what ${n.name} means in its own way, and add a network with it.
    elsewhere = frozenset(one.name for one in read_operators(Dialect()))
