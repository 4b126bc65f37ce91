"""What is refused before tiles are searched: networks that L2 cannot hold, and no others."""

from __future__ import annotations

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import DoesNotFit
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.ir import Graph, Window
from dory_core.plan.budgets import check_tensors, for_simulation, resolve_budgets
from dory_core.plugins.manager import Plugins
from dory_core.testing.graphs import GraphBuilder
from tests.planning.random_graphs import random_graph
from tests.toy.chip import NAME, SCRATCHPAD, ToyChip

LARGE = 1 << 24


def chip(l2_bytes: int, l1: Memory = SCRATCHPAD, resident_l1: bool = False) -> ToyChip:
    memories = (l1, Memory("SRAM", l2_bytes, alignment_bytes=4))
    return ToyChip(memories=memories, resident_l1=resident_l1)


def growing() -> Graph:
    """Return a network whose first layer has 16384 B before and 65536 B behind it."""
    builder = GraphBuilder((4, 64, 64))
    builder.conv(16, Window(kernel=(1, 1)))
    return builder.graph()


def check(graph: Graph, l2_bytes: int) -> None:
    hierarchy = chip(l2_bytes).hierarchy()
    check_tensors(graph, hierarchy, resolve_budgets(hierarchy, {}))


def test_input_and_output_of_a_layer_lie_in_l2_together() -> None:
    check(growing(), 81920)
    with pytest.raises(DoesNotFit, match="needs 81920 B of L2 for its input of 16384 B") as caught:
        check(growing(), 81919)
    assert "`--l2 16M --not-deployable-ok` writes it for the simulation" in caught.value.hint


def test_a_tensor_that_may_stay_in_l1_is_not_counted() -> None:
    builder = GraphBuilder((4, 16, 16))
    builder.conv(16, Window(kernel=(1, 1)))
    hierarchy = chip(16384).hierarchy()  # the output alone
    check_tensors(builder.graph(), hierarchy, resolve_budgets(hierarchy, {}))


def wide() -> Graph:
    """Return a network with 16384 B at its borders and 262144 B between."""
    builder = GraphBuilder((4, 64, 64))
    for channels in (64, 4):
        builder.conv(channels, Window(kernel=(1, 1)))
    return builder.graph()


def levels(*sizes: int) -> MemoryHierarchy:
    """Return a chip with a scratchpad and levels of these bytes below it."""
    memories = (SCRATCHPAD, *(Memory(f"m{size}", size) for size in sizes))
    return MemoryHierarchy(
        tuple(Level(n, (memory,)) for n, memory in enumerate(memories, start=1)),
        tuple(Link(n, n + 1, 10, 8.0) for n in range(1, len(memories))),
    )


def test_a_tensor_lies_whole_in_the_largest_level() -> None:
    for sizes in ((65536, 4096), (4096, 65536)):
        check_tensors(growing(), levels(*sizes), resolve_budgets(levels(*sizes), {}))
    small = levels(65535, 4096)
    with pytest.raises(DoesNotFit, match="needs 65536 B, L2 offers 65535 B"):
        check_tensors(growing(), small, resolve_budgets(small, {}))


def test_between_layers_rows_suffice_where_nothing_lies_below_l2() -> None:
    check(wide(), 40_000)
    two = levels(40_000, 40_000)
    with pytest.raises(DoesNotFit, match="needs 262144 B, L2 offers 40000 B"):
        check_tensors(wide(), two, resolve_budgets(two, {}))


def test_the_budget_that_is_proposed_suffices() -> None:
    assert for_simulation(2, 8 << 20).startswith("`--l2 16M ")
    assert for_simulation(3, (8 << 20) + 1).startswith("`--l3 32M ")


@pytest.mark.slow
@pytest.mark.parametrize("resident", [False, True])
def test_no_network_that_fits_is_refused(resident: bool) -> None:
    l1 = Memory("scratchpad", 3000)
    for seed in range(12):
        graph = random_graph(seed)
        setup = setup_for(Plugins.from_objects(toy=chip(LARGE, l1, resident)), NAME)
        used = run(graph, setup, after=IMPORTED).levels[1].used
        hierarchy = chip(used, l1, resident).hierarchy()
        check_tensors(graph, hierarchy, resolve_budgets(hierarchy, {}))
