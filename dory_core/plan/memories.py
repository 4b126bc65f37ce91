"""The memories that the operations of a Plan name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MemoryKind(Enum):
    """Kind of a memory; CONSTANTS is the linked table of a layer's constants."""

    L1 = "l1"
    L2 = "l2"
    L3 = "l3"
    CONSTANTS = "constants"


@dataclass(frozen=True, slots=True)
class MemoryId:
    """A memory of the chip, or a table of constants.

    As text it is the C name of an arena: ``l2``, ``l2_1``.

    Attributes:
        kind: Kind of the memory.
        number: Number of the memory of L2; of constants the index of the layer, or -1 for the
            layer's own.
    """

    kind: MemoryKind
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind.value}_{self.number}" if self.number > 0 else self.kind.value

    @property
    def is_constants(self) -> bool:
        """Whether it is a table of constants."""
        return self.kind is MemoryKind.CONSTANTS


L1 = MemoryId(MemoryKind.L1)
L3 = MemoryId(MemoryKind.L3)
#: The table of the layer's own constants.
CONSTANTS = MemoryId(MemoryKind.CONSTANTS, -1)


def l2_memory(number: int) -> MemoryId:
    """Return the memory of L2 with a number."""
    return MemoryId(MemoryKind.L2, number)


def constants_of(layer: int) -> MemoryId:
    """Return the table of constants of the layer with an index."""
    return MemoryId(MemoryKind.CONSTANTS, layer)
