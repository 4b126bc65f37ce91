"""The conformance kit on the frontend of NEMO."""

from __future__ import annotations

from functools import partial
from typing import Any

from dory_nemo.testing import NemoBuilder
from dory_onnx import Dialect, read_operators
from dory_onnx.testing import evaluate

from dory_core.testing import FrontendConformance, NetworkFile

#: Operators of all dialects, which tests of dory-onnx compare.
SHARED = frozenset(one.name for one in read_operators(Dialect()))


def reference(builder: NemoBuilder, inputs: Any) -> Any:
    [image] = inputs.values()
    shaped = image.reshape(builder.shapes[builder.input])
    return evaluate(builder.model(), shaped, builder.layer_values)


def network(name: str, builder: NemoBuilder) -> NetworkFile:
    model = builder.model()
    operators = tuple(
        {node.op_type: None for node in model.graph.node if node.op_type != "Constant"}
    )
    return NetworkFile(
        name, "net.onnx", model.SerializeToString, partial(reference, builder), operators
    )


def plain() -> NemoBuilder:
    builder = NemoBuilder((3, 12, 10)).pad(1, 1, 0, 0).conv(8, 3, stride=2).maxpool(2)
    return builder.conv(6, 1, bias=True).avgpool().linear(5, activation=False)


def residual() -> NemoBuilder:
    builder = NemoBuilder((4, 6, 6), seed=1).conv(4, 1)
    return builder.conv(4, 3, pads=1).add(builder.layer_values[0]).flatten().linear(3)


class TestNemo(FrontendConformance):
    """Networks of the builder, compared with the evaluator of onnx."""

    frontend = "nemo"
    networks = (network("plain", plain()), network("residual", residual()))
    elsewhere = SHARED
