"""Tensors that stay in L1 between two layers, at alternating ends of it.

Of two layers that run one after the other the first writes all of its output in one tile, and the
second is the only one that reads it and has it in L1 as a whole: then it is neither stored nor
loaded, and takes no room of L2. Where that holds for several layers in a row, a tensor lies at the
start of L1 and the next one at its end, so that each layer has its input and its output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dory_core.conversions import Flow
from dory_core.hardware import MemoryHierarchy
from dory_core.ir import Linear
from dory_core.kernel import Kernel
from dory_core.memory.lifetimes import align_up
from dory_core.tiling.schedule import L1_ALIGNMENT, Buffering, L1Buffer, l1_buffers
from dory_core.tiling.tiled import TiledLayer

OPERANDS = ("x", "x2")


@dataclass(frozen=True, slots=True)
class Stay:
    """What of a layer's tensors stays in L1.

    fixed: offsets in L1 of those buffers of the layer (x, x2, y) that hold such a tensor.
    """

    fixed: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fixed", MappingProxyType(dict(self.fixed)))

    def keeps(self, buffer: str) -> bool:
        """Return whether the tensor of a buffer is not moved."""
        return buffer in self.fixed


#: Everything of a layer is moved.
MOVED = Stay()


@dataclass(frozen=True, slots=True)
class Residency:
    """tiled: the layers, with one copy of buffers that need no second one. stays: per layer.
    tensors: names of those that stay in L1."""

    tiled: tuple[TiledLayer, ...]
    stays: tuple[Stay, ...]
    tensors: frozenset[str]


def plan_residency(
    tiled: Sequence[TiledLayer], flow: Flow, hierarchy: MemoryHierarchy, budget_bytes: int
) -> Residency:
    """Return what stays in L1 of layers in the order of execution; budget_bytes: of L1."""
    planner = _Planner(list(tiled), flow, hierarchy, budget_bytes)
    if hierarchy.resident_l1:
        planner.run()
    return Residency(tuple(planner.tiled), tuple(map(Stay, planner.fixed)), frozenset(planner.kept))


@dataclass(slots=True)
class _Planner:
    tiled: list[TiledLayer]
    flow: Flow
    hierarchy: MemoryHierarchy
    budget: int
    fixed: list[dict[str, int]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fixed = [{} for _ in self.tiled]

    def run(self) -> None:
        uses = Counter(name for reads in self.flow.reads for name in reads)
        uses.update(source for pairs in self.flow.before for source, _ in pairs)
        uses.update(self.flow.outputs)
        start = 0
        while start < len(self.tiled):
            end = start  # the last layer of a chain
            while end + 1 < len(self.tiled) and self._links(end, uses):
                if not self._place(start, end + 1):
                    break
                end += 1
            if end > start:
                self._take(start, end)
            start = end + 1

    def _links(self, n: int, uses: Mapping[str, int]) -> bool:
        """Return whether the output of layer n can stay in L1 for the next one."""
        name = self.flow.writes[n]
        before, after = self.tiled[n], self.tiled[n + 1]
        if uses[name] != 1 or name not in self.flow.reads[n + 1]:
            return False
        if before.in_place or after.in_place or before.schedule.count != 1:
            return False
        return _reads_whole(after, self.flow.reads[n + 1].index(name))

    def _place(self, start: int, end: int) -> list[dict[str, int]] | None:
        """Return the fixed buffers of the layers of a chain; None when they do not fit."""
        unit = max(L1_ALIGNMENT, *(m.alignment_bytes for m in self.hierarchy.level(1).memories))
        chain = range(start, end + 1)
        sizes = {n: {b.name: b.total for b in self._buffers(n, start, end)} for n in chain}
        at_end: dict[int, dict[str, bool]] = {n: {} for n in chain}
        for n in chain[:-1]:
            at_end[n]["y"] = at_end[n + 1][self._operand(n + 1)] = (n - start) % 2 == 1
        height = 0
        for n in chain:
            last = sum(sizes[n][name] for name, behind in at_end[n].items() if behind)
            height = max(height, align_up(sum(sizes[n].values()) - last, unit) + last)
        if height > self.budget:
            return None
        return [
            {
                name: (height - sizes[n][name]) // unit * unit if behind else 0
                for name, behind in at_end[n].items()
            }
            for n in chain
        ]

    def _operand(self, n: int) -> str:
        return OPERANDS[self.flow.reads[n].index(self.flow.writes[n - 1])]

    def _buffers(self, n: int, start: int, end: int) -> tuple[L1Buffer, ...]:
        one = self._single(n, start, end)
        return l1_buffers(one.layer, one.kernel, one.tiling.tile, one.schedule.buffering)

    def _single(self, n: int, start: int, end: int) -> TiledLayer:
        """Return a layer of a chain with one copy of what is there once."""
        one = self.tiled[n]
        copies = one.schedule.buffering
        if one.schedule.count == 1:
            copies = Buffering()
        elif n > start:
            copies = replace(copies, x=1)
        return replace(one, schedule=replace(one.schedule, buffering=copies))

    def _take(self, start: int, end: int) -> None:
        fixed = self._place(start, end)
        assert fixed is not None
        for n in range(start, end + 1):
            self.tiled[n] = self._single(n, start, end)
            self.fixed[n] = fixed[n - start]
        self.kept |= {self.flow.writes[n] for n in range(start, end)}


def _reads_whole(tiled: TiledLayer, operand: int) -> bool:
    """Return whether a layer has an operand in L1 once, as a whole and as it lies in L2."""
    layer, schedule = tiled.layer, tiled.schedule
    channels, rows, columns, inputs = schedule.counts
    if (rows, columns, inputs) != (1, 1, 1) or (channels > 1 and schedule.keeps_channels):
        return False
    if not _lies_alike(tiled.kernel, tiled, operand):
        return False
    if isinstance(layer.layer, Linear):
        return True
    x = layer.inputs[operand]
    return (schedule.h[0].x_size, schedule.w[0].x_size) == (x.height, x.width)


def _lies_alike(kernel: Kernel, tiled: TiledLayer, operand: int) -> bool:
    layout = kernel.input_layouts(tiled.layer)[operand]
    return not layout.is_hwc or kernel.input_layout(tiled.layer) == "HWC"
