"""Blocks of memory: what is needed when, and where it lies.

A step is a position in the execution order; step -1 stands for the moment before the first layer,
when the network input is copied in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

from dory_core.errors import DoryError
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.plan.block_ids import BlockId

if TYPE_CHECKING:
    from dory_core.ir import Graph

ACTIVATIONS = "activations"
WEIGHTS = "weights"


class _Fields(NamedTuple):
    """What a :class:`Request` holds."""

    id: BlockId
    size_bytes: int
    first: int
    last: int
    role: str
    within: BlockId | None
    at_bytes: int
    persistent: bool


class Request(_Fields):
    """A block that must keep its memory from step ``first`` to step ``last``, both inclusive.

    It has a positive size in bytes and a role, ``activations`` or ``weights``. Where ``within``
    names a block, it is a slice of that one from ``at_bytes`` on. Where it is ``persistent`` it
    outlives the execution, as state does: nothing else may lie there at any step. It is a tuple,
    because planning a deep network makes a million of them.

    Raises:
        ValueError: For a block without bytes or without steps.
    """

    __slots__ = ()

    def __new__(
        cls,
        id: BlockId,
        size_bytes: int,
        first: int,
        last: int,
        role: str = ACTIVATIONS,
        within: BlockId | None = None,
        at_bytes: int = 0,
        persistent: bool = False,
    ) -> Self:
        """Return a block; see the class."""
        if size_bytes <= 0:
            raise ValueError(f"block {id} has {size_bytes} bytes")
        if last < first:
            raise ValueError(f"block {id} ends at {last}, before step {first}")
        fields = (id, size_bytes, first, last, role, within, at_bytes, persistent)
        return tuple.__new__(cls, fields)

    def needed(self, first: int, last: int) -> Self:
        """Return the block with another lifetime.

        Raises:
            ValueError: When it would end before it begins.
        """
        fields = self.role, self.within, self.at_bytes, self.persistent
        return type(self)(self.id, self.size_bytes, first, last, *fields)

    def overlaps(self, other: Request) -> bool:
        """Return True when both blocks are needed in a common step."""
        return self.first <= other.last and other.first <= self.last


class Bin(NamedTuple):
    """A memory to pack into.

    Attributes:
        name: Of the memory.
        size_bytes: Its size.
        alignment: Granule of offsets, in bytes.
        holds: Roles that it takes, None for every role.
    """

    name: str
    size_bytes: int
    alignment: int
    holds: frozenset[str] | None = None

    def takes(self, request: Request) -> bool:
        """Return True when the block may lie here and is not larger than the memory."""
        return (self.holds is None or request.role in self.holds) and (
            align_up(request.size_bytes, self.alignment) <= self.usable_bytes
        )

    @property
    def usable_bytes(self) -> int:
        """Size rounded down to the alignment."""
        return self.size_bytes // self.alignment * self.alignment


def owners(requests: Sequence[Request]) -> tuple[Request, ...]:
    """Return the blocks that need room of their own, alive as long as their slices.

    A persistent block lives from the first step of any block to the last.

    Raises:
        ValueError: For a slice that does not lie in a block of its own.
    """
    own = {r.id: r for r in requests if r.within is None}
    begin = min((r.first for r in requests), default=0)
    end = max((r.last for r in requests), default=0)
    for block, r in own.items():
        if r.persistent:
            own[block] = r.needed(begin, end)
    for r in requests:
        if r.within is not None:
            whole = own.get(r.within)
            if whole is None or r.at_bytes < 0 or r.at_bytes + r.size_bytes > whole.size_bytes:
                raise ValueError(f"slice {r.id} does not lie in a block {r.within}")
            first, last = min(whole.first, r.first), max(whole.last, r.last)
            own[r.within] = whole.needed(first, last)
    return tuple(own.values())


def requests(graph: Graph, order: Sequence[int]) -> tuple[Request, ...]:
    """Return one Request per activation tensor of ``graph``, executed in ``order``.

    A tensor lives from the step that writes it (-1 for a network input) to the last step that reads
    it; network outputs and state live to the last step. The result is in order of ``first``.

    Args:
        graph: The network.
        order: Position in ``graph.ops`` of the layer executed at each step.

    Raises:
        DoryError: When ``order`` leaves a layer out, repeats one or reads before writing.
    """
    if sorted(order) != list(range(len(graph.ops))):
        raise DoryError(
            f"the execution order of {graph.name} has {len(order)} steps and does not run each of "
            f"the {len(graph.ops)} layers once"
        )
    end = len(order) - 1
    first = dict.fromkeys(graph.sources, -1)
    last = dict.fromkeys(graph.sources, -1)
    for step, position in enumerate(order):
        layer = graph.ops[position]
        for name in layer.inputs:
            if name not in first:
                raise DoryError(
                    f"{layer.kind} '{layer.name}' runs at step {step}, before its input "
                    f"'{name}' is written"
                )
            last[name] = step
        first[layer.output] = last[layer.output] = step
    for name in (*graph.sinks, *(state.read for state in graph.states)):
        last[name] = end
    return tuple(
        Request(BlockId(name), graph.tensors[name].size_bytes, start, last[name])
        for name, start in first.items()
    )


def live_at(requests: Iterable[Request], step: int) -> tuple[Request, ...]:
    """Return the blocks needed at ``step``, largest first."""
    live = (r for r in requests if r.first <= step <= r.last)
    return tuple(sorted(live, key=lambda r: (-r.size_bytes, r.id)))


def fullest_step(requests: Sequence[Request], alignment: int = 1) -> tuple[int, int]:
    """Return (step, bytes) where the blocks needed at once are largest; the earliest such step.

    Sizes are rounded up to ``alignment``. The bytes are a lower bound for every packing.
    (0, 0) without requests.
    """
    change: dict[int, int] = {}
    for r in requests:
        size = align_up(r.size_bytes, alignment)
        change[r.first] = change.get(r.first, 0) + size
        change[r.last + 1] = change.get(r.last + 1, 0) - size
    best_step, best_bytes, total = 0, 0, 0
    for step in sorted(change):
        total += change[step]
        if total > best_bytes:
            best_step, best_bytes = step, total
    return best_step, best_bytes


def level_alignment(hierarchy: MemoryHierarchy, number: int) -> int:
    """Return on what multiples blocks of a level start: what memories and links of it need."""
    links = [link for link in hierarchy.links if number in (link.upper, link.lower)]
    memories = hierarchy.level(number).memories
    units = [m.alignment_bytes for m in memories] + [link.alignment_bytes for link in links]
    return max(units)


def align_up(size: int, alignment: int) -> int:
    """Return ``size`` rounded up to a multiple of ``alignment``."""
    return -(-size // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Block:
    """A block in its place.

    Attributes:
        id: What it holds.
        offset: Bytes from the start of its memory.
        size: Bytes asked for, without the rounding to the alignment.
        first, last: Positions of the execution from which and to which it is needed.
        memory: Number of the memory among those of its level.
    """

    id: BlockId
    offset: int
    size: int
    first: int
    last: int
    memory: int = 0

    @property
    def end(self) -> int:
        """First byte after the block."""
        return self.offset + self.size


def with_padding(blocks: Sequence[Block], alignment: int) -> tuple[Block, ...]:
    """Return the blocks with the bytes after them that nothing else holds when they end.

    Transfers move whole units, so these bytes, up to a multiple of ``alignment``, are written with
    a block. A slice that ends inside of a block which is needed longer has none.
    """
    return tuple(_padded(block, blocks, alignment) for block in blocks)


def _padded(block: Block, blocks: Iterable[Block], alignment: int) -> Block:
    end = align_up(block.end, alignment)
    if end == block.end:
        return block
    for other in blocks:
        if (
            other.first <= block.last < other.last
            and other.memory == block.memory
            and other.offset < end
            and other.end > block.end
        ):
            return block
    return replace(block, size=end - block.offset)


@dataclass(frozen=True, slots=True)
class Packing:
    """Blocks of one memory.

    Attributes:
        blocks: In order of the requests.
        peak_bytes: Size of the arena in bytes, a multiple of the alignment.
        method: How it was found, for the report.
    """

    blocks: tuple[Block, ...]
    peak_bytes: int
    method: str


def packing(
    requests: Iterable[Request], offsets: Mapping[BlockId, int], alignment: int, method: str
) -> Packing:
    """Return the Packing that puts each request at its offset.

    Args:
        requests: The blocks.
        offsets: Bytes from the start of the memory, by block.
        alignment: Granule of offsets, in bytes.
        method: How they were found, for the report.
    """
    blocks = tuple(Block(r.id, offsets[r.id], r.size_bytes, r.first, r.last) for r in requests)
    peak = max((block.end for block in blocks), default=0)
    return Packing(blocks, align_up(peak, alignment), method)


def with_slices(packed: Packing, requests: Iterable[Request]) -> Packing:
    """Return the Packing of :func:`owners` with the slices of its blocks, in order of requests."""
    blocks = {block.id: block for block in packed.blocks}
    for r in requests:
        if r.within is not None and r.within in blocks:
            offset = blocks[r.within].offset + r.at_bytes
            blocks[r.id] = Block(r.id, offset, r.size_bytes, r.first, r.last)
    order = (blocks[r.id] for r in requests if r.id in blocks)
    return replace(packed, blocks=tuple(order))
