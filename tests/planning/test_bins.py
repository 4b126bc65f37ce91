from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.checks.verify import verify_bins
from dory_core.errors import DoesNotFit
from dory_core.plan.blocks import Bin, Packing, fullest_step
from dory_core.planning.packing.bins import pack_bins
from dory_core.planning.packing.one_memory import plan_memory
from tests.planning.samples import lifetimes, wanted


def bins_of(plan: Mapping[str, Packing]) -> dict[str, str]:
    """Return the bin of every block."""
    return {b.id.text: name for name, packed in plan.items() for b in packed.blocks}


def test_preferred_bin_is_filled_first_and_no_block_straddles():
    blocks = [
        wanted("a", 60, 0, 1),
        wanted("b", 50, 0, 1),
        wanted("c", 40, 1, 2),
    ]
    bins = (Bin("fast", 100, 4), Bin("slow", 100, 8))
    plan = pack_bins(blocks, bins)
    verify_bins(blocks, plan, bins)
    assert bins_of(plan) == {"a": "fast", "b": "slow", "c": "fast"}


def test_solver_finds_the_only_assignment():
    # 7+5+3 and 6+5+4 fill both bins exactly; largest-first puts 7 and 6 together.
    sizes = {"a": 7, "b": 5, "c": 3, "d": 6, "e": 5, "f": 4}
    blocks = [wanted(n, s, 0, 0) for n, s in sizes.items()]
    bins = (Bin("one", 15, 1), Bin("two", 15, 1))
    plan = pack_bins(blocks, bins)
    verify_bins(blocks, plan, bins)
    assert [plan[n].peak_bytes for n in ("one", "two")] == [15, 15]


def test_block_that_fits_no_single_bin_is_named():
    with pytest.raises(DoesNotFit, match=r"block 'big' \(activations, 90 bytes, steps 3 to 4\)"):
        pack_bins([wanted("big", 90, 3, 4)], (Bin("one", 80, 1), Bin("two", 80, 1)))


def test_sum_of_live_blocks_above_all_bins_names_step_and_blocks():
    blocks = [
        wanted("a", 60, 0, 2),
        wanted("b", 50, 2, 3),
        wanted("c", 55, 2, 2),
    ]
    with pytest.raises(DoesNotFit) as caught:
        pack_bins(blocks, (Bin("one", 80, 1), Bin("two", 80, 1)))
    assert "step 2 needs 165 bytes at once (a 60, c 55, b 50)" in caught.value.message
    assert "have 160 (one 80, two 80)" in caught.value.message
    assert caught.value.exit_code == 4


def test_fragmented_over_bins_is_an_error_though_the_sum_fits():
    blocks = [wanted(n, 60, 0, 0) for n in "abc"]
    with pytest.raises(DoesNotFit, match="no placement keeps every block within one memory"):
        pack_bins(blocks, (Bin("one", 100, 1), Bin("two", 100, 1)))


def test_roles_are_respected():
    blocks = [wanted("x", 10, 0, 1), wanted("w", 10, 0, 1, "weights")]
    bins = (Bin("wmem", 64, 8, frozenset({"weights"})), Bin("amem", 64, 8))
    plan = pack_bins(blocks, bins)
    verify_bins(blocks, plan, bins)
    assert bins_of(plan) == {"x": "amem", "w": "wmem"}
    with pytest.raises(DoesNotFit, match="no memory of the level takes activations: block 'x'"):
        pack_bins(blocks, bins[:1])


def test_one_bin_takes_the_plan_of_one_memory():
    blocks = [wanted("a", 60, 0, 1), wanted("b", 50, 1, 2)]
    plan = pack_bins(blocks, (Bin("only", 120, 8),))
    assert plan["only"] == plan_memory(blocks, 8).chosen
    assert plan["only"].peak_bytes == 120
    with pytest.raises(DoesNotFit, match=r"step 1 needs 110 .* packed, they take 120"):
        pack_bins(blocks, (Bin("only", 119, 8),))


@given(lifetimes(most=10, largest=40), st.integers(40, 80), st.integers(40, 80))
@settings(deadline=None, max_examples=80)
def test_random_blocks_in_two_bins_are_legal_or_rejected(blocks, one, two):
    bins = (Bin("one", one, 1), Bin("two", two, 1))
    try:
        plan = pack_bins(blocks, bins)
    except DoesNotFit:
        # One memory of the smaller size would then not have been enough either.
        assert plan_memory(blocks, 1).packed_bytes > max(one, two)
        return
    verify_bins(blocks, plan, bins)
    assert fullest_step(blocks)[1] <= one + two
