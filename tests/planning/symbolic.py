"""A second opinion on plans: all operations are executed on names of bytes instead of bytes.

Every byte of every tensor and of every block of constants has a number. Memories are arrays of such
numbers, and copies move them from their start to their wait. What a call computes is worked out
here: which rows, columns and channels of the output from the order and the sizes of the calls
before it, and which elements of the inputs from the window. They must be exactly where the kernel
looks for them, and its padding must be where the tensor ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dory_core.ir import (
    Add,
    AvgPool,
    Concat,
    Conv,
    Linear,
    MaxPool,
    Tensor,
    Window,
    pixel_bytes,
)
from dory_core.ir.geometry import input_channels, is_channelwise
from dory_core.ir.layout import HWC
from dory_core.kernels.call import OPERANDS
from dory_core.plan import Conversion, ExtTransfer, LayerStep, Place, Plan
from dory_core.plan.memories import CONSTANTS, L1, L3, MemoryId, constants_of, l2_memory
from dory_core.plan.network_operations import (
    BeginStates,
    Dead,
    EndStates,
    ExtStart,
    ExtWait,
    Inputs,
    MoveRows,
    Outputs,
    Replaced,
    Report,
    RunPart,
    View,
)
from dory_core.plan.operations import (
    AHEAD,
    Address,
    Barrier,
    Call,
    Copy,
    Mark,
    MarkKind,
    Wait,
)
from tests.plan.walk import Values, value, walk
from tests.planning.computed import Box, Wrong, calls_of, parts_of

NOTHING = -1
PADDING = 1 << 60
#: Layers whose reading of their inputs is checked; others write what their output says.
KINDS = (Conv, Linear, MaxPool, AvgPool, Add)
Array = np.ndarray


def check_plan(plan: Plan) -> None:
    """Raise Wrong unless the plan computes the network whatever the speed of its transfers."""
    Machine(plan).run()


@dataclass
class Flight:
    """A copy that has started: where its bytes come from and go to, and what they were."""

    source: MemoryId
    source_bytes: Array
    target: MemoryId
    target_bytes: Array
    content: Array
    mark: int


@dataclass
class Machine:
    """Memories by the number of the byte that lies there; copies in flight; bytes reported by each
    layer; what the partial sums in L1 are of."""

    plan: Plan
    memories: dict[MemoryId, Array] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    flying: dict[object, Flight] = field(default_factory=dict)
    slots: dict[int, ExtTransfer] = field(default_factory=dict)
    reported: dict[int, int] = field(default_factory=dict)
    kept: list[tuple[int, int]] = field(default_factory=list)
    sums: tuple[int, object] = (NOTHING, None)
    next_number: int = 0
    next_mark: int = -2

    def __post_init__(self) -> None:
        plan = self.plan
        arenas = {L1: plan.arena_bytes[1], l2_memory(0): plan.arena_bytes[2]}
        arenas |= {l2_memory(n): size for n, size in enumerate(plan.more_l2_bytes, start=1)}
        ends = [t.l3_offset + t.size for t in plan.transfers]
        ends += [p.offset + p.size_bytes for p in (*plan.inputs, *plan.outputs) if p.level == 3]
        tables = {n: s.weights for n, s in enumerate(plan.steps) if s.weights is not None}
        ends += [w.offset + w.size for w in tables.values()]
        arenas[L3] = max(ends, default=0)
        arenas |= {constants_of(n): w.size for n, w in tables.items()}
        for name, size in arenas.items():
            self.memories[name] = np.full(size, NOTHING, dtype=np.int64)
        self._views()
        for step in plan.steps:
            for tensor in (*step.layer.inputs, step.layer.output):
                self._number(tensor.name, tensor.size_bytes)
        for n, weights in tables.items():
            for k, chunk in enumerate(weights.chunks):
                ids = self._number(f"constants {n}.{k}", len(chunk.data))
                where, base = (constants_of(n), 0) if weights.linked else (L3, weights.offset)
                self._define(where, base + chunk.offset, ids, f"constants of step {n}")

    def _number(self, name: str, size: int) -> Array:
        """Return the numbers of all bytes of a tensor or a chunk of constants."""
        if name not in self.first:
            self.first[name] = self.next_number
            self.next_number += size
        return np.arange(self.first[name], self.first[name] + size)

    def _views(self) -> None:
        """Give tensors and what are views of them the same numbers."""
        steps = [step for step in self.plan.steps if step.is_view]
        for joins, one in [(True, step) for step in reversed(steps)] + [(False, s) for s in steps]:
            if joins != isinstance(one.layer.op, Concat):
                continue
            offsets, output = one.layer.byte_offsets, one.layer.output
            assert offsets is not None
            for tensor, offset in zip(one.layer.inputs, offsets, strict=True):
                if joins:
                    self._number(output.name, output.size_bytes)
                    number = self.first[output.name] + offset
                    name = tensor.name
                else:
                    self._number(tensor.name, tensor.size_bytes)
                    number, name = self.first[tensor.name] + offset, output.name
                if self.first.setdefault(name, number) != number:
                    raise Wrong(f"{name} is part of two tensors")

    def _elements(self, place: Place) -> tuple[Array, Array]:
        """Return the bytes of a tensor where it lies, without padding, and their numbers."""
        tensor, first = place.tensor, self.first[place.tensor.name]
        if place.layout.is_hwc:
            wanted = np.arange(tensor.size_bytes)
            return place.offset + wanted, first + wanted
        return place.offset + place.layout.offsets(tensor), first + HWC.offsets(tensor)

    def _define(self, memory: MemoryId, at: int, ids: Array, what: str) -> None:
        place = self.memories[memory][at : at + len(ids)]
        if len(place) != len(ids) or (place != NOTHING).any():
            raise Wrong(f"{what} lies on something else, or outside of {memory}")
        place[:] = ids

    def _name_of(self, number: int) -> str:
        """Return what a byte is, for messages."""
        if number < 0:
            return "nothing" if number == NOTHING else "what is still on its way"
        if number == PADDING:
            return "padding"
        start, name = max((first, name) for name, first in self.first.items() if first <= number)
        return f"byte {number - start} of {name}"

    def _expect(self, memory: MemoryId, at: Array, wanted: Array, where: str) -> None:
        """Check bytes of a memory."""
        content = self.memories[memory]
        if at.size and (at.min() < 0 or at.max() >= len(content)):
            raise Wrong(f"{where}: reads outside of {memory}")
        found = content[at]
        if (found != wanted).any():
            k = np.flatnonzero((found != wanted).reshape(-1))[0]
            have, want = (self._name_of(int(a.reshape(-1)[k])) for a in (found, wanted))
            raise Wrong(f"{where}: {have} where {want} belongs")

    # -- the network -------------------------------------------------------------------------------

    def run(self) -> None:
        """Execute the plan; raises Wrong."""
        plan = self.plan
        boxes = [
            [] if step.is_view else parts_of(step, program)
            for step, program in zip(plan.steps, plan.program.layers, strict=True)
        ]
        self._inputs(plan.program.given)
        for operation in plan.program.operations:
            if isinstance(operation, Inputs):
                self._inputs(place for place in operation.places if place.level == 2)
            elif isinstance(operation, ExtStart):
                self._start_transfer(operation.transfer)
            elif isinstance(operation, ExtWait):
                self.slots.pop(operation.transfer.slot, None)
                self._land(operation.transfer)
            elif isinstance(operation, Dead):
                block = operation.block
                self.memories[l2_memory(block.memory)][block.offset : block.end] = NOTHING
            elif isinstance(operation, MoveRows):
                content = self.memories[l2_memory(operation.place.memory)]
                start = operation.place.offset
                source, size = operation.source, operation.bytes
                rows = content[source : source + size].copy()
                if (rows == NOTHING).any():
                    raise Wrong(f"step {operation.step}: bytes move that nothing wrote")
                content[start : source + size] = NOTHING
                content[start : start + size] = rows
            elif isinstance(operation, Replaced):
                pass  # a transfer that something else reads, or that is read later, is found there
            elif isinstance(operation, RunPart):
                box = boxes[operation.step][operation.part]
                self._part(operation.step, operation.part, box)
            elif isinstance(operation, Report):
                self._report(operation)
            elif isinstance(operation, Outputs):
                for place in operation.places:
                    self._expect(_memory(place), *self._elements(place), "end")
            elif isinstance(operation, BeginStates):
                self._inputs(state.place for state in operation.states)
            elif isinstance(operation, EndStates):
                self._end_states(operation)
            elif isinstance(operation, View):
                for operand in plan.steps[operation.step].inputs:
                    where = f"view {operand.place.tensor.name}"
                    self._expect(_memory(operand.place), *self._elements(operand.place), where)
            else:
                self._convert(operation.conversion)
        if self.flying:
            raise Wrong(f"never waited for: {list(self.flying)}")
        for step in plan.steps:
            if self.reported.get(step.index) != step.output.place.size_bytes:
                raise Wrong(f"layer {step.index} reports {self.reported.get(step.index)} bytes")

    def _inputs(self, places: Iterable[Place]) -> None:
        for place in places:
            ids = self._number(place.tensor.name, place.tensor.size_bytes)
            self._define(_memory(place), place.offset, ids, place.tensor.name)

    def _end_states(self, operation: EndStates) -> None:
        """Copy new state to its places, all of which lies there in the end."""
        for state in operation.states:
            if state.copied:
                at, ids = self._elements(state.left)
                self._expect(_memory(state.left), at, ids, f"copy of state {state.name}")
                at, ids = self._elements(state.at_end)
                self.memories[_memory(state.place)][at] = ids
        for state in operation.states:
            where = f"the next inference, state {state.name}"
            self._expect(_memory(state.at_end), *self._elements(state.at_end), where)

    def _report(self, report: Report) -> None:
        place = next(s.output.place for s in self.plan.steps if s.index == report.layer)
        done = self.reported.get(report.layer, 0)
        self.reported[report.layer] = done + report.bytes
        memory = L1 if report.level == 1 else l2_memory(report.memory)
        layout, tensor, first = place.layout, place.tensor, self.first[place.tensor.name]
        if layout.is_hwc:
            bytes_ = np.arange(report.bytes)
            wanted = first + done + bytes_
        else:
            row = layout.size_bytes(tensor) // tensor.height
            start, rows = done // row, report.bytes // row
            bytes_ = layout.offsets(replace(tensor, height=rows))
            wanted = first + HWC.offsets(tensor)[:, start : start + rows]
        self._expect(memory, report.offset + bytes_, wanted, f"report of layer {report.layer}")

    def _convert(self, conversion: Conversion) -> None:
        """Change the layout of a tensor; nothing reads the padding."""
        source, target = conversion.source, conversion.target
        self._expect(_memory(source), *self._elements(source), "conversion")
        content = self.memories[_memory(target)]
        content[target.offset : target.offset + target.size_bytes] = PADDING
        at, ids = self._elements(target)
        content[at] = ids

    # -- copies ------------------------------------------------------------------------------------

    def _start_transfer(self, one: ExtTransfer) -> None:
        """Start a transfer between L3 and L2."""
        if one.size <= 0 or one.slot in self.slots:
            raise Wrong(f"{one.name} is empty, or its ticket is still in use")
        self.slots[one.slot] = one
        near = (l2_memory(0), np.arange(one.l2_offset, one.l2_offset + one.size))
        far = (L3, np.arange(one.l3_offset, one.l3_offset + one.size))
        source, target = (far, near) if one.incoming else (near, far)
        flight = self._fly(one, *source, *target)
        # Fewer bytes than the link's unit at the end may be what a length was rounded up to.
        padding = (self.plan.ext.alignment_bytes if self.plan.ext is not None else 1) - 1
        if (flight.content[: one.size - padding] == NOTHING).any():
            raise Wrong(f"{one.block} copies bytes that are not there yet or no longer")

    def _start_copy(self, copy: Copy, values: Values, where: str, constants: str) -> None:
        """Start a copy between L2 and L1; what the cores copy is there behind a barrier."""
        n0, n1, n2 = (value(n, values) for n in copy.shape)
        channels = 1 if copy.channels is None else value(copy.channels, values)
        shape = (channels, n2, n1, n0 * copy.element_bytes)

        def bytes_of(address: Address, channel: int, strides: Iterable[int]) -> Array:
            row, plane = strides
            at = value(address.offset, values)
            for n, stride in zip(shape, (channel, plane, row, 1), strict=True):
                at = np.asarray(at)[..., None] + np.arange(n) * stride
            return at.reshape(-1)

        l1_strides = (value(stride, values) for stride in copy.l1_strides)
        near = (L1, bytes_of(copy.l1, value(copy.l1_channel, values), l1_strides))
        memory = constants if copy.l2.memory.is_constants else copy.l2.memory
        far = (memory, bytes_of(copy.l2, copy.l2_channel, copy.l2_strides))
        source, target = (far, near) if copy.to_l1 else (near, far)
        slot: object = value(copy.ticket_slot, values)
        if copy.carriage.by_cores:
            slot = f"barrier {len(self.flying)}"
        if (copy.operand, slot) in self.flying:
            raise Wrong(f"{where}: the ticket of {copy.operand} is still in use")
        self._fly((copy.operand, slot), *source, *target)

    def _fly(
        self,
        key: object,
        source: MemoryId,
        source_bytes: Array,
        target: MemoryId,
        target_bytes: Array,
    ) -> Flight:
        for memory, at in ((source, source_bytes), (target, target_bytes)):
            if at.size == 0:
                raise Wrong(f"{key} copies nothing")
            if at.min() < 0 or at.max() >= len(self.memories[memory]):
                raise Wrong(f"{key} leaves {memory}")
        content = self.memories[source][source_bytes]
        flight = Flight(source, source_bytes, target, target_bytes, content, self.next_mark)
        self.next_mark -= 1
        self.memories[target][target_bytes] = flight.mark  # undefined until it is waited for
        self.flying[key] = flight
        return flight

    def _land(self, key: object) -> None:
        flight = self.flying.pop(key)
        if not np.array_equal(self.memories[flight.source][flight.source_bytes], flight.content):
            raise Wrong(f"the source of {key} changed in flight")
        if (self.memories[flight.target][flight.target_bytes] != flight.mark).any():
            raise Wrong(f"the target of {key} was written in flight")
        self.memories[flight.target][flight.target_bytes] = flight.content

    # -- a part of a layer -------------------------------------------------------------------------

    def _part(self, number: int, part: int, whole: Box) -> None:
        step, program = self.plan.steps[number], self.plan.program.layers[number]
        where = f"layer {step.index} part {part}"
        constants = constants_of(number)
        boxes = iter(calls_of(step, program, part, whole, where))
        for operation, values in walk(program, part):
            if isinstance(operation, Copy) and operation.operand == AHEAD:
                assert step.ahead is not None
                later = self.plan.steps[step.ahead.step]
                linked = later.weights is not None and later.weights.linked
                if operation.l2.memory != (constants_of(later.index) if linked else l2_memory(0)):
                    raise Wrong(f"{where}: loads the constants of another layer")
                self._start_copy(operation, values, where, constants_of(step.ahead.step))
            elif isinstance(operation, Copy):
                self._start_copy(operation, values, where, constants)
            elif isinstance(operation, Wait):
                key = (operation.operand, value(operation.slot, values))
                if key in self.flying:
                    self._land(key)
                elif operation.open:
                    raise Wrong(f"{where}: waits for {operation.operand}, which has not started")
            elif isinstance(operation, Barrier):
                for key in [key for key in self.flying if "barrier" in str(key)]:
                    self._land(key)
            elif isinstance(operation, Mark):
                self._mark(operation, values)
            elif isinstance(operation, Call):
                arguments = {
                    name: (argument.memory, value(argument.offset, values))
                    for name, argument in operation.arguments.items()
                    if isinstance(argument, Address)
                }
                sizes = {
                    name: value(argument, values)
                    for name, argument in operation.arguments.items()
                    if argument is not None and not isinstance(argument, Address)
                }
                call = Called(self, step, number, part, *next(boxes), arguments, sizes, where)
                call.run()

    def _mark(self, mark: Mark, values: Values) -> None:
        """What lies in L1 when a layer begins is lost but for what it keeps; scratch is junk."""
        if mark.kind is MarkKind.LAYER:
            lost = np.ones(len(self.memories[L1]), dtype=bool)
            for start, end in self.kept:
                lost[start:end] = False
            loaded = self.flying.pop((AHEAD, 0), None)
            if loaded is not None:  # it is the layer's own from here on
                self.flying["w", 0] = loaded
                lost[loaded.target_bytes] = False
            self.memories[L1][lost] = NOTHING
            self.kept = []
        if mark.address is None:
            return
        start = value(mark.address.offset, values)
        end = start + value(mark.bytes, values)
        if mark.kind is MarkKind.KEEP:
            self.kept.append((start, end))
        if mark.kind is MarkKind.WRITE and mark.address.operand == "scratch":
            self.memories[mark.address.memory][start:end] = NOTHING


@dataclass
class Called:
    """A call of a kernel.

    box: of the output. channels: start and size of the input channels, which are the tile
    ``column``. places: memory and first byte of operands. sizes: numbers that the kernel is told.
    """

    machine: Machine
    step: LayerStep
    number: int
    part: int
    box: Box
    channels: tuple[int, int]
    column: int
    places: Mapping[str, tuple[MemoryId, int]]
    sizes: Mapping[str, int]
    where: str

    def run(self) -> None:
        """Check what the kernel reads, and write what it computes."""
        layer, sizes = self.step.layer, self.sizes
        start, size = self.channels
        last = is_channelwise(layer) or start + size == input_channels(layer)
        first = is_channelwise(layer) or start == 0
        if (bool(sizes["first"]), bool(sizes["last"])) != (first, last):
            raise Wrong(f"{self.where}: sums begin or end at the wrong tile")
        if isinstance(layer.op, KINDS):
            for name, tensor in zip(OPERANDS, layer.inputs, strict=False):
                self._input(name, tensor)
        if self.step.weights is not None:
            self._constants()
        if not (first and last):
            self._sums(first)
        if last:
            self._output()

    def _input(self, name: str, tensor: Tensor) -> None:
        memory, at = self.places[name]
        first = self.machine.first[tensor.name]
        start, size = self.channels
        plan = self.step.inputs[OPERANDS.index(name)]
        if isinstance(self.step.layer.op, Linear):
            if not plan.layout.is_hwc:
                bytes_, wanted = plan.layout.offsets(tensor), first + HWC.offsets(tensor)
                self.machine._expect(memory, at + bytes_, wanted, self.where)
                return
            begin, end = (_element_byte(tensor, n) for n in (start, start + size))
            wanted = np.arange(begin, end) + first
            self.machine._expect(memory, at + np.arange(len(wanted)), wanted, self.where)
            return
        rows, tensor_rows = self._taps(0, tensor.height, "x_h", "pad_top", "pad_bottom")
        columns, tensor_columns = self._taps(1, tensor.width, "x_w", "pad_left", "pad_right")
        if not plan.layout.is_hwc:
            tile = replace(tensor, channels=size, height=self.sizes["x_h"])
            there = plan.layout.offsets(tile)
            if plan.layout.strides(tile)[1] != self.sizes[f"{name}_pitch"]:
                raise Wrong(f"{self.where}: {name}_pitch is {self.sizes[f'{name}_pitch']}")
            wanted = first + HWC.offsets(tensor)[start : start + size]
            wanted = wanted[:, tensor_rows][:, :, tensor_columns]
            self.machine._expect(memory, at + there[:, rows][:, :, columns], wanted, self.where)
            return
        bytes_ = np.arange(pixel_bytes(size, tensor.bits))
        if plan.form == "channels":
            element = tensor.bits // 8
            plane = self.sizes["x_h"] * self.sizes["x_w"] * element
            inner = bytes_ // element * plane + bytes_ % element
            pixel = element
        else:
            inner, pixel = bytes_, len(bytes_)
        row = self.sizes["x_w"] * pixel
        if self.sizes[f"{name}_pitch"] != row:
            raise Wrong(f"{self.where}: {name}_pitch is {self.sizes[f'{name}_pitch']}, not {row}")
        pixels = rows[:, None] * self.sizes[f"{name}_pitch"] + columns * pixel
        whole = tensor_rows[:, None] * tensor.width + tensor_columns
        wanted = whole[..., None] * pixel_bytes(tensor.channels, tensor.bits) + bytes_
        wanted = wanted + first + start * tensor.bits // 8
        self.machine._expect(memory, at + pixels[..., None] + inner, wanted, self.where)

    def _taps(
        self, axis: int, total: int, tile: str, before: str, after: str
    ) -> tuple[Array, Array]:
        """Return the rows (columns) of the tile that the kernel reads, and what they are."""
        start, size = self.box.start[1 + axis], self.box.size[1 + axis]
        window = self.step.layer.op.sliding or Window(kernel=(1, 1))
        stride, dilation = window.strides[axis], window.dilations[axis]
        read = np.arange(size)[:, None] * stride + np.arange(window.kernel[axis]) * dilation
        local = np.unique(read - self.sizes[before])
        true = np.unique(read + start * stride - window.pads[axis])
        inside = (local >= 0) & (local < self.sizes[tile])
        if not np.array_equal(inside, (true >= 0) & (true < total)):
            raise Wrong(f"{self.where}: {before} is not where the tensor ends")
        reach = int(read.max()) + 1 - self.sizes[before] - self.sizes[tile]
        if not self.step.in_place and reach != self.sizes[after]:
            raise Wrong(f"{self.where}: {after} is {self.sizes[after]}, not {reach}")
        return local[inside], true[inside]

    def _constants(self) -> None:
        weights = self.step.weights
        assert weights is not None
        chunk = self.step.parts[self.part].chunk
        blocks = weights.chunks[chunk].tiles
        groups = [sum(row[0].channels for row in c.tiles) for c in weights.chunks]
        starts = np.cumsum([sum(groups[:chunk]), *(row[0].channels for row in blocks)]).tolist()
        if self.box.start[0] not in starts[:-1]:
            raise Wrong(f"{self.where}: the chunk has constants of other channels")
        row = starts.index(self.box.start[0])
        if blocks[row][0].channels != self.box.size[0]:
            raise Wrong(f"{self.where}: the chunk has constants of other channels")
        tile = blocks[row][self.column]
        ids = self.machine.first[f"constants {self.number}.{chunk}"] + tile.offset
        for name, offset in tile.parts.items():
            memory, at = self.places[name]
            memory = constants_of(self.number) if memory == CONSTANTS else memory
            wanted = ids + np.arange(tile.size)
            begin = at - offset
            self.machine._expect(memory, begin + np.arange(tile.size), wanted, self.where)

    def _sums(self, first: bool) -> None:
        memory, at = self.places["psum"]
        c, h, w = self.box.size
        place = self.machine.memories[memory][at : at + 4 * c * h * w]
        label, of = self.machine.sums
        if not first and (of != (self.number, self.part, self.box) or (place != label).any()):
            raise Wrong(f"{self.where}: the partial sums are not those of the tile")
        self.machine.next_mark -= 1
        place[:] = self.machine.next_mark
        self.machine.sums = (self.machine.next_mark, (self.number, self.part, self.box))

    def _output(self) -> None:
        tensor = self.step.layer.output
        memory, at = self.places["y"]
        (c0, h0, w0), (c, h, w) = self.box.start, self.box.size
        if c0 * tensor.bits % 8:
            raise Wrong(f"{self.where}: channels start inside a byte")
        pixels = np.arange(h0, h0 + h)[:, None] * tensor.width + np.arange(w0, w0 + w)
        ids = pixels[..., None] * pixel_bytes(tensor.channels, tensor.bits) + c0 * tensor.bits // 8
        ids = ids + np.arange(pixel_bytes(c, tensor.bits)) + self.machine.first[tensor.name]
        content = self.machine.memories[memory]
        layout, size = self.step.output.layout, ids.size
        if not layout.is_hwc:
            tile = replace(tensor, channels=c, height=h)
            size = layout.size_bytes(tile)
            row = layout.strides(tile)[1]
        else:
            row = w * pixel_bytes(c, tensor.bits)
        if at < 0 or at + size > len(content):
            raise Wrong(f"{self.where}: writes outside of {memory}")
        if self.sizes["y_pitch"] != row:
            raise Wrong(f"{self.where}: y_pitch is {self.sizes['y_pitch']}, not {row}")
        if layout.is_hwc:
            content[at : at + size] = ids.reshape(-1)
        else:
            content[at : at + size] = PADDING
            content[at + layout.offsets(tile)] = ids.transpose(2, 0, 1)


def _element_byte(tensor: Tensor, element: int) -> int:
    """Return the byte at which an element of a tensor lies, counted in HWC."""
    pixel, channel = divmod(element, tensor.channels)
    return pixel * pixel_bytes(tensor.channels, tensor.bits) + -(-channel * tensor.bits // 8)


def _memory(place: Place) -> MemoryId:
    return {1: L1, 2: l2_memory(place.memory), 3: L3}[place.level]
