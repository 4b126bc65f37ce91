"""Every file is recognised by one frontend, and every other one names it in its refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dory_core.errors import NotSupported
from dory_core.pipeline import Source, parse
from dory_core.plugins import load_plugins
from tests.cli.command_line import ROOT


def nemo(folder: Path) -> Path:
    from dory_nemo.testing import NemoBuilder

    return NemoBuilder((3, 6, 6)).conv(4, 1).save(folder / "nemo.onnx")


def plinio(folder: Path) -> Path:
    from dory_nemo.testing import PlinioBuilder

    return PlinioBuilder((3, 6, 6)).conv(4, 1).save(folder / "plinio.onnx")


def quantlab(folder: Path) -> Path:
    from dory_quantlab.testing import QuantlabBuilder

    return QuantlabBuilder((3, 6, 6)).conv(4, 1).save(folder / "quantlab.onnx")


def deeploy(folder: Path) -> Path:
    from dory_deeploy.testing import DeeployBuilder

    return DeeployBuilder((3, 6, 6)).conv(4, 1).save(folder / "deeploy.onnx")


def qdq(folder: Path) -> Path:
    """Write QuantizeLinear, DequantizeLinear, Relu and both again."""
    stored = [
        numpy_helper.from_array(np.array(0.1, np.float32), "scale"),
        numpy_helper.from_array(np.array(7, np.uint8), "zero"),
    ]
    chain = ["x", "a", "b", "c", "d", "y"]
    operators = ["QuantizeLinear", "DequantizeLinear", "Relu", "QuantizeLinear", "DequantizeLinear"]
    nodes = [
        helper.make_node(op, [source, *(["scale", "zero"] if op != "Relu" else [])], [result], op)
        for op, source, result in zip(operators, chain, chain[1:], strict=False)
    ]
    value = helper.make_tensor_value_info
    ends = [[value(name, TensorProto.FLOAT, [1, 4, 3, 3])] for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", *ends, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "qdq.onnx"))
    return folder / "qdq.onnx"


def tflite(folder: Path) -> Path:
    return ROOT / "examples" / "tones" / "net.tflite"


FILES = {
    nemo: "nemo",
    plinio: "nemo",
    quantlab: "quantlab",
    deeploy: "deeploy",
    qdq: "qdq",
    tflite: "tflite",
}
NAMES = sorted(set(FILES.values()))


@pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__)
def test_the_frontend_of_a_file_is_found_and_named(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    plugins, wanted = load_plugins(), FILES[write]
    installed = [frontend.name for frontend in plugins.frontends()]
    if not set(NAMES) <= set(installed):
        pytest.skip("not every frontend is installed")
    path = write(tmp_path)
    assert plugins.frontend_for(path).name == wanted
    parse(Source(path, wanted), plugins)
    refusals = 0
    for other in set(NAMES) - {wanted}:
        try:
            parse(Source(path, other), plugins)
        except NotSupported as error:
            assert error.hint == f"it is a file for --frontend {wanted}, not for {other}"
            refusals += 1
    assert refusals >= 2, "the dialects of plain arithmetic share files, others do not"
