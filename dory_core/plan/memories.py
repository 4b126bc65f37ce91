"""The memories that the operations of a Plan name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MemoryKind(Enum):
    """What a memory is. CONSTANTS: the table of a layer's constants where it is linked."""

    L1 = "l1"
    L2 = "l2"
    L3 = "l3"
    CONSTANTS = "constants"


@dataclass(frozen=True, slots=True)
class MemoryId:
    """A memory of the chip, or a table of constants.

    kind: what it is. number: which one of L2; of constants the index of the layer, or -1 for the
    layer's own. As text it is what C calls an arena: ``l2``, ``l2_1``.
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
    """Return a memory of L2. number: which one."""
    return MemoryId(MemoryKind.L2, number)


def constants_of(layer: int) -> MemoryId:
    """Return the table of another layer's constants. layer: its index."""
    return MemoryId(MemoryKind.CONSTANTS, layer)
