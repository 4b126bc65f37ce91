"""Outputs that are inputs become copies, which applications compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dory_core.ir import Graph, Reshape, Tensor
from dory_core.ir.parse import parse_graph
from dory_core.ir.ranges import infer_types
from dory_core.ir.reference import random_inputs, run
from dory_core.plugins.frontend import Frontend
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import assert_exact, build_app

BESIDE = """\
network beside
input {name}: u8 (4, 3, 5) [0, 255] scale 0.5 zero 3
layer_00 = MaxPool({name}) 1x1 -> u8 (4, 3, 5) [0, 255]  # pool
form {name}: order CHW source pixels
output {outputs}
"""
INPUT = Tensor("input", 4, 3, 5, -128, 127, 8, True)
ALONE = infer_types("alone", (INPUT,), (), ("input",))


def read(network: str | Graph) -> Graph:
    """Return what a frontend gives whose reader returns this network."""
    graph = parse_graph(network) if isinstance(network, str) else network
    return Frontend("text", "", lambda path, options: graph).parse(Path("net"))


@pytest.mark.parametrize("name", ["input", "layer_01"])
@pytest.mark.parametrize("first", [False, True])
def test_an_output_that_is_an_input_is_a_copy(name: str, first: bool) -> None:
    outputs = f"{name}, layer_00" if first else f"layer_00, {name}"
    graph = read(BESIDE.format(name=name, outputs=outputs))
    copy = graph.outputs[0 if first else 1]
    assert copy not in graph.inputs and isinstance(graph.ops[-1], Reshape)
    assert graph.ops[-1].output == copy
    assert (graph.tensors[copy].scale, graph.tensors[copy].zero_point) == (0.5, 3)
    assert graph.form(copy) == graph.form(name)
    assert any(f"'{copy}' is a copy of the input '{name}'" in note for note in graph.notes)
    values = random_inputs(graph, 1)
    np.testing.assert_array_equal(run(graph, values)[copy], values[name])


@pytest.mark.parametrize(
    "network",
    [ALONE, BESIDE.format(name="input", outputs="input, layer_00")],
    ids=["alone", "beside"],
)
def test_copies_of_inputs_are_exact_in_applications(network: str | Graph, tmp_path: Path) -> None:
    plugins = load_plugins()
    build_app(read(network), "toy", tmp_path / "app", plugins=plugins)
    assert_exact(tmp_path / "app", plugins=plugins)


def test_networks_of_computed_outputs_stay_as_they_are() -> None:
    text = BESIDE.format(name="input", outputs="layer_00")
    assert read(text) == parse_graph(text)
