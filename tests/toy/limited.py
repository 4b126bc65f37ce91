"""Chips whose links can do less, and chips with more levels and memories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dory_core.hardware.links import Link
from dory_core.hardware.memories import Memory
from dory_core.kernels import portable_kernels
from tests.toy.chip import DMA, SRAM, ToyChip

LIMITS: dict[str, dict[str, Any]] = {
    "words": {"alignment_bytes": 4},
    "double words": {"alignment_bytes": 8},
    "short": {"max_bytes": 1024},
    "rows": {"dimensions": 1},
    "planes": {"dimensions": 2, "alignment_bytes": 4, "max_bytes": 200},
    "vendor": {"dimensions": 1, "alignment_bytes": 4, "max_bytes": 1024},
    "hundreds of rows": {"dimensions": 1, "core_cycles_per_byte": 1e4},
    "no DMA": {"dma": False},
}

EXT = Link(2, 3, setup_cycles=300, bytes_per_cycle=1.0, issue_cycles=50)
_ACTIVATIONS = frozenset({"activations"})


def limited(
    limits: dict[str, Any], cores: int = 1, l1_bytes: int = 6 * 1024, l2_bytes: int = 192 * 1024
) -> ToyChip:
    """Return a chip with two levels and a DMA of these limits."""
    return ToyChip(
        cores=cores,
        memories=(Memory("scratchpad", l1_bytes), replace(SRAM, size_bytes=l2_bytes)),
        links=(replace(DMA, **limits),),
        any_core=cores > 1,
        resident_l1=cores > 1,
    )


def streaming(
    limits: dict[str, Any], below: dict[str, Any], l1_bytes: int, l2_bytes: int, cores: int = 2
) -> ToyChip:
    """Return a chip with three levels. limits: of the DMA of L1; below: of that of L3."""
    return ToyChip(
        cores=cores,
        any_core=True,
        resident_l1=True,
        memories=(
            Memory("scratchpad", l1_bytes),
            replace(SRAM, size_bytes=l2_bytes),
            Memory("flash", 64 << 20, alignment_bytes=1),
        ),
        links=(replace(DMA, **limits), replace(EXT, **below)),
    )


def four_levels(limits: dict[str, Any], l2_bytes: int = 24 << 10) -> ToyChip:
    """Return a chip whose constants lie in the fourth level, from where they are loaded."""
    return ToyChip(
        memories=(
            Memory("scratchpad", 6 << 10),
            Memory("SRAM", l2_bytes, holds=_ACTIVATIONS),
            Memory("RAM", 1 << 20, holds=_ACTIVATIONS),
            Memory("ROM", 1 << 20, holds=frozenset({"weights"}), mapped=True),
        ),
        links=(
            DMA,
            Link(2, 3, setup_cycles=100, bytes_per_cycle=1.0),
            replace(DMA, upper=3, lower=4, bytes_per_cycle=1.0, **limits),
        ),
    )


def one_level(size_bytes: int = 64 << 10) -> ToyChip:
    """Return a chip whose only memory holds everything; its kernels work in place."""
    memory = Memory("SRAM", size_bytes, alignment_bytes=4)
    return ToyChip(portable_kernels(in_place=True), 1, (memory,), (), in_place=True)


def two_memories(limits: dict[str, Any]) -> ToyChip:
    """Return a chip with two memories in L2, of which none holds a network alone."""
    return ToyChip(
        memories=(
            Memory("scratchpad", 6 << 10),
            (Memory("SRAM0", 10 << 10, alignment_bytes=2), Memory("SRAM1", 12 << 10)),
        ),
        links=(replace(DMA, **limits),),
    )
