"""Plans of the real networks that GAP8 streams have the properties of every streamed plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plan import Plan
from dory_core.plugins.manager import load_plugins
from tests.nets import net
from tests.planning.properties import (
    PROPERTIES,
    constants_are_fetched_several_layers_ahead,
    constants_come_in_few_large_transfers,
    groups_of_a_layer_are_balanced,
    large_pointwise_layers_have_few_parts,
)

REAL: dict[str, tuple[str, Mapping[int, int]]] = {
    "mv1_100_128": ("nemo_mv1_100_128", {}),
    "mv1_100_128 in 256 KiB": ("nemo_mv1_100_128", {2: 256 * 1024}),
    "dronet_complete": ("nemo_dronet_complete", {}),
    "proxylessnas": ("nemo_proxylessnas_pulp_dronet", {}),
    "mv2_035_96 in 60 kB": ("nemo_mv2_035_96", {2: 60_000}),
    "mv1_100_128 in 139 kB": ("nemo_mv1_100_128", {2: 139_059}),
    "PenguiNet in 81 kB": ("nemo_PenguiNet_32", {2: 81_536}),
}


def _planned(name: str) -> Plan:
    folder, budgets = REAL[name]
    source = net(folder)
    options = CompileOptions(
        source.onnx,
        "gap8",
        source.frontend,
        input_bits=source.input_bits,
        input_signed=source.input_signed,
        budgets=budgets,
        plan_only=True,
    )
    return compile_network(options, load_plugins()).plan


@pytest.fixture(scope="module")
def plan_of() -> Callable[[str], Plan]:
    """Return a function that plans a network once."""
    return cache(_planned)


#: Those that the tests below plan as well.
PLANNED_ANYWAY = ("mv1_100_128", "mv1_100_128 in 256 KiB", "PenguiNet in 81 kB")


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    "name",
    [n if n in PLANNED_ANYWAY else pytest.param(n, marks=pytest.mark.slow) for n in REAL],
)
def test_plan_has_the_properties_of_a_streamed_one(
    name: str, plan_of: Callable[[str], Plan]
) -> None:
    plan = plan_of(name)
    assert plan.transfers
    for check in PROPERTIES.values():
        check(plan)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["mv1_100_128", "mv1_100_128 in 256 KiB"])
def test_constants_come_early_in_few_large_transfers(
    name: str, plan_of: Callable[[str], Plan]
) -> None:
    plan = plan_of(name)
    constants_come_in_few_large_transfers(plan)
    groups_of_a_layer_are_balanced(plan)
    if name == "mv1_100_128":
        constants_are_fetched_several_layers_ahead(plan)
    else:
        large_pointwise_layers_have_few_parts(plan)


@pytest.mark.slow
def test_estimate_counts_waiting_for_l3(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("mv1_100_128")
    layers = sum(step.estimate.cycles for step in plan.steps)
    moved = sum(t.size for t in plan.transfers)
    # one engine moves everything, a byte takes 1.44 cycles; much of it is hidden
    assert layers < plan.cycles < layers + 1.3 * moved
    small = plan_of("mv1_100_128 in 256 KiB")
    assert small.cycles > sum(step.estimate.cycles for step in small.steps)


@pytest.mark.slow
def test_finer_chunks_pay() -> None:
    """In half of the L2 that the network takes by default."""

    def cycles(moves: str) -> int:
        options = CompileOptions(
            net("quantlab_mv1_025_96").onnx,
            "gap8",
            "quantlab",
            budgets={2: 147_348},
            settings={"moves": moves},
            plan_only=True,
        )
        return compile_network(options, load_plugins()).plan.cycles

    assert cycles("") < 0.98 * cycles("-finer-chunks")
