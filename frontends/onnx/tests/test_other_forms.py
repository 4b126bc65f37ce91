"""Files that are not for the frontend that was chosen: the refusal says who reads them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_onnx import Dialect, import_onnx
from dory_onnx.testing import OnnxBuilder

from dory_core.api import NotSupported
from dory_core.importing import FrontendOptions


def refusal(builder: OnnxBuilder, folder: Path) -> NotSupported:
    with pytest.raises(NotSupported) as caught:
        import_onnx(builder.save(folder / "net.onnx"), FrontendOptions(), Dialect())
    return caught.value


@pytest.mark.parametrize("matrix", [False, True])
def test_a_float_network_is_not_quantised(matrix: bool, tmp_path: Path) -> None:
    builder = OnnxBuilder((3, 4, 4))
    builder.node("BatchNormalization", builder.value)
    weights = np.random.default_rng(0).standard_normal((4, 3) if matrix else (4, 3, 1, 1))
    builder.node("Gemm" if matrix else "Conv", builder.value, builder.constant(weights))
    error = refusal(builder, tmp_path)
    assert error.message.startswith("net.onnx: the network is not quantised: weight tensor 'const")
    assert "`dory quantize` of dory-qdq" in error.hint


@pytest.mark.parametrize(
    ("operator", "frontend"),
    [
        ("QuantizeLinear", "qdq"),
        ("DequantizeLinear", "qdq"),
        ("QLinearConv", "qdq"),
        ("RequantShift", "deeploy"),
    ],
)
def test_operators_of_another_form_name_its_frontend(
    operator: str, frontend: str, tmp_path: Path
) -> None:
    builder = OnnxBuilder((3, 4, 4))
    builder.node(operator, builder.value, builder.constant(0.5), builder.constant(0, np.uint8))
    builder.node("Conv", builder.value, builder.constant(np.ones((4, 3, 1, 1))))
    assert f"dory-{frontend} reads it (--frontend {frontend})" in refusal(builder, tmp_path).hint


def test_an_open_batch_is_not_the_first_thing_to_say(tmp_path: Path) -> None:
    builder = OnnxBuilder((3, 4, 4))
    builder.node("Conv", builder.value, builder.constant(np.full((4, 3, 1, 1), 0.3)))
    onnx.save(builder.model(("batch", 3, 4, 4)), str(tmp_path / "net.onnx"))
    with pytest.raises(NotSupported, match="the network is not quantised"):
        import_onnx(tmp_path / "net.onnx", FrontendOptions(), Dialect())


def test_a_single_fraction_is_an_error_of_its_weight(tmp_path: Path) -> None:
    weights = np.ones((4, 3, 1, 1))
    weights[1, 2] = 0.5
    builder = OnnxBuilder((3, 4, 4))
    builder.node("Conv", builder.value, builder.constant(weights))
    assert (
        "holds 0.5 at [1, 2, 0, 0], which is not an integer" in refusal(builder, tmp_path).message
    )
