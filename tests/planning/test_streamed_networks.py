"""Networks under budgets so small that every stage of the cascade is taken: planned, checked by
symbolic execution, generated, and run bit-exact on the simulated chip."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from dory_core.errors import DoesNotFit
from dory_core.ir import Graph
from dory_core.plan import Plan
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import DMA_MODES, assert_exact, build_app
from dory_core.testing.sanitizers import require_sanitizer
from tests.planning.networks import CASES, STAGES, Case, plan_graph, stages
from tests.planning.random_graphs import random_filters, random_graph
from tests.planning.symbolic import check_plan
from tests.toy.chip import NAME, three_levels

# Every second budget is left to the slow tests, but those that show a stage.
FIXED = [
    pytest.param(
        case,
        l2,
        id=f"{case}-{l2}",
        marks=pytest.mark.slow if n % 2 and (case.name, l2) not in STAGES.values() else (),
    )
    for case in CASES
    for n, l2 in enumerate(case.budgets)
]
# Plans in which much happens at once; for the sanitizers.
BUSY = [("chain", 6_000), ("residual", 18_000), ("temporal", 7_800), ("two_outputs", 6_000)]
BUSY += [("many_filters", 14_000)]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return three_levels().plugins()


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def test_every_stage_has_a_network_that_takes_it() -> None:
    assert {(case.name, l2) for case in CASES for l2 in case.budgets} >= set(STAGES.values())


@pytest.mark.sample(40)
@pytest.mark.parametrize(("case", "l2"), FIXED)
def test_network_is_exact_in_little_l2(
    case: Case, l2: int, plugins: Plugins, tmp_path: Path
) -> None:
    shown = (case.name, l2) in STAGES.values()
    plan = build_app(
        case.build(),
        NAME,
        tmp_path / "app",
        budgets={2: l2},
        # Tensors that stay in L1 leave less to be cut.
        settings={"moves": "-l1-residency" if shown else ""},
        plugins=plugins,
        seeds=(0, 1),
    )
    assert {stage for stage, place in STAGES.items() if place == (case.name, l2)} <= stages(plan)
    check_plan(plan)
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.sample(10)
@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize(("name", "l2"), BUSY)
def test_streamed_network_is_clean_under_sanitizers(
    name: str, l2: int, sanitize: str, plugins: Plugins, tmp_path: Path
) -> None:
    require_sanitizer(sanitize)
    build_app(case_of(name).build(), NAME, tmp_path / "app", budgets={2: l2}, plugins=plugins)
    assert_exact(tmp_path / "app", plugins=plugins, sanitize=sanitize, dma=("random",))


# -- random networks ------------------------------------------------------------------------------


def plan_or_needed(
    graph: Graph, share: float, plugins: Plugins, moves: str = ""
) -> tuple[Plan | None, int]:
    """Return the plan in a share of the largest tensor, and the budget that it was made for.

    Where it does not fit it is given the bytes that the error asks for, until it does. moves: those
    that are switched off.
    """
    l2 = max(256, int(share * max(t.size_bytes for t in graph.tensors.values())))
    for _ in range(3 * len(graph.ops)):
        try:
            return plan_graph(graph, plugins, l2, moves=moves), l2
        except DoesNotFit as error:
            assert error.needed_bytes is not None
            if " L2 " not in error.message:
                return None, l2
            assert error.needed_bytes > l2, error.message
            l2 = error.needed_bytes
    raise AssertionError(f"{graph.name}: given what the errors ask for, it still does not fit")


def check_seed(
    seed: int, share: float, plugins: Plugins, directory: Path, run: bool, mixed: bool = False
) -> Plan | None:
    moves = "-l1-residency" if seed % 2 else ""  # tensors that stay in L1 leave less to be cut
    plan, l2 = plan_or_needed(random_graph(seed, mixed), share, plugins, moves)
    if plan is None:
        return None
    check_plan(plan)
    if run:
        build_app(
            random_graph(seed, mixed),
            NAME,
            directory,
            budgets={2: l2},
            settings={"moves": moves},
            plugins=plugins,
        )
        mode = DMA_MODES[zlib.crc32(str((seed, share)).encode()) % len(DMA_MODES)]
        assert_exact(directory, plugins=plugins, dma=(mode,), seed=seed + 1)
    return plan


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(8))
def test_random_network_is_exact_in_little_l2(seed: int, plugins: Plugins, tmp_path: Path) -> None:
    check_seed(seed, 0.2, plugins, tmp_path / "app", run=True)


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(20, 28))
def test_random_network_of_mixed_precisions_is_exact_in_little_l2(
    seed: int, plugins: Plugins, tmp_path: Path
) -> None:
    plan = check_seed(seed, 0.2, plugins, tmp_path / "app", run=True, mixed=True)
    assert plan is not None
    assert any(t.bits < 8 for step in plan.steps for t in (*step.layer.inputs, step.layer.output))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("seed", "share", "mixed"), [(1005, 0.5, False), (101, 0.4, True), (101, 0.4, False)]
)
def test_whole_tensors_come_back_beside_fused_chains(
    seed: int, share: float, mixed: bool, plugins: Plugins, tmp_path: Path
) -> None:
    """A tensor between layers of a chain does not; another one lives from its first user on."""
    assert check_seed(seed, share, plugins, tmp_path, run=False, mixed=mixed) is not None


@pytest.mark.slow
def test_random_plans_of_mixed_precisions_compute_the_network(
    plugins: Plugins, tmp_path: Path
) -> None:
    taken: set[str] = set()
    for seed in range(100, 104):
        for share in (1.2, 0.4):
            plan = check_seed(seed, share, plugins, tmp_path, run=False, mixed=True)
            taken |= stages(plan) if plan is not None else set()
    assert len(taken) >= 9, taken


@pytest.mark.slow
def test_random_plans_compute_the_network(plugins: Plugins, tmp_path: Path) -> None:
    taken: set[str] = set()
    for seed in range(100, 104):
        for share in (1.2, 0.4):
            plan = check_seed(seed, share, plugins, tmp_path, run=False)
            taken |= stages(plan) if plan is not None else set()
    assert len(taken) >= 9, taken


# Seeds whose plans have groups of channels, of whole bytes and of mixed precisions.
FILTERS = [
    *((seed, False) for seed in (0, 2, 3, 4, 5, 6, 9, 13, 19, 21, 22, 33)),
    *((seed, True) for seed in (1, 2, 3, 4, 5, 6, 9, 11, 13, 14, 21, 28)),
]


@pytest.mark.sample(24)
@pytest.mark.parametrize(("seed", "mixed"), FILTERS)
def test_random_filters_in_groups_are_exact(
    seed: int, mixed: bool, plugins: Plugins, tmp_path: Path
) -> None:
    graph = random_filters(seed, mixed)
    plan, l2 = plan_or_needed(graph, 0.2, plugins)
    assert plan is not None and "channels apart in groups" in stages(plan)
    check_plan(plan)
    build_app(graph, NAME, tmp_path / "app", budgets={2: l2}, plugins=plugins)
    assert_exact(tmp_path / "app", plugins=plugins, seed=seed + 1)


@pytest.mark.slow
@pytest.mark.parametrize("share", [2.0, 1.0, 0.5, 0.25, 0.1])
@pytest.mark.parametrize("seed", range(1000, 1005))
@pytest.mark.parametrize("mixed", [False, True], ids=["bytes", "mixed"])
def test_many_random_networks_are_exact_in_little_l2(
    mixed: bool, seed: int, share: float, plugins: Plugins, tmp_path: Path
) -> None:
    check_seed(seed, share, plugins, tmp_path / "app", run=True, mixed=mixed)
