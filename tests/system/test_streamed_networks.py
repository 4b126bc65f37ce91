"""Plans of the real networks that GAP8 streams have the properties of every streamed plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plan import Plan
from dory_core.plugins.manager import load_plugins
from tests.nets import net, tflite_net
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
    "Dronet of QuantLab": ("quantlab_Dronet", {}),
    "ds_cnn in 10 kB": ("nemo_ds_cnn_kws", {2: 9_824}),
}
#: One that stays in L2.
WHOLE = {"ds_cnn": ("nemo_ds_cnn_kws", dict[int, int]())}


def _planned(name: str) -> Plan:
    folder, budgets = {**REAL, **WHOLE}[name]
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


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
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


def test_of_plans_that_are_as_fast_the_one_with_less_l2_is_taken(
    plan_of: Callable[[str], Plan],
) -> None:
    """Another one has as many cycles, and 382,848 B."""
    (l2,) = (level for level in plan_of("Dronet of QuantLab").levels if level.name == "L2")
    assert l2.used < 310_000


def test_a_network_whose_tensors_stay_in_l1_is_hardly_slower_in_a_third_of_l2(
    plan_of: Callable[[str], Plan],
) -> None:
    """It had stripes of tensors in L3 before, and 2.5 times the cycles."""
    assert plan_of("ds_cnn in 10 kB").cycles < 1.1 * plan_of("ds_cnn").cycles


def test_what_does_not_fit_with_tensors_in_l1_is_cut_without_them() -> None:
    """Stripes of its layers need less of L2 than its constants beside tensors in L1."""
    path = tflite_net("openmv_fomo_face").path
    options = CompileOptions(path, "gap8", "tflite", budgets={2: 16_926}, plan_only=True)
    assert compile_network(options, load_plugins()).plan.transfers
