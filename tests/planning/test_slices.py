"""Blocks that are slices of others, outlive the execution, or hold a part of a tensor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.checks.verify import verify_bins, verify_packing
from dory_core.errors import DoesNotFit, DoryError
from dory_core.plan.blocks import Bin, Packing, Request, owners, with_padding
from dory_core.planning.packing.bins import pack_bins
from dory_core.planning.packing.one_memory import plan_memory
from tests.planning.samples import at_offset, wanted

#: Two branches write the halves of what a third layer reads; an old tensor ends meanwhile.
CONCAT = (
    wanted("old", 64, -1, 1),
    wanted("left", 32, 1, 2, within="both"),
    wanted("right", 32, 2, 2, within="both", at_bytes=32),
    wanted("both", 64, 3, 4),
    wanted("next", 16, 4, 5),
)
#: A state of one inference is there in the next; two tensors come and go.
STATE = (
    wanted("state", 24, 2, 2, persistent=True),
    wanted("early", 40, -1, 1),
    wanted("late", 40, 2, 4),
)
#: Rows of a tensor, computed depth-first: each stripe dies when the next layer has read it.
ROWS = tuple(
    part
    for k in range(4)
    for part in (
        wanted(f"a.{k}", 32, 2 * k, 2 * k + 1),
        wanted(f"b.{k}", 16, 2 * k + 1, 8),
    )
)


def places(packed: Packing) -> dict[str, int]:
    return {block.id.text: block.offset for block in packed.blocks}


def test_slices_lie_in_their_block_which_is_alive_as_long_as_they_are() -> None:
    packed = plan_memory(CONCAT, 8).chosen
    at = places(packed)
    assert (at["left"], at["right"]) == (at["both"], at["both"] + 32)
    assert packed.peak_bytes == 128  # both halves live beside the old tensor
    verify_packing(CONCAT, packed, alignment=8)
    whole = next(r for r in owners(CONCAT) if r.id.text == "both")
    assert (whole.first, whole.last) == (1, 4)


def test_slices_go_into_the_memory_of_their_block() -> None:
    bins = (Bin("A", 64, 8), Bin("B", 80, 8))
    plan = pack_bins(CONCAT, bins)
    verify_bins(CONCAT, plan, bins)
    [mine] = [p for p in plan.values() if "both" in places(p)]
    assert {"left", "right"} <= places(mine).keys()
    with pytest.raises(DoesNotFit):
        pack_bins(CONCAT, (Bin("A", 48, 8), Bin("B", 48, 8)))


def test_nothing_ever_lies_where_state_is_kept() -> None:
    packed = plan_memory(STATE, 8).chosen
    assert packed.peak_bytes == 64
    block = next(b for b in packed.blocks if b.id.text == "state")
    assert (block.first, block.last) == (-1, 4)
    verify_packing(STATE, packed, alignment=8)


def test_parts_of_a_tensor_need_the_room_of_what_is_live() -> None:
    packed = plan_memory(ROWS, 8).chosen
    assert packed.peak_bytes == 4 * 16 + 32
    verify_packing(ROWS, packed, alignment=8)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (
            wanted("s", 8, 0, 1, within="nobody"),
            "slice s does not lie in a block nobody",
        ),
        (
            wanted("s", 8, 0, 1, within="both", at_bytes=60),
            "slice s does not lie in a block both",
        ),
        (
            wanted("s", 8, 0, 1, within="both", at_bytes=-8),
            "slice s does not lie in a block both",
        ),
        (
            wanted("s", 8, 0, 1, within="left"),
            "slice s does not lie in a block left",
        ),
    ],
)
def test_slices_of_nothing_are_refused(wrong: Request, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        plan_memory((*CONCAT, wrong), 8)


def changed(packed: Packing, name: str, **fields: int) -> Packing:
    blocks = tuple(replace(b, **fields) if b.id.text == name else b for b in packed.blocks)
    return replace(packed, blocks=blocks)


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("right", {"offset": 0}, "'right' does not lie at 32 of 'both'"),
        ("both", {"first": 2}, "'left' is live when 'both', which it is a slice of, is not"),
        ("left", {"first": 0}, "'left' is live when 'both', which it is a slice of, is not"),
        ("left", {"last": 5}, "'left' is live when 'both', which it is a slice of, is not"),
        ("right", {"last": 5}, "'right' is live when 'both', which it is a slice of, is not"),
        ("old", {"offset": 0}, "are both live in step 1"),
    ],
)
def test_a_slice_in_the_wrong_place_is_found(
    name: str, fields: dict[str, int], reason: str
) -> None:
    packed = plan_memory(CONCAT, 8).chosen
    if "offset" in fields and places(packed)[name] == fields["offset"]:
        fields = {"offset": 64}
    with pytest.raises(DoryError, match=reason):
        verify_packing(CONCAT, changed(packed, name, **fields), alignment=8)


def test_a_slice_may_live_as_long_as_its_block() -> None:
    packed = plan_memory(CONCAT, 8).chosen
    for name, fields in (("left", {"last": 4}), ("right", {"first": 1, "last": 4})):
        packed = changed(packed, name, **fields)
    verify_packing(CONCAT, packed, alignment=8)


def test_state_that_something_else_may_overwrite_is_found() -> None:
    packed = plan_memory(STATE, 8).chosen
    with pytest.raises(DoryError, match="'state' is kept from one execution to the next"):
        verify_packing(STATE, changed(packed, "state", first=0), alignment=8)
    at = places(packed)
    with pytest.raises(DoryError, match="are both live"):
        wrong = changed(packed, "late", offset=at["state"])
        verify_packing(STATE, wrong, alignment=8)


def test_blocks_without_slices_are_planned_as_before() -> None:
    plain = tuple(r for r in CONCAT if not r.within)
    assert owners(plain) == plain
    assert at_offset("next", 0, 16, 4, 5).end == 16


def test_padding_belongs_to_a_block_unless_a_longer_lived_one_lies_there() -> None:
    whole, first = at_offset("whole", 0, 30, 0, 3), at_offset("first", 0, 10, 0, 1)
    later, other = (
        at_offset("later", 32, 5, 2, 3),
        at_offset("other", 0, 16, 0, 3, memory=1),
    )
    padded = with_padding((whole, first, later, other), 8)
    assert [block.size for block in padded] == [32, 10, 8, 16]
    # What begins in the padding when the block has ended takes nothing from it.
    assert with_padding((first, at_offset("next", 8, 8, 2, 3)), 8)[0].size == 16
