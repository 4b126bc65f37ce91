"""Where tensors of a Plan lie, copies in other layouts, and state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dory_core.ir import Tensor
from dory_core.ir.layout import HWC, Layout


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies while it lives.

    Attributes:
        tensor: Its shape and storage.
        level: Number of the level.
        offset: Bytes from the start of the arena.
        memory: Number of the memory among those of the level; each has an arena of its own.
        layout: How its elements lie there.
        passing: Never as a whole: a layer or the caller makes one stripe after the other, and who
            reads it has read each before it is overwritten; the offset is that of the first one.
    """

    tensor: Tensor
    level: int
    offset: int
    memory: int = 0
    layout: Layout = HWC
    passing: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes as a whole."""
        return self.layout.size_bytes(self.tensor)

    @property
    def rows(self) -> int:
        """Rows of the tensor; columns where it has one row."""
        return self.tensor.height if self.tensor.height > 1 else self.tensor.width

    @property
    def row_bytes(self) -> int:
        """Bytes from one of them to the next."""
        return self.size_bytes // self.rows


@dataclass(frozen=True, slots=True)
class Conversion:
    """A copy of a tensor in another layout, made by the cores in L2.

    Attributes:
        source, target: Where the tensor lies in each layout.
        cycles: Estimated cycles of the copy.
    """

    source: Place
    target: Place
    cycles: int

    @property
    def tensor(self) -> Tensor:
        """What is converted."""
        return self.source.tensor


@dataclass(frozen=True, slots=True)
class StatePlan:
    """State of a network: a tensor that lives from one inference to the next.

    Attributes:
        name: In the file.
        place: Where an inference finds it; nothing else lies there at any time.
        left: Where its layer leaves it for the next inference: the same place, or it is copied
            there after the last layer.
        initial: What the first inference finds, in storage form.
    """

    name: str
    place: Place
    left: Place
    initial: bytes

    @property
    def at_end(self) -> Place:
        """Where what is left lies when the inference has ended."""
        return replace(self.left, memory=self.place.memory, offset=self.place.offset)

    @property
    def copied(self) -> bool:
        """Whether it is copied at the end."""
        return (self.left.memory, self.left.offset) != (self.place.memory, self.place.offset)

    @property
    def overlaps(self) -> bool:
        """Whether the copy reads bytes that it writes."""
        near = abs(self.left.offset - self.place.offset) < self.place.size_bytes
        return self.copied and near and self.left.memory == self.place.memory

    @property
    def table_bytes(self) -> int:
        """Bytes of the table of initial values that is linked; 0 where all bytes are one value."""
        return initial_table_bytes(self.initial)


def initial_table_bytes(initial: bytes) -> int:
    """Return the bytes of a table of initial values, in whole words; 0 where one byte fills all."""
    return 0 if len(set(initial)) == 1 else -(-len(initial) // 4) * 4
