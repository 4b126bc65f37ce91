"""Budgets: defaults of the hierarchy, and what a larger one means."""

from __future__ import annotations

import pytest

from dory_core.errors import UsageError
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.plan.budgets import resolve_budgets

HIERARCHY = MemoryHierarchy(
    (Level(1, (Memory("tcdm", 1000, 200),)), Level(2, (Memory("a", 5000, 1000),))),
    (Link(1, 2, 10, 8.0),),
)


def test_default_is_size_minus_reserved() -> None:
    budgets = resolve_budgets(HIERARCHY, {})
    assert dict(budgets.bytes) == {1: 800, 2: 4000}
    assert budgets.reason == ""


def test_smaller_budget_is_deployable() -> None:
    assert resolve_budgets(HIERARCHY, {1: 500}).reason == ""


def test_larger_budget_is_legal_but_not_deployable() -> None:
    budgets = resolve_budgets(HIERARCHY, {1: 801})
    assert budgets.bytes[1] == 801
    assert "L1 budget of 801 B exceeds the 800 B" in budgets.reason


@pytest.mark.parametrize("wanted", [{3: 10}, {1: 0}, {2: -5}])
def test_budget_without_sense_is_refused(wanted: dict[int, int]) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_budgets(HIERARCHY, wanted)
    assert caught.value.hint


def test_a_reserve_of_l2_is_what_the_network_does_not_get() -> None:
    hierarchy = HIERARCHY
    whole = hierarchy.level(2).usable_bytes
    assert resolve_budgets(hierarchy, {}, 1000).bytes[2] == whole - 1000
    assert not resolve_budgets(hierarchy, {}, 1000).reason
    for reserve, wanted, words in (
        (whole, {}, "leaves the network nothing"),
        (-1, {}, "leaves the network nothing"),
        (1000, {2: 5000}, "both set the bytes of L2"),
    ):
        with pytest.raises(UsageError, match=words):
            resolve_budgets(hierarchy, wanted, reserve)
