from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.checks.verify import verify_bins, verify_packing
from dory_core.errors import DoryError
from dory_core.plan.blocks import Bin, Packing
from tests.planning.samples import at_offset, wanted

REQUESTS = (
    wanted("a", 16, -1, 1),
    wanted("b", 24, 1, 3),
    wanted("c", 8, 2, 3),
)
GOOD = Packing(
    (
        at_offset("a", 0, 16, -1, 1),
        at_offset("b", 16, 24, 1, 3),
        at_offset("c", 0, 8, 2, 3),
    ),
    40,
    "test",
)


def changed(name, **fields):
    blocks = tuple(replace(b, **fields) if b.id.text == name else b for b in GOOD.blocks)
    return replace(GOOD, blocks=blocks)


def test_good_plan_passes_and_touching_lifetimes_may_share_memory():
    verify_packing(REQUESTS, GOOD, alignment=8, capacity_bytes=40)


@pytest.mark.parametrize(
    ("packing", "reason"),
    [
        (changed("b", offset=8), r"'a' at 0 \(\+16\) and 'b' at 8 .* live in step 1"),
        (changed("c", offset=32), r"'b' at 16 .* and 'c' at 32 .* live in step 2"),
        (changed("c", first=1), r"'a' at 0 .* and 'c' at 0 .* live in step 1"),
        (changed("c", offset=4), "'c' starts at 4, not a multiple of 8"),
        (changed("c", offset=-8), "'c' starts at -8, before L2"),
        (changed("b", offset=24), "'b' ends at 48, after the peak 40"),
        (changed("b", size=16), "'b' needs 24 bytes, its block has 16"),
        (changed("a", last=0), "'a' is needed in steps -1 to 1, its block lives from -1 to 0"),
        (changed("c", first=3), "'c' is needed in steps 2 to 3"),
        (replace(GOOD, blocks=GOOD.blocks[:2]), "'c' has no block"),
        (replace(GOOD, blocks=(*GOOD.blocks, GOOD.blocks[2])), "'c' has two blocks"),
        (
            replace(GOOD, blocks=(*GOOD.blocks, at_offset("d", 0, 8, 9, 9))),
            "no request is for block 'd'",
        ),
        (replace(GOOD, peak_bytes=48), "L2 has 40 bytes, the plan uses 48"),
    ],
)
def test_seeded_fault_is_found(packing, reason):
    with pytest.raises(DoryError, match=reason) as caught:
        verify_packing(REQUESTS, packing, alignment=8, capacity_bytes=40, memory="L2")
    assert caught.value.exit_code == 1


def test_block_inside_another_is_an_overlap():
    requests = (wanted("a", 64, 0, 3), wanted("b", 8, 1, 2))
    packing = Packing((at_offset("a", 0, 64, 0, 3), at_offset("b", 24, 8, 1, 2)), 64, "test")
    with pytest.raises(DoryError, match=r"'a' at 0 .* and 'b' at 24"):
        verify_packing(requests, packing, alignment=8)


BINS = (Bin("one", 40, 8), Bin("two", 16, 8, frozenset({"weights"})))


@pytest.mark.parametrize(
    ("packings", "reason"),
    [
        ({"one": GOOD, "three": Packing((), 0, "test")}, "memory 'three'"),
        ({"one": replace(GOOD, peak_bytes=56)}, "one has 40 bytes"),
        ({"one": GOOD, "two": Packing((GOOD.blocks[2],), 8, "test")}, "two does not hold"),
        ({"one": replace(GOOD, blocks=GOOD.blocks[:2])}, "'c' has no block in the level"),
        ({"one": changed("b", offset=8)}, "'a' at 0 .* and 'b' at 8 .* of one"),
    ],
)
def test_seeded_fault_in_bins_is_found(packings, reason):
    with pytest.raises(DoryError, match=reason):
        verify_bins(REQUESTS, packings, BINS)


def test_good_bins_pass():
    verify_bins(REQUESTS, ({"one": GOOD, "two": Packing((), 0, "test")}), BINS)
