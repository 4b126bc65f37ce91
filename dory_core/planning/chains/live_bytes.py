"""Bytes of L2 that are live while a fused chain runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dory_core.plan.blocks import align_up
from dory_core.planning.chains.block import RollingRows
from dory_core.planning.decision import Decision
from dory_core.planning.problem import Problem
from dory_core.tiling.outer import Split

#: Stripes of a tensor in L3 that lie in L2: the one in use, and the next or the previous one.
_STRIPES = 2


class ChainBytes:
    """Bytes of L2 that are live while a chain runs; layers are added from the last one backwards.

    Attributes:
        constants: Bytes of constants that are fetched.
        whole, rolling, stripes: Bytes of the blocks of tensors, by name.
    """

    def __init__(
        self, problem: Problem, start: Decision, whole: Mapping[str, int], rows: RollingRows
    ) -> None:
        """Prepare an empty chain.

        Args:
            problem: The network.
            start: The decision that chains are added to.
            whole: Bytes of the block of each tensor as a whole.
            rows: The rolling buffers of the longest chain with the same last layer.
        """
        self.problem = problem
        self.start = start
        self._bytes_of = whole
        self._unit = problem.alignment
        self._rows = rows
        self.constants = 0
        self.whole = dict[str, int]()
        self.rolling = dict[str, int]()
        self.stripes = dict[str, int]()
        self._passed = dict[str, int]()  # bytes that pass the link, rows that are read again too
        self._live = np.zeros(1, np.int64)  # of all rolling buffers, by turn

    @property
    def rows(self) -> int:
        """The most bytes that are live in all rolling buffers at once."""
        return int(self._live.max())

    @property
    def bytes(self) -> int:
        """The most bytes that are live at once."""
        blocks = (*self.whole.values(), *self.stripes.values())
        return self.constants + sum(blocks) + self.rows

    @property
    def moved_cycles(self) -> float:
        """Cycles of the link below L2 for constants and tensors of the chain."""
        link = self.problem.link
        if link is None or not self.start.streamed:
            return 0.0
        return (self.constants + sum(self._passed.values())) / link.bytes_per_cycle

    def add(self, n: int, split: Split) -> None:
        """Add a layer with all of its tensors."""
        start, unit, network = self.start, self._unit, self.problem.network
        flow = network.flow
        if start.streamed:
            self.constants += align_up(self.problem.constants[n], unit)
        for name in network.alive[n]:
            if name not in start.in_l3 and name not in self.rolling:
                self.whole[name] = self._bytes_of[name]
        operands: list[tuple[int | None, str]] = [*enumerate(flow.reads[n]), (None, flow.writes[n])]
        for operand, name in operands:
            if name in start.in_l3 and name not in self.rolling:
                sizes = [size for _, size in network.ranges_of(n, operand, split)]
                size = _STRIPES * align_up(max(sizes) + network.unit, unit)
                self.stripes[name] = max(size, self.stripes.get(name, 0))
                self._passed[name] = self._passed.get(name, 0) + sum(sizes)

    def roll(self, name: str, size: int) -> None:
        """Replace a tensor by its rolling buffer."""
        self.whole.pop(name, None)
        self.stripes.pop(name, None)
        self._passed.pop(name, None)
        self.rolling[name] = align_up(size, self._unit)
        self._live = self._live + self._rows.live[name].sizes

    def share(self, name: str) -> None:
        """Let a tensor share the buffer of another one, whose bytes include it."""
        self.rolling[name] = 0
        self._live = self._live - self._rows.live[name].sizes
