"""Chips whose links can do less: every network is exact, no transfer breaks a rule of the DMA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.plan import Plan
from dory_core.testing.apps import DMA_MODES, assert_exact, build_app
from dory_core.testing.cases import Case, layer_cases, network_cases
from dory_core.testing.sanitizers import require_sanitizer
from tests.toy.chip import NAME, ToyChip
from tests.toy.limited import LIMITS, four_levels, limited, two_memories

LAYERS, NETWORKS = layer_cases(), network_cases()
# Each layer on one of the chips.
SOME = [(case, list(LIMITS)[n % len(LIMITS)]) for n, case in enumerate(LAYERS)]
# Each layer on two more, in the slow tests.
MORE = [
    (case, list(LIMITS)[(n + turn) % len(LIMITS)])
    for n, case in enumerate(LAYERS)
    for turn in (len(LIMITS) // 3, 2 * len(LIMITS) // 3)
]
# Each network on every other chip.
SANITIZED = [
    (case, name)
    for n, case in enumerate(NETWORKS)
    for k, name in enumerate(LIMITS)
    if (n + k) % 2 == 0
]


def exact(
    case: Case,
    toy: ToyChip,
    directory: Path,
    dma: tuple[str, ...] = DMA_MODES,
    sanitize: str | None = None,
) -> Plan:
    plan = build_app(case.build(), NAME, directory, plugins=toy.plugins())
    assert_exact(directory, plugins=toy.plugins(), dma=dma, sanitize=sanitize)
    return plan


def chip(name: str, case: Case) -> ToyChip:
    return limited(LIMITS[name], cores=1 + sum(map(ord, case.name)) % 3)


@pytest.mark.sample(41)
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("case", NETWORKS, ids=str)
def test_networks_are_exact(case: Case, name: str, tmp_path: Path) -> None:
    exact(case, chip(name, case), tmp_path / "app")


@pytest.mark.sample(27)
@pytest.mark.parametrize(("case", "name"), SOME, ids=str)
def test_layers_are_exact(case: Case, name: str, tmp_path: Path) -> None:
    exact(case, chip(name, case), tmp_path / "app", dma=("late", "random"))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "name"), MORE, ids=str)
def test_layers_are_exact_on_more_chips(case: Case, name: str, tmp_path: Path) -> None:
    exact(case, chip(name, case), tmp_path / "app", dma=("late", "random"))


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize(("case", "name"), SANITIZED, ids=str)
def test_sanitizers_find_nothing(case: Case, name: str, sanitize: str, tmp_path: Path) -> None:
    require_sanitizer(sanitize)
    toy = limited(LIMITS[name], cores=3)
    exact(case, toy, tmp_path / "app", dma=("random",), sanitize=sanitize)


@pytest.mark.sample(13)
@pytest.mark.parametrize("limits", [{}, {"alignment_bytes": 4, "max_bytes": 256}], ids=str)
@pytest.mark.parametrize("case", NETWORKS, ids=str)
def test_constants_in_the_fourth_level(case: Case, limits: dict[str, Any], tmp_path: Path) -> None:
    plan = exact(case, four_levels(limits), tmp_path / "app", dma=("random",))
    assert set(plan.static_bytes) == {4}


def test_constants_that_no_dma_reaches_are_copied_by_the_cores(tmp_path: Path) -> None:
    plan = exact(NETWORKS[1], four_levels({"dma": False}), tmp_path / "app")
    ways = [(operand, c.by) for s in plan.steps for operand, c in s.carriages.items()]
    assert {by for operand, by in ways if operand == "w"} == {"cores"}
    assert {by for operand, by in ways if operand != "w"} == {"dma"}


@pytest.mark.parametrize("limits", [{"alignment_bytes": 8}, {"dma": False}], ids=str)
def test_two_memories_in_a_level(limits: dict[str, Any], tmp_path: Path) -> None:
    case = next(case for case in NETWORKS if case.name == "residual")
    plan = exact(case, two_memories(limits), tmp_path / "app")
    assert {t.place.memory for step in plan.steps for t in (*step.inputs, step.output)} == {0, 1}


@pytest.mark.slow
def test_every_way_of_copying_is_taken() -> None:
    ways: dict[str, set[str]] = {}
    for name in ("no DMA", "short", "double words", "words"):
        toy = limited(LIMITS[name], l1_bytes=4096)
        for case in (*NETWORKS, *(case for case in LAYERS if case.name == "conv_anisotropic")):
            plan = run(case.build(), setup_for(toy.plugins(), NAME), after=IMPORTED)
            found = (c for step in plan.steps for c in step.carriages.values())
            ways.setdefault(name, set()).update(
                c.by + (" padded" if c.multiple > 1 else "") for c in found
            )
    assert ways["no DMA"] == {"cores"}
    assert "pieces" in ways["short"]
    assert {"dma", "dma padded", "cores"} <= ways["double words"] | ways["words"]
