"""A plugin's own kind of layer: compiled, built, run and compared like those of the core."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dory_core.api import Graph, NotSupported, hookimpl, ops
from dory_core.driver.application import read_graph, run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.errors import PluginError, UsageError
from dory_core.importing import Array
from dory_core.ir.parse import parse_graph
from dory_core.ir.reference import run_layer
from dory_core.ir.text import graph_text
from dory_core.kernels import portable_kernels
from dory_core.passes.constant_channels import remove_constant_channels
from dory_core.passes.offsets import choose_offsets
from dory_core.plugins.manager import Plugins
from dory_core.testing.draws import Draws, kernels_of_target, names_of
from dory_core.testing.graphs import I8, GraphBuilder
from dory_core.testing.kernel_cases import make_case, values_of
from dory_core.testing.kernels import HostLibrary
from dory_core.testing.kind_cases import example_layers
from dory_core.testing.random_layers import LayerSpace, RandomLayers
from tests.plugins.operators import plugin
from tests.plugins.operators.plugin import Distance, DistanceKernel
from tests.toy import frontend
from tests.toy.chip import NAME, ToyChip

CENTRE = Array(np.arange(16) * 7 - 60)


def network() -> Graph:
    """A Conv, distances from a point, and a kernel of the core after them."""
    b = GraphBuilder((6, 20, 18), values=I8, seed=4, name="distances")
    b.conv(16, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)), output=I8)
    far = b.layer(Distance, b.last, centre=CENTRE)
    pooled = b.layer(ops.MaxPool, far, window=ops.Window(kernel=(2, 2), strides=(2, 2)))
    return b.graph((pooled, far))


def plugins(graph: Graph | None = None) -> Plugins:
    source: Any = frontend if graph is None else frontend.reading(graph)
    return Plugins.from_objects(toy=ToyChip(), source=source, distance=plugin)


def test_an_application_with_the_operator_is_exact(tmp_path: Path) -> None:
    source, loaded = tmp_path / "net.txt", plugins(network())
    source.write_text("a file", encoding="utf-8")
    options = CompileOptions(
        source, NAME, "built", output=tmp_path / "app", budgets={1: 4000}, settings={"cores": "1"}
    )
    compiled = compile_network(options, loaded)
    [step] = [step for step in compiled.plan.steps if step.kernel.name == "dory_distance"]
    assert step.schedule.count > 1
    result = run_application(tmp_path / "app", plugins=loaded)
    assert result.exact and all(len(run.layers) == 3 for run in result.runs)
    graph = read_graph(tmp_path / "app", loaded.operators())
    assert graph == compiled.graph and graph.ops[1].kind == "Distance"


def test_the_text_of_a_graph_has_the_fields_of_the_operator() -> None:
    text = """\
network distances
input input: i8 (3, 2, 2) [-128, 127]
layer_00 = Distance(input) coarse 3 from 2 to 90 -> i32 (1, 2, 2) [0, 270]  # layer_00
    centre (3) = 1 -2 3
    acc [0, 270]
output layer_00
"""
    graph = parse_graph(text, [Distance])
    assert graph.ops[0] == Distance(
        index=0,
        name="",
        inputs=("input",),
        output="layer_00",
        centre=Array([1, -2, 3]),
        coarse=3,
        limits=(2, 90),
    )
    assert graph_text(graph, constants=True) == text
    with pytest.raises(ValueError, match="line 3: Distance is no kind of layer"):
        parse_graph(text)


def test_an_application_is_read_with_the_plugin_alone(tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    text = graph_text(network(), constants=True)
    (tmp_path / "vectors" / "graph.txt").write_text(text, encoding="utf-8")
    assert read_graph(tmp_path, plugins().operators()) == network()
    with pytest.raises(UsageError, match="Distance is no kind of layer"):
        read_graph(tmp_path)


def test_random_layers_and_examples_run_the_kernel() -> None:
    kernel, draw = DistanceKernel(), RandomLayers(LayerSpace(), 3, [Distance])
    drawn = [draw.layer("distance") for _ in range(60)]
    examples = [build().layer(0) for _, build in example_layers([Distance])]
    taken = [layer for layer in (*drawn, *examples) if kernel.accepts(layer) is None]
    assert 3 < len(taken) < len(drawn)
    HostLibrary([make_case(kernel, layer, draw.numbers) for layer in taken]).check()


def test_the_kit_draws_layers_of_the_operator() -> None:
    operators = plugins().operators()
    candidates = kernels_of_target(NAME, plugins=plugins())
    assert "dory_distance" in names_of(candidates, operators)
    cases = Draws(candidates, "dory_distance", operators).cases(2, 10)
    assert len(cases) > 5 and {case.layer.op.kind for case in cases} == {"Distance"}
    HostLibrary(cases).check()


def test_values_of_random_layers_stay_within_what_is_proven() -> None:
    draw = RandomLayers(LayerSpace(), 8, [Distance])
    for layer in (draw.layer("distance") for _ in range(40)):
        found = run_layer(layer, (values_of(layer.inputs[0], draw.numbers),))
        assert layer.output.lo <= found.min() and found.max() <= layer.output.hi


def test_passes_leave_an_operator_that_says_nothing_about_them() -> None:
    """Its inputs keep their channels and offsets, whatever the layers about it could do."""
    graph = network()
    kept = remove_constant_channels(graph, 4)
    assert kept.ops[1] is graph.ops[1]
    assert choose_offsets(graph, lambda layer: portable_kernels(1)) is graph


def test_a_layer_that_does_not_fit_is_refused_by_name() -> None:
    b = GraphBuilder((6, 4, 4), values=I8)
    with pytest.raises(NotSupported, match=r"Distance 'Distance_0': a point of shape \(16,\)"):
        b.graph((b.layer(Distance, "input", centre=CENTRE),))


def test_other_kernels_say_that_they_do_not_compute_it() -> None:
    layer = network().layer(1)
    for kernel in portable_kernels(1):
        rejection = kernel.accepts(layer)
        assert rejection is not None, kernel.name


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Array([1]), "returned Array from dory_operators, not a class that derives from Operator"),
        (Array, "returned Array from dory_operators, not a class that derives from Operator"),
        (ops.Operator, "returned Operator .*, which has no accumulator, compute, output_shape"),
    ],
)
def test_what_is_no_operator_is_an_error_of_its_plugin(answer: Any, reason: str) -> None:
    broken = SimpleNamespace(dory_operators=hookimpl(named("dory_operators", answer)))
    with pytest.raises(PluginError, match=f"plugin broken {reason}"):
        Plugins.from_objects(broken=broken).operators()


def test_a_name_that_is_taken_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    conv = type("Conv", (Distance,), {})
    others = [Distance, conv]
    second = SimpleNamespace(dory_operators=hookimpl(named("dory_operators", *others)))
    loaded = Plugins.from_objects(distance=plugin, second=second)
    assert loaded.operators() == (Distance,)
    assert "operator 'Distance' is provided by both distance and second" in caplog.text


def named(name: str, *answers: Any) -> Any:
    """Return a function of a name that returns a list of answers."""

    def hook() -> list[Any]:
        return list(answers)

    hook.__name__ = name
    return hook
