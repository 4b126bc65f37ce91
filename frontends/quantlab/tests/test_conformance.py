"""The conformance kit on the frontend of QuantLab."""

from __future__ import annotations

from functools import partial
from typing import Any

from dory_onnx import Dialect, read_operators
from dory_onnx.testing import evaluate
from dory_quantlab.testing import QuantlabBuilder

from dory_core.testing import FrontendConformance, NetworkFile
from frontends.quantlab.tests.standard_onnx import standard

#: Operators of all dialects, which tests of dory-onnx compare.
SHARED = frozenset(one.name for one in read_operators(Dialect()))


def reference(builder: QuantlabBuilder, inputs: Any) -> Any:
    [image] = inputs.values()
    shaped = image.reshape(builder.shapes[builder.input])
    return evaluate(standard(builder.model()), shaped, builder.layer_values)


def network(name: str, builder: QuantlabBuilder) -> NetworkFile:
    model = builder.model()
    operators = tuple(
        {node.op_type: None for node in model.graph.node if node.op_type != "Constant"}
    )
    return NetworkFile(
        name, "net.onnx", model.SerializeToString, partial(reference, builder), operators
    )


def plain() -> QuantlabBuilder:
    builder = QuantlabBuilder((3, 12, 10)).conv(8, 3, stride=2).conv(8, 3, pads=1).maxpool(2)
    return builder.avgpool().linear(5)


class TestQuantlab(FrontendConformance):
    """Networks of the builder, compared with the evaluator of onnx."""

    frontend = "quantlab"
    networks = (network("plain", plain()),)
    elsewhere = SHARED
