"""Searched inputs reach ends of ranges that a random input does not, and show wrong clips."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dory_core.driver.application import run_application
from dory_core.golden.extremes import find_extremes
from dory_core.ir import Graph, Window
from dory_core.ir.reference import random_inputs, run
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, three_levels

AROUND = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
CLIPS = "INT64_C(0), INT64_C(255)"
WRONG = (CLIPS.replace("255", "254"), CLIPS.replace("C(0)", "C(1)"))


def deep() -> Graph:
    """One random vector keeps away from the ends of most layers."""
    builder = GraphBuilder((6, 9, 9), (0, 255), seed=5)
    for _ in range(2):
        builder.conv(6, AROUND, weights=(-8, 7))
    return builder.graph()


def test_searched_inputs_reach_more_ends() -> None:
    graph = deep()
    known = [run(graph, random_inputs(graph))]
    found = find_extremes(graph, 48, known=known)
    assert found.reached
    again = find_extremes(graph, 48, known=known)
    assert (again.reached, again.missed) == (found.reached, found.missed)
    assert len(again.inputs) == len(found.inputs)
    runs = [run(graph, inputs) for inputs in found.inputs]
    for end in found.reached:
        name = graph.layers[end.layer].output.name
        assert any((255 if end.highest else 0) in tensors[name] for tensors in runs), end


def test_what_the_vectors_reach_is_not_searched() -> None:
    graph = deep()
    dark = {name: np.zeros(graph.tensors[name].shape, np.int64) for name in graph.inputs}
    everything = find_extremes(graph, 48)
    known = find_extremes(graph, 48, known=[run(graph, i) for i in everything.inputs])
    assert not known.reached & everything.reached
    assert find_extremes(graph, 0, known=[run(graph, dark)]).inputs == ()


def test_wrong_clip_is_found(tmp_path: Path) -> None:
    """A clip one too low or too high, which the embedded vector does not show."""
    plugins = Plugins.from_objects(toy=three_levels())
    build_app(deep(), NAME, tmp_path / "app", plugins=plugins)
    assert run_application(tmp_path / "app", plugins=plugins, dma=None).exact
    unseen = 0
    for layer in range(2):
        source = tmp_path / "app" / "src" / f"dory_layer_{layer:02d}.c"
        text = source.read_text()
        assert text.count(CLIPS) == 1
        for new in WRONG:
            source.write_text(text.replace(CLIPS, new))
            embedded = run_application(tmp_path / "app", plugins=plugins, dma="early")
            result = run_application(tmp_path / "app", plugins=plugins, dma=None)
            source.write_text(text)
            assert result.first_difference is not None, (layer, new)
            assert result.first_difference[1].index == layer
            if embedded.exact:
                unseen += 1
                assert result.first_difference[0].input.startswith("searched input ")
    assert unseen
