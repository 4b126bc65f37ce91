"""How bytes move within L2: rows of rolling buffers, and state at the end of an inference."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.hardware.links import Link


@dataclass(frozen=True, slots=True)
class Moving:
    """Who moves bytes within L2, and what that costs.

    Attributes:
        link: Between L2 and L1.
        cores: Number of cores.
    """

    link: Link
    cores: int

    @property
    def by_dma(self) -> bool:
        """Whether the DMA moves state, through L1, which is free at the end.

        A core alone does it faster than it tells a DMA, but of several cores all would wait for one
        whose accesses of L2 take long.
        """
        return self.cores > 1 and self.link.is_plain

    @property
    def row_cycles(self) -> float:
        """Cycles per byte of rows that a core moves."""
        return self.link.core_cycles_per_byte or 1.0

    def state_cycles(self, size: int) -> float:
        """Return the cycles of moving a state; size: its bytes."""
        return 2 * self.link.cycles(size) if self.by_dma else size * self.row_cycles
