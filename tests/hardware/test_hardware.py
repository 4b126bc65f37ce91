"""Descriptions of hardware that cannot be are refused where a plugin makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dory_core.api import hookimpl
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.hardware.target import OperatingPoint, Option, TargetContext
from dory_core.plugins.manager import PluginError, Plugins
from tests.toy.chip import NAME, ToyChip

L1, L2 = Memory("scratchpad", 4096, 96), Memory("SRAM", 65536)
DMA = Link(1, 2, setup_cycles=40, bytes_per_cycle=4.0)
ROM = Memory("ROM", 4096, mapped=True)


def hierarchy(*memories: Memory, links: tuple[Link, ...] = (DMA,), cores: int = 1) -> object:
    levels = tuple(Level(n, (memory,)) for n, memory in enumerate(memories, start=1))
    return MemoryHierarchy(levels, links, cores)


IMPOSSIBLE: dict[str, tuple[Callable[[], object], str]] = {
    "fraction": (lambda: Memory("A", 1.5), "memory A: sizes are whole numbers of bytes"),  # type: ignore[arg-type]
    "negative": (lambda: Memory("A", -1), "memory A: sizes are whole numbers"),
    "reserved": (lambda: replace(L1, reserved_bytes=4097), "4097 of its 4096 B are reserved"),
    "alignment": (lambda: replace(L1, alignment_bytes=12), "alignment_bytes 12 is no power of two"),
    "unaligned": (lambda: replace(L1, alignment_bytes=0), "alignment_bytes 0 is no power of two"),
    "nothing": (lambda: Level(2, ()), "level 2 has no memory"),
    "twins": (lambda: Level(2, (L2, replace(L2, size_bytes=5))), "level 2: memories share"),
    "far link": (lambda: replace(DMA, lower=3), "levels 1 and 3: they are no neighbours"),
    "idle link": (lambda: replace(DMA, bytes_per_cycle=0.0), "bytes_per_cycle is 0.0"),
    "idle port": (
        lambda: replace(DMA, port_bytes_per_cycle=-1.0),
        "port_bytes_per_cycle is -1.0",
    ),
    "words without a least rate": (
        lambda: replace(DMA, words_per_cycle=1.0),
        "a least_words_per_cycle up to it, which is 0.0",
    ),
    "words faster than bursts": (
        lambda: replace(DMA, words_per_cycle=3.0, least_words_per_cycle=0.5),
        "words_per_cycle 3.0 is more than",
    ),
    "words of a DMA of one row": (
        lambda: replace(DMA, words_per_cycle=1.0, least_words_per_cycle=0.5, dimensions=1),
        "words_per_cycle 1.0 wants a DMA that moves any rows",
    ),
    "unaligned link": (lambda: replace(DMA, alignment_bytes=0), "alignment_bytes 0 is no power"),
    "odd link": (lambda: replace(DMA, alignment_bytes=12), "12 is no power of two up to 16"),
    "wide link": (lambda: replace(DMA, alignment_bytes=32), "32 is no power of two up to 16"),
    "no room": (
        lambda: replace(DMA, alignment_bytes=8, max_bytes=4),
        "max_bytes 4 is less than alignment_bytes 8",
    ),
    "4-D link": (lambda: replace(DMA, dimensions=4), "dimensions are 1, 2 or 3"),
    "nobody copies": (
        lambda: replace(DMA, dma=False, core_cycles_per_byte=0.0),
        "without a DMA core_cycles_per_byte is more than 0",
    ),
    "one level": (lambda: hierarchy(L1, links=()), "work in place on a chip with one level"),
    "from 0": (lambda: MemoryHierarchy((Level(0, (L1,)), Level(1, (L2,))), (DMA,)), "1, 2, ..."),
    "no link": (lambda: hierarchy(L1, L2, links=()), "levels 1 to 1 has one link"),
    "two links": (lambda: hierarchy(L1, L2, links=(DMA, DMA)), "levels 1 to 1 has one link"),
    "a ROM": (lambda: hierarchy(L1, ROM), "no memory of L2 holds activations"),
    "no way to L3": (
        lambda: hierarchy(L1, L2, L2, links=(DMA, replace(DMA, upper=2, lower=3, dma=False))),
        "L3 is reached by transfers alone",
    ),
    "wide link to L1": (
        lambda: hierarchy(L1, L2, links=(replace(DMA, alignment_bytes=16),)),
        "alignment_bytes 16, buffers in L1 start on multiples of 8",
    ),
    "no cores": (lambda: hierarchy(L1, L2, cores=0), "0 cores"),
    "five levels": (
        lambda: hierarchy(
            L1, L2, L2, L2, L2, links=tuple(replace(DMA, upper=n, lower=n + 1) for n in range(1, 5))
        ),
        "at most 4 levels, not 5",
    ),
    "no such choice": (
        lambda: Option("board", str, "red", "its board", ("blue", "green")),
        "option board: the default red is none of blue, green",
    ),
    "a number as text": (
        lambda: Option("cores", int, "4", "its cores"),
        "option cores: the default '4' is no int",
    ),
    "a type of its own": (lambda: Option("x", float, 1.0, "x"), "type is int, str or bool"),  # type: ignore[arg-type]
    "a foreign clock": (lambda: Option("f", int, 0, "MHz", clock="bus"), "clock is core or io"),
    "a stopped clock": (lambda: OperatingPoint("slow", 0, 1e6, 1e-9, "a test"), "slow: a clock"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_hardware_is_refused_with_the_reason(name: str) -> None:
    make, reason = IMPOSSIBLE[name]
    assert hierarchy(L1, L2)
    with pytest.raises(ValueError) as caught:
        make()
    assert reason in str(caught.value)


def test_the_plugin_that_describes_it_is_named() -> None:
    class Broken(ToyChip):
        @hookimpl
        def dory_memory_hierarchy(self, ctx: TargetContext) -> MemoryHierarchy | None:
            return MemoryHierarchy((Level(1, (L1,)), Level(2, (L2,))), ())

    with pytest.raises(PluginError) as caught:
        Plugins.from_objects(broken=Broken()).context(NAME)
    assert "plugin broken failed in dory_memory_hierarchy" in caught.value.message
    assert "has one link to the next level" in caught.value.message
