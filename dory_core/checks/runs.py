"""Layers and their parts as the check of contents executes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dory_core.checks.held import Range, bug
from dory_core.expr import evaluate
from dory_core.ir.geometry import axis_span, is_channelwise
from dory_core.kernels.call import OPERANDS
from dory_core.plan import LayerStep, OperandPlan
from dory_core.plan.accesses import LayerAccesses
from dory_core.plan.memories import MemoryId
from dory_core.plan.operations import Copy, LayerProgram


@dataclass(frozen=True, slots=True, eq=False)
class LayerRun:
    """A layer with its program.

    Attributes:
        step: The step of the layer in the plan.
        accesses: Accesses of the operations of its program.
        used: Bytes of L1 of each copy of its buffers, by name.
    """

    step: LayerStep
    accesses: LayerAccesses
    used: Mapping[str, tuple[Range, ...]]

    @classmethod
    def of(cls, step: LayerStep, program: LayerProgram) -> LayerRun:
        """Return a layer with the program that it runs."""
        accesses = LayerAccesses(program)
        used = {
            name: tuple(Range(*bytes_) for bytes_ in copies)
            for name, copies in accesses.used_l1.items()
        }
        return cls(step, accesses, used)


@dataclass(frozen=True, slots=True, eq=False)
class PartRun:
    """One part of a layer.

    Attributes:
        layer: The layer, with what its operations touch.
        part: Number of the part.
    """

    layer: LayerRun
    part: int

    @property
    def step(self) -> LayerStep:
        """The step of the layer."""
        return self.layer.step

    @property
    def program(self) -> LayerProgram:
        """The operations of the layer."""
        return self.layer.accesses.program

    @property
    def who(self) -> str:
        """The layer, for messages."""
        return f"layer {self.step.index} '{self.step.layer.op.name}'"

    def operand(self, name: str) -> OperandPlan:
        """Return the plan of an operand."""
        return self.step.output if name == "y" else self.step.inputs[OPERANDS.index(name)]

    @property
    def first_byte_written(self) -> int:
        """Byte of the output tensor at which the rows of the part begin."""
        return self.step.parts[self.part].stripe[0] * self._pitch("y")

    def first_byte_read(self, name: str) -> int:
        """Return the byte of an input tensor at which what the part reads begins."""
        layer, operand, channel = self.step.layer, OPERANDS.index(name), 0
        if self.has_own_channels(name):
            channel = self._first_channel * layer.inputs[operand].bits // 8
        if layer.whole_axes(operand)[self._axis + 1]:
            return channel
        rows = axis_span(layer, self._axis, *self.step.parts[self.part].stripe)
        return rows.x_start * self._pitch(name) + channel

    def has_own_channels(self, name: str) -> bool:
        """Return True when the part is a group that reads only its own channels of an input."""
        layer, spans = self.step.layer, self.step.parts[self.part].schedule.c_out
        if not is_channelwise(layer) or layer.whole_axes(OPERANDS.index(name))[0]:
            return False
        return sum(span.size for span in spans) < layer.output.channels

    @property
    def _first_channel(self) -> int:
        """The first input channel of the group: that of its constants."""
        layer, weights = self.step.layer, self.step.weights
        assert weights is not None
        before = weights.chunks[: self.step.parts[self.part].chunk]
        first = sum(row[0].channels for chunk in before for row in chunk.tiles)
        return first * layer.inputs[0].channels // layer.output.channels

    @property
    def _axis(self) -> int:
        """Axis of stripes: 0 for rows, 1 for the columns of data with one row."""
        return 0 if self.step.layer.output.height > 1 else 1

    def _pitch(self, name: str) -> int:
        """Return the bytes of a row (or column) of an operand's tensor."""
        place = self.operand(name).place
        rows = place.tensor.width if self._axis else place.tensor.height
        return place.size_bytes // rows

    def buffers(self) -> list[Range]:
        """Return the buffers in L1 that the layer uses."""
        return [copy for copies in self.layer.used.values() for copy in copies]


@dataclass(frozen=True, slots=True)
class WeightPrefetch:
    """Constants that are being loaded into L1 for a later layer.

    Attributes:
        memory: Name of the source memory.
        source: First byte of the source.
        start: First byte of the target in L1.
        size: Number of bytes.
        fetched: Name of the constants, of those that were fetched from L3.
    """

    memory: MemoryId
    source: int
    start: int
    size: int
    fetched: str | None = None

    @classmethod
    def of(cls, run: PartRun, copy: Copy) -> WeightPrefetch:
        """Return the prefetch that a copy of a part starts."""
        values = {"part": run.part}
        start, source = (int(evaluate(a.offset, values)) for a in (copy.l1, copy.l2))
        row, rows = (int(evaluate(size, values)) for size in copy.shape[:2])
        if rows > 1 and {copy.l1_strides[0], copy.l2_strides[0]} != {row}:
            raise bug(f"{run.who} loads constants ahead in rows that are not next to each other")
        return cls(copy.l2.memory, source, start, row * rows)
