"""The result of memory planning: blocks at fixed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dory_core.memory.lifetimes import Request, align_up


@dataclass(frozen=True, slots=True)
class Block:
    """A block at ``offset`` bytes from the start of its memory, needed in steps first..last.

    size: the bytes asked for, without the rounding to the alignment. memory: number of the memory
    among those of its level.
    """

    name: str
    offset: int
    size: int
    first: int
    last: int
    memory: int = 0

    @property
    def end(self) -> int:
        """First byte behind the block."""
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Packing:
    """Blocks of one memory.

    blocks: in order of the requests. peak_bytes: size of the arena, a multiple of the alignment.
    method: how it was found, for the report.
    """

    blocks: tuple[Block, ...]
    peak_bytes: int
    method: str


def packing(
    requests: Iterable[Request], offsets: Mapping[str, int], alignment: int, method: str
) -> Packing:
    """Return the Packing that puts each request at its offset."""
    blocks = tuple(Block(r.name, offsets[r.name], r.size_bytes, r.first, r.last) for r in requests)
    peak = max((block.end for block in blocks), default=0)
    return Packing(blocks, align_up(peak, alignment), method)
