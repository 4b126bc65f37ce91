"""Interpreters of desktop computers beside the reference: what a layer adds, what was there."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import pytest
from rich.console import Console

from dory_core.cli.tables.desktop import print_desktop
from dory_core.golden.desktop import DesktopReport, Difference, compare_desktop
from dory_core.ir import Graph, Window, reference
from dory_core.plugins.frontend import Desktop, DesktopRun
from dory_core.testing.graphs import GraphBuilder

WRONG = 1  # the layer that the interpreter computes in another way


def three_layers() -> Graph:
    builder = GraphBuilder((4, 6, 6))
    for _ in range(3):
        builder.conv(4, Window(kernel=(1, 1)))
    return builder.graph()


def interpreter(graph: Graph, shown: Mapping[int, bool]) -> Desktop:
    """Return an interpreter that adds 1 to the first element of a layer, 2 in the second run.

    shown: which layers' tensors it shows; all but those that are False.
    """
    calls = []

    def run(inputs: Mapping[str, np.ndarray]) -> list[DesktopRun]:
        calls.append(inputs)
        values = dict(inputs)
        for layer in graph.layers:
            found = reference.run_layer(layer, tuple(values[n] for n in layer.op.inputs)).copy()
            if layer.op.index == WRONG:
                found[0, 0, 0] += len(calls)
            values[layer.op.output] = found
        hidden = {op.output for op in graph.ops if not shown.get(op.index, True)}
        kept = {name: array for name, array in values.items() if name not in hidden}
        return [DesktopRun("plain", kept), DesktopRun("other", {}, "no such operator")]

    return Desktop("lab 1.0", graph, run, lambda name, layer, operands, got: f"{name} adds")


def report(shown: Mapping[int, bool] | None = None) -> DesktopReport:
    return compare_desktop(interpreter(three_layers(), shown or {}), inferences=2)


def test_what_a_layer_adds_itself_is_apart_from_what_came_before() -> None:
    plain, other = report().interpreters
    assert plain.first is not None and plain.first.index == WRONG
    own = [(layer.index, layer.own, layer.reason) for layer in plain.layers]
    assert own[0] == (1, Difference(2 * 4 * 6 * 6, 2, 2), "plain adds")
    assert [reason for _, _, reason in own[1:]] in ([], [""])
    assert all(difference.differ == 0 for _, difference, _ in own[1:])
    assert plain.layers[0].whole == plain.layers[0].own
    assert plain.outputs.differ == (plain.layers[1].whole.differ if own[1:] else 0)
    assert other.refused == "no such operator" and other.layers == ()


def test_a_tensor_that_is_not_shown_is_computed_and_blamed_on_the_next_one() -> None:
    plain, _ = report({WRONG: False}).interpreters
    assert all(layer.index == 2 for layer in plain.layers)


@pytest.mark.parametrize("details", [False, True])
def test_table_names_the_first_operator(details: bool) -> None:
    out = io.StringIO()
    document = report().to_json()
    print_desktop(document, Console(file=out, width=100), details)
    text = out.getvalue()
    first = document["interpreters"][0]["layers"][0]
    assert f"plain, {first['name']}: plain adds" in text
    assert "2/288 by 2" in text
    assert "other: does not run it: no such operator" in text
    assert ("operators that differ" in text) == details
