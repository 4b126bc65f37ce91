"""Networks on chips with one to four levels, of one or several memories each: all are exact.

What single links can do is the business of ``test_links.py``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.hardware.memories import Memory
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import Case, network_cases
from tests.toy.array import array_chip
from tests.toy.chip import DMA, NAME, ToyChip
from tests.toy.limited import EXT, four_levels, one_level, streaming

NETWORKS = network_cases()
WORDS = {"alignment_bytes": 4}
VENDOR = {"alignment_bytes": 4, "dimensions": 1, "max_bytes": 1024}
KIB = 1 << 10


def two_memories_alone(limits: dict[str, int]) -> ToyChip:
    """Return a chip with two memories in L2, the first one of which holds all constants."""
    sram = Memory("SRAM0", 14 * KIB), Memory("SRAM1", 9 * KIB, alignment_bytes=2)
    return ToyChip(memories=(Memory("scratchpad", 6 * KIB), sram), links=(replace(DMA, **limits),))


def two_memories_below(limits: dict[str, int]) -> ToyChip:
    """Return a chip with two memories in the second level, and in the third a RAM and a flash."""
    flash = Memory("flash", 1 << 20, holds=frozenset({"weights"}), read_only=True)
    return ToyChip(
        memories=(
            Memory("scratchpad", 8 * KIB),
            (Memory("SRAM0", 12 * KIB), Memory("SRAM1", 14 * KIB)),
            (Memory("RAM", 1 << 20), flash),
        ),
        links=(replace(DMA, **limits), replace(EXT, **limits)),
    )


CHIPS = {
    "one level": one_level(),
    "two memories in L2": two_memories_alone({}),
    "two memories in L2, words": two_memories_alone(WORDS),
    "two memories in L1": array_chip(l1_bytes=12 * KIB, weight_bytes=16 * KIB),
    "three levels, vendor": streaming(VENDOR, WORDS, 6 * KIB, 24 * KIB),
    "two memories in L2 and L3": two_memories_below({}),
    "two memories in L2 and L3, words": two_memories_below(WORDS),
    "four levels, vendor": four_levels(VENDOR),
    "four levels, double words": four_levels({"alignment_bytes": 8}),
}


def parameters() -> list[object]:
    """Each chip with one network, in the slow tests with all of them."""
    return [
        pytest.param(name, case, id=f"{name}-{case}", marks=() if n == k else pytest.mark.slow)
        for k, name in enumerate(CHIPS)
        for n, case in enumerate(NETWORKS)
    ]


@pytest.mark.sample(9)
@pytest.mark.parametrize(("name", "case"), parameters())
def test_networks_are_exact(name: str, case: Case, tmp_path: Path) -> None:
    chip = CHIPS[name]
    build_app(case.build(), NAME, tmp_path / "app", plugins=chip.plugins(), seeds=(0, 1))
    assert_exact(tmp_path / "app", plugins=chip.plugins(), dma=("random",))
