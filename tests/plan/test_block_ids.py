"""Identities of blocks, and their names in documents."""

from __future__ import annotations

from itertools import combinations

import pytest

from dory_core.plan.block_ids import BlockId, BlockKind, chunk_id, stripe_id, table_id

NAMES = {
    "conv": BlockId("conv"),
    "conv.back": BlockId("conv", BlockKind.BACK),
    "conv.3": stripe_id("conv", 3),
    "conv.chain": BlockId("conv", BlockKind.CHAIN),
    "conv.rows": BlockId("conv", BlockKind.ROLLING),
    "conv>02.1.0": BlockId("conv", BlockKind.WINDOW, (2, 1, 0)),
    "weights_02.1": chunk_id(2, 1),
    "weights_02.1.5": chunk_id(2, 1, 5),
    "weights_02": table_id(2),
    "network inputs": BlockId("network inputs", BlockKind.BORDER),
    "initial state": BlockId("initial state", BlockKind.STATE),
    "layer_02.x.1": BlockId("x", BlockKind.BUFFER, (2, 1)),
    "layer 2, x": BlockId("x", BlockKind.BUFFERS, (2,)),
    "layer_02.conv": BlockId("conv", BlockKind.RESIDENT, (2,)),
}


@pytest.mark.parametrize("name", NAMES)
def test_name_of_a_block_in_documents(name: str) -> None:
    assert NAMES[name].text == str(NAMES[name]) == name


def test_every_kind_has_a_name() -> None:
    assert {block.kind for block in NAMES.values()} == set(BlockKind)


def test_a_tensor_that_is_named_as_a_stripe_has_a_block_of_its_own() -> None:
    for one, other in combinations(NAMES.values(), 2):
        assert one != other
        assert BlockId(one.text) != one or one.kind is BlockKind.WHOLE
    assert len({BlockId("conv.3"), stripe_id("conv", 3), stripe_id("conv", 3)}) == 2


def test_blocks_are_in_the_order_of_their_names() -> None:
    assert [str(block) for block in sorted(NAMES.values())] == sorted(NAMES)
    assert stripe_id("conv", 10) < stripe_id("conv", 9)
