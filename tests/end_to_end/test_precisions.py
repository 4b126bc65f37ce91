"""Activations and weights of 2, 4 and 8 bits, signed or not, in every combination and packed.

Each network of ``dory_core.testing.precisions`` has all pairs of input and output types of one
layer kind, with channel counts that do not fill the last byte of a pixel. L1 is the least with
which every layer has a tile, so that tiles split every axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dory_core.errors import DoesNotFit
from dory_core.ir import Graph, Linear
from dory_core.plan import Plan
from dory_core.plugins import Plugins, load_plugins
from dory_core.reference import random_inputs, run
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import Case
from dory_core.testing.precisions import TYPES, WEIGHTS, precision_cases, type_name
from tests.testing.tiny_chip import TinyChip

CASES = precision_cases(WEIGHTS[:2], TYPES[:1])
UNSIGNED = tuple(values for values in TYPES if values[0] == 0)
MORE_CASES = precision_cases((*WEIGHTS, *UNSIGNED), TYPES)
PORTABLE = {"kernels": "portable"}


def smallest_app(
    graph: Graph,
    target: str,
    directory: Path,
    plugins: Plugins,
    settings: Mapping[str, str] | None = None,
) -> Plan:
    """Build the application with the least L1 that holds a tile of every layer."""
    l1_bytes = 64
    while True:
        try:
            return build_app(
                graph,
                target,
                directory,
                budgets={1: l1_bytes},
                plugins=plugins,
                settings=settings,
            )
        except DoesNotFit as error:
            assert error.needed_bytes is not None and error.needed_bytes > l1_bytes
            l1_bytes = error.needed_bytes


def check_case(
    case: Case,
    target: str,
    directory: Path,
    plugins: Plugins,
    dma: tuple[str, ...],
    settings: Mapping[str, str] | None = None,
) -> None:
    plan = smallest_app(case.build(), target, directory, plugins, settings)
    pairs = {(step.layer.inputs[0].type_name, step.layer.output.type_name) for step in plan.steps}
    assert len(pairs) == len(TYPES) ** 2
    assert {name for pair in pairs for name in pair} == {type_name(values) for values in TYPES}
    largest = [max(sizes) for sizes in zip(*(s.schedule.counts for s in plan.steps), strict=True)]
    c_out, h, w, c_in = (count > 1 for count in largest)
    if "linear" in case.tags:
        assert c_out and c_in
    else:
        assert h and w
    if "conv" in case.tags:
        assert c_out and c_in
    assert_exact(directory, plugins=plugins, dma=dma)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_pairs_of_types_are_exact_in_smallest_tiles(case: Case, tmp_path: Path) -> None:
    check_case(case, "tiny", tmp_path / "app", TinyChip().plugins(), ("random",))


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE_CASES, ids=str)
def test_all_combinations_are_exact_in_all_dma_modes(case: Case, tmp_path: Path) -> None:
    modes = ("early", "late", "random")
    check_case(case, "tiny", tmp_path / "app", TinyChip().plugins(), modes)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE_CASES, ids=str)
def test_all_combinations_are_exact_on_eight_cores(case: Case, tmp_path: Path) -> None:
    modes = ("early", "late", "random")
    check_case(case, "gap8", tmp_path / "app", load_plugins(), modes, PORTABLE)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_networks_of_all_pairs_show_wrong_values(case: Case) -> None:
    """No output is constant, else a wrong input would not be seen behind it."""
    graph = case.build()
    values = run(graph, random_inputs(graph, 0))
    for layer in graph.typed_layers:
        assert len(np.unique(values[layer.output.name])) > 1, layer.layer.name
    if "linear" in case.tags:
        ends = [t for t in graph.typed_layers if t.inputs[0].channels * t.inputs[0].bits % 8]
        assert all(isinstance(layer.layer, Linear) for layer in ends)
        assert len(ends) == 24, "pixels of 2 and 4 bits end inside a byte"
