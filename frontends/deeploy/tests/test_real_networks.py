"""Networks of Deeploy's own tests: every layer equals its golden, every element."""

from pathlib import Path

import pytest
from dory_deeploy.dialect import parse

from dory_core.importing import FrontendOptions
from dory_core.testing import compare_golden, golden_input, read_golden, reference
from tests.nets import onnx_names, onnx_net, onnx_params


@pytest.mark.parametrize("name", onnx_params("deeploy_"))
def test_every_layer_equals_its_golden(name: str, tmp_path: Path) -> None:
    net = onnx_net(name)
    graph = parse(net.path, FrontendOptions())
    golden = read_golden(net.golden_of_layers(graph, tmp_path / "golden.npz"))
    values = reference.run(graph, {graph.inputs[0]: golden_input(graph, golden)})
    assert [layer for layer in compare_golden(graph, golden, values) if not layer.exact] == []
    assert graph.reference == "deeploy"


def test_all_networks_of_the_collection_are_there() -> None:
    if onnx_names(""):
        assert len(onnx_names("deeploy_")) == 2


def test_operands_of_residuals_share_no_work(tmp_path: Path) -> None:
    graph = parse(onnx_net("deeploy_ImageClassification").path, FrontendOptions())
    kinds = [op.kind for op in graph.ops]
    assert (kinds.count("Conv"), kinds.count("Add"), len(kinds)) == (9, 3, 14)
    assert all(len(op.requants) == 1 for op in graph.ops if op.kind in ("Conv", "Linear"))
