"""A candidate with everything in its place: blocks of every level, constants and transfers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dory_core.errors import DoesNotFit
from dory_core.hardware.memories import Level, MemoryHierarchy
from dory_core.hardware.target import TargetContext
from dory_core.plan import Conversion, ExtTransfer, LayerStep, LevelUse, Place
from dory_core.plan.block_ids import BlockId, BlockKind, table_id
from dory_core.plan.blocks import Block
from dory_core.plan.budgets import Budgets, more_room
from dory_core.planning.evaluate import Candidate
from dory_core.planning.problem import BELOW, HOME
from dory_core.planning.search import Trial


@dataclass(frozen=True, slots=True)
class Planned:
    """How a network runs, and where everything lies, whether it fits the budgets or not.

    Attributes:
        candidate: The decision, its parts and its estimated cycles.
        steps: The layers in the order of execution, with their constants.
        inputs, outputs: Where those of the network lie.
        blocks: By level.
        static_level: Level into which constants are linked.
        static_bytes: Bytes of them.
        below_bytes: Bytes used of the level below home.
        image: What fills that level before the first inference.
        constants_apart: Bytes from its start that lie in a memory that holds only constants,
            outside of the budget.
        transfers: Between home and the level below, in the order of their start.
        trials: What the moves proposed, in order.
    """

    candidate: Candidate
    steps: tuple[LayerStep, ...]
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    blocks: Mapping[int, tuple[Block, ...]]
    static_level: int
    static_bytes: int
    below_bytes: int = 0
    image: bytes = b""
    constants_apart: int = 0
    transfers: tuple[ExtTransfer, ...] = ()
    trials: tuple[Trial, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", MappingProxyType(dict(self.blocks)))

    @property
    def cycles(self) -> int:
        """Cycles of one inference."""
        return self.candidate.cycles

    @property
    def conversions(self) -> tuple[Conversion, ...]:
        """All changes of layout."""
        return (*(c for step in self.steps for c in step.conversions), *self.candidate.final)

    def static_in(self, level: int) -> int:
        """Return the bytes of constants that are linked into a level."""
        return self.static_bytes if level == self.static_level else 0

    @property
    def home_bytes(self) -> int:
        """Bytes of home in all."""
        return sum(packed.peak_bytes for packed in self.candidate.packings) + self.static_in(HOME)

    def levels(self, ctx: TargetContext, budgets: Budgets) -> tuple[LevelUse, ...]:
        """Return how each memory level is used."""
        loads = {step.ahead.step: step for step in self.steps if step.ahead is not None}
        l1_blocks = tuple(
            block for n, step in enumerate(self.steps) for block in _l1_blocks(step, loads.get(n))
        )
        used = {
            1: max(step.l1_bytes for step in self.steps),
            HOME: self.home_bytes,
            BELOW: self.below_bytes + self.static_in(BELOW),
        }
        memory, uses = self.candidate.memory, list[LevelUse]()
        for level in ctx.memory.levels:
            number = level.number
            apart = self.constants_apart if number == BELOW else 0
            peaks = (memory.stack_bytes, memory.packed_bytes) if number == HOME else ()
            uses.append(
                LevelUse(
                    level.name,
                    used.get(number, self.static_in(number)),
                    budgets.bytes[number] + apart,
                    l1_blocks if number == 1 else self.blocks.get(number, ()),
                    *peaks,
                )
            )
        return (*uses, *self._fetched(ctx))

    def _fetched(self, ctx: TargetContext) -> Iterator[LevelUse]:
        """Yield how the memories that kernels fill with constants are used."""
        for memory in ctx.memory.level(1).apart:
            blocks = tuple(
                Block(
                    table_id(step.index),
                    0,
                    max(tile.size for c in step.weights.chunks for row in c.tiles for tile in row),
                    step.parts[0].position,
                    step.parts[-1].position,
                )
                for step in self.steps
                if step.weights is not None and step.kernel.fetches in memory.holds
            )
            used = max((block.size for block in blocks), default=0)
            yield LevelUse(f"L1 {memory.name}", used, memory.usable_bytes, blocks)

    def too_large(self, name: str, budgets: Budgets, hierarchy: MemoryHierarchy) -> DoesNotFit:
        """Return the error that says what of a network takes the room."""
        budget = budgets.bytes[HOME]
        if self.static_level != HOME and self.static_bytes > budgets.bytes[self.static_level]:
            return self._constants_too_large(name, budgets, hierarchy.level(self.static_level))
        needed: dict[int, list[Block]] = {}
        for block in self.blocks[HOME]:
            if block.id.kind is not BlockKind.TABLE:
                for step in range(block.first, block.last + 1):
                    needed.setdefault(step, []).append(block)
        step = max(needed, key=lambda s: sum(b.size for b in needed[s]))
        live = sorted(needed[step], key=lambda b: -b.size)
        texts = ", ".join(f"{b.id} {b.size} B" for b in live)
        running = {part.position: one.index for one in self.steps for part in one.parts}
        where = f"layer {running[step]}" if step in running else "the network input"
        static, total = self.static_in(HOME), self.home_bytes
        level = f"L{HOME}"
        hint = more_room(hierarchy.level(HOME), total)
        if self.candidate.straddles and total <= budget:
            return DoesNotFit(
                f"{name} needs {total} B of {level}, {budget} B are available but not in one "
                f"memory: {self.candidate.straddles}",
                hint,
            )
        return DoesNotFit(
            f"{name} needs {total} B of {level}, {budget} B are available: constants {static} B, "
            f"activations {total - static} B (largest at {where}: {texts})",
            hint,
            total,
        )

    def _constants_too_large(self, name: str, budgets: Budgets, level: Level) -> DoesNotFit:
        """Return the error that says which constants take the room where they are linked."""
        sizes = ((s.weights.size, s.index) for s in self.steps if s.weights is not None)
        largest = sorted(sizes, key=lambda pair: -pair[0])[:3]
        texts = ", ".join(f"layer {index} {size} B" for size, index in largest)
        return DoesNotFit(
            f"{name} has {self.static_bytes} B of constants, {budgets.bytes[level.number]} B of "
            f"{level.name} are available for them (largest: {texts})",
            more_room(level, self.static_bytes),
            self.static_bytes,
        )


def _l1_blocks(step: LayerStep, earlier: LayerStep | None) -> Iterator[Block]:
    """Yield the buffers of a layer in L1, and the resident tensors that lie there as well.

    Args:
        step: The layer.
        earlier: The layer that loads its first constants, None for itself.
    """
    first, last = step.parts[0].position, step.parts[-1].position
    for buffer in step.l1:
        for copy, offset in enumerate(buffer.offsets):
            ahead = earlier is not None and (buffer.name, copy) == ("w", 0)
            begin = earlier.parts[-1].position if earlier is not None and ahead else first
            block = BlockId(buffer.name, BlockKind.BUFFER, (step.index, copy))
            yield Block(block, offset, buffer.bytes, begin, last)
    for place in step.beside:
        block = BlockId(place.tensor.name, BlockKind.RESIDENT, (step.index,))
        yield Block(block, place.offset, place.size_bytes, first, last)
