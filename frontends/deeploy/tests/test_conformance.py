"""The conformance kit on the frontend of Deeploy."""

from __future__ import annotations

from functools import partial
from typing import Any

from dory_deeploy.testing import DeeployBuilder, values_of
from dory_onnx import Dialect, read_operators

from dory_core.testing import FrontendConformance, NetworkFile

#: Operators of all dialects, which tests of dory-onnx compare.
SHARED = frozenset(one.name for one in read_operators(Dialect()))
#: Those that test_rows.py and test_products.py compare.
ROWS = frozenset(
    ("ITAMax", "IntegerMean", "TrueIntegerDiv", "iGELU", "iHardswish", "iLayerNorm", "iRMSNorm")
) | {"iSoftmax"}


def reference(builder: DeeployBuilder, inputs: Any) -> Any:
    [image] = inputs.values()
    shaped = image.reshape(builder.shapes[builder.input])
    return values_of(builder, shaped, builder.layer_values)


def network(name: str, builder: DeeployBuilder) -> NetworkFile:
    model = builder.model()
    operators = tuple({node.op_type: None for node in model.graph.node})
    return NetworkFile(
        name, "net.onnx", model.SerializeToString, partial(reference, builder), operators
    )


def residual() -> DeeployBuilder:
    builder = DeeployBuilder((3, 8, 8)).conv(4, 3, pads=1)
    branch = builder.value
    return builder.conv(4, 1, signed=True).add(branch).maxpool(2).linear(3)


class TestDeeploy(FrontendConformance):
    """Networks of the builder, compared with the evaluator of onnx."""

    frontend = "deeploy"
    networks = (network("residual", residual()),)
    elsewhere = SHARED | ROWS
