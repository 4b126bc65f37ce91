"""Every file is recognised by one frontend, and every other one names it in its refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dory_nemo
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions
from dory_core.driver.pipeline import Source, parse
from dory_core.errors import NotSupported
from dory_core.plugins.manager import Plugins, load_plugins
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


def floats(folder: Path) -> Path:
    """Write a convolution whose weights are fractions, and a Clip."""
    weights = np.random.default_rng(1).normal(size=(4, 3, 1, 1)).astype(np.float32)
    stored = [
        numpy_helper.from_array(weights, "weights"),
        numpy_helper.from_array(np.array(0, np.float32), "lo"),
        numpy_helper.from_array(np.array(6, np.float32), "hi"),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "weights"], ["a"], "first"),
        helper.make_node("Clip", ["a", "lo", "hi"], ["y"], "relu6"),
    ]
    value = helper.make_tensor_value_info
    ends = [[value(n, TensorProto.FLOAT, [1, c, 6, 6])] for n, c in (("x", 3), ("y", 4))]
    graph = helper.make_graph(nodes, "net", *ends, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "float.onnx"))
    return folder / "float.onnx"


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


def test_a_float_network_is_not_taken_for_one_of_integers(tmp_path: Path) -> None:
    path, every = floats(tmp_path), load_plugins()
    report = check_network(CompileOptions(path, "", every.frontend_for(path).name), every)
    assert not report.supported
    assert "float.onnx: the network is not quantised: 'weights' of Conv 'first'" in report.reason
    assert "`dory quantize` makes an 8-bit network of it" in report.hint
    without = Plugins.from_objects(nemo=dory_nemo)
    with pytest.raises(NotSupported, match="no frontend recognises this file") as caught:
        without.frontend_for(path)
    assert "the file of a quantised network" in caught.value.hint
    assert without.frontend_for(nemo(tmp_path)).name == "nemo"
