"""Caches of a target, as data: that of a core's loads and stores, and that of instructions."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Cache:
    """The data cache of a core, between its kernels and the memories below L1.

    Attributes:
        size_bytes: Bytes of data.
        ways: Lines that may hold the bytes of one address.
        line_bytes: Bytes that are loaded at once.
    """

    size_bytes: int
    ways: int
    line_bytes: int

    @property
    def sets(self) -> int:
        """Sets of lines."""
        return self.size_bytes // (self.ways * self.line_bytes)


#: Tiles after which the cache holds what it has room for, and rounds in which shares converge.
_TILES_UNTIL_SETTLED = 6
_ROUNDS = 8


class Misses(NamedTuple):
    """Misses of instructions at a tile.

    Attributes:
        cycles: Without transfers in flight.
        waits: Cycles at most for which they wait for those.
    """

    cycles: float = 0.0
    waits: float = 0.0


@dataclass(frozen=True, slots=True)
class InstructionCache:
    """The cache of instructions that all cores share, in front of the memory that transfers use.

    All cores run the same code, so that all wait for each miss. While transfers are in flight, a
    miss waits for as long as they have been, the next one twice as long, until they are over: their
    bursts are ahead of the data. So the first tile of a layer, of which many lines are missing,
    waits for all of them, unless its kernel has run right before.

    Attributes:
        size_bytes: Bytes of instructions.
        line_bytes: Bytes that are loaded at once.
        ways: Lines that may hold the bytes of one address; a miss replaces one of them at random.
        driver_bytes: Code of a layer that runs around its kernel.
        running_share: Share of its code that a kernel runs for a tile, where it does not say.
        first_cycles: Cycles per line at the first tile of a layer, which finds some of them there.
        miss_cycles: Cycles per line that was replaced since the tile before.
        wait_cycles: Cycles from the start of transfers to the first miss after it.
        words_wait: Share of a load by words for which misses wait, see ``Link.words_per_cycle``.
    """

    size_bytes: int
    line_bytes: int
    ways: int
    driver_bytes: int
    running_share: float
    first_cycles: float
    miss_cycles: float
    wait_cycles: float
    words_wait: float = 1.0

    def misses(self, running_bytes: int) -> tuple[Misses, ...]:
        """Return the misses of each tile of a layer; those of the rest are as the last.

        Args:
            running_bytes: Code that the kernel runs for a tile.
        """
        return _misses(self, running_bytes)


@functools.lru_cache(maxsize=1024)
def _misses(cache: InstructionCache, running_bytes: int) -> tuple[Misses, ...]:
    """Return the misses of each tile where ways are replaced at random.

    A share m of the lines was replaced since the tile before. Between two uses of a line, the other
    lines of its set miss by the share of the tile before, or by that of this one, and each such
    miss replaces one of its ways: m = 1 - (1 - 1 / ways) ** misses.
    """
    lines = (cache.driver_bytes + running_bytes) / cache.line_bytes
    others = max(0.0, lines * cache.ways * cache.line_bytes / cache.size_bytes - 1)
    stays, share = 1 - 1 / cache.ways, 1.0
    found = [Misses(lines * cache.first_cycles, math.inf)]
    for _ in range(_TILES_UNTIL_SETTLED):
        before = share
        for _ in range(_ROUNDS):
            share = 1 - stays ** (others * (before + share) / 2)
        waits = cache.wait_cycles * (2 ** (lines * share) - 1)
        found.append(Misses(lines * share * cache.miss_cycles, waits))
    return tuple(found)
