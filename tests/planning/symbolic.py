"""A second opinion on streamed plans: the program is executed on names of bytes instead of bytes.

Every byte of every tensor and of every chunk of constants has a number. L2 and L3 are arrays of
such numbers, transfers copy them, and each part must find exactly the rows and constants that it
needs; so is L1 as far as tensors stay there. It reads the Plan alone and works out for itself which
rows a part computes and reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dory_core.ir import AvgPool, Conv, Layer, Linear, MaxPool, pixel_bytes
from dory_core.plan import RESIDENT, ExtTransfer, LayerStep, PartPlan, Plan

NOTHING = -1


class Wrong(AssertionError):
    """The plan computes something else than the network, or may do so."""


@dataclass
class Box:
    """What a part computes: rows (columns of 1-D data) and output channels, in the whole layer."""

    axis: int | None
    start: int
    size: int
    first_channel: int
    channels: int


@dataclass
class Machine:
    """L1, L2 and L3 by the number of the byte that lies there; transfers in flight."""

    plan: Plan
    l1: np.ndarray = field(init=False)
    l2: np.ndarray = field(init=False)
    l3: np.ndarray = field(init=False)
    numbers: dict[str, int] = field(default_factory=dict)
    flying: dict[int, tuple[ExtTransfer, np.ndarray]] = field(default_factory=dict)
    reported: dict[int, int] = field(default_factory=dict)
    next_number: int = 0

    def __post_init__(self) -> None:
        plan = self.plan
        self.l1 = np.full(plan.arena_bytes[1], NOTHING, dtype=np.int32)
        self.l2 = np.full(plan.arena_bytes[2], NOTHING, dtype=np.int32)
        used = max(
            (t.l3_offset + t.size for t in plan.transfers),
            default=0,
        )
        places = [*plan.inputs, *plan.outputs]
        used = max([used, *(p.offset + p.tensor.size_bytes for p in places if p.level == 3)])
        used = max(
            [
                used,
                *(
                    s.weights.offset + s.weights.size
                    for s in plan.steps
                    if s.weights is not None and s.weights.level == 3
                ),
            ]
        )
        self.l3 = np.full(used, NOTHING, dtype=np.int32)
        for step in plan.steps:
            for transfer in (*step.inputs, step.output):
                self._number(transfer.place.tensor.name, transfer.place.tensor.size_bytes)
            if step.weights is not None and step.weights.level == 3:
                for n, chunk in enumerate(step.weights.chunks):
                    ids = self._number(f"weights {step.index}.{n}", len(chunk.data))
                    at = step.weights.offset + chunk.offset
                    if (self.l3[at : at + len(ids)] != NOTHING).any():
                        raise Wrong(f"constants of layer {step.index} overlap in L3")
                    self.l3[at : at + len(ids)] = ids

    def _number(self, name: str, size: int) -> np.ndarray:
        if name not in self.numbers:
            self.numbers[name] = self.next_number
            self.next_number += size
        return np.arange(self.numbers[name], self.numbers[name] + size, dtype=np.int32)

    def name_of(self, number: int) -> str:
        """Return what a byte is, for messages."""
        if number == NOTHING:
            return "nothing"
        below = [(first, name) for name, first in self.numbers.items() if first <= number]
        first, name = max(below)
        return f"byte {number - first} of {name}"

    # -- execution ----------------------------------------------------------------------------

    def run(self) -> None:
        """Execute the plan; raises Wrong."""
        plan = self.plan
        parts = {part.position: (step, part) for step in plan.steps for part in step.parts}
        boxes = {
            p.position: b for s in plan.steps for p, b in zip(s.parts, boxes_of(s), strict=True)
        }
        end = len(parts)
        if sorted(parts) != list(range(end)):
            raise Wrong("positions of the parts have gaps")
        for place in plan.inputs:
            ids = self._number(place.tensor.name, place.tensor.size_bytes)
            memory = self.l2 if place.level == 2 else self.l3
            if (memory[place.offset : place.offset + len(ids)] != NOTHING).any():
                raise Wrong(f"{place.tensor.name} lies on constants or on another input")
            memory[place.offset : place.offset + len(ids)] = ids
        for position in range(-1, end + 1):
            self._transfers(position)
            if position in parts:
                self._part(*parts[position], boxes[position])
        if self.flying:
            raise Wrong(f"never waited for: {[t.name for t, _ in self.flying.values()]}")
        for place in plan.outputs:
            memory = self.l2 if place.level == 2 else self.l3
            self._expect(memory, place.offset, place.tensor.name, 0, place.tensor.size_bytes, "end")
        for step in plan.steps:
            if self.reported.get(step.index) != step.layer.output.size_bytes:
                raise Wrong(f"layer {step.index} reports {self.reported.get(step.index)} bytes")

    def _transfers(self, position: int) -> None:
        mine = [(n, t) for n, t in enumerate(self.plan.transfers) if t.wait == position]
        for n, t in mine:
            if t.start < t.wait:
                self._wait(n)
        for incoming in (False, True):
            blocking = []
            for n, t in enumerate(self.plan.transfers):
                if t.incoming != incoming or t.start != position:
                    continue
                self._start(n, t)
                if t.wait == position:
                    blocking.append(n)
            for n in blocking:
                self._wait(n)

    def _sides(self, t: ExtTransfer) -> tuple[np.ndarray, np.ndarray]:
        near = self.l2[t.l2_offset : t.l2_offset + t.size]
        far = self.l3[t.l3_offset : t.l3_offset + t.size]
        return (far, near) if t.incoming else (near, far)

    def _start(self, n: int, t: ExtTransfer) -> None:
        if t.wait < t.start or t.size <= 0:
            raise Wrong(f"{t.name} is waited for before it starts, or empty")
        if any(other.slot == t.slot for other, _ in self.flying.values()):
            raise Wrong(f"the ticket of {t.name} is still in use")
        source, target = self._sides(t)
        if len(source) != t.size or len(target) != t.size:
            raise Wrong(f"{t.name} leaves its memory")
        # Fewer bytes than the link's unit at the end may be what a length was rounded up to.
        padding = (self.plan.ext.alignment_bytes if self.plan.ext is not None else 1) - 1
        if (source[: t.size - padding] == NOTHING).any():
            raise Wrong(f"{t.name} copies bytes that are not there yet or no longer")
        for other, _ in self.flying.values():
            for near in (True, False):
                a, b = (t.l2_offset, other.l2_offset) if near else (t.l3_offset, other.l3_offset)
                meet = a < b + other.size and b < a + t.size
                # Both only read this memory when both come from it.
                if meet and not (t.incoming == other.incoming and t.incoming != near):
                    raise Wrong(f"{t.name} and {other.name} meet in L{2 if near else 3}")
        self.flying[n] = (t, source.copy())
        target[:] = NOTHING  # undefined until it is waited for

    def _wait(self, n: int) -> None:
        t, content = self.flying.pop(n)
        source, target = self._sides(t)
        if not np.array_equal(source, content):
            raise Wrong(f"the source of {t.name} changed in flight")
        target[:] = content

    def _expect(
        self, memory: np.ndarray, at: int, name: str, first: int, size: int, where: str
    ) -> None:
        wanted = np.arange(self.numbers[name] + first, self.numbers[name] + first + size)
        found = memory[at : at + size]
        if at < 0 or len(found) != size:
            raise Wrong(f"{where}: {name} lies outside of the memory")
        wrong = np.flatnonzero(found != wanted)
        if len(wrong):
            k = int(wrong[0])
            raise Wrong(
                f"{where}: {self.name_of(int(found[k]))} where byte {first + k} of {name} belongs"
            )

    def _part(self, step: LayerStep, part: PartPlan, box: Box) -> None:
        where = f"layer {step.index} part at {part.position}"
        layer = step.layer
        for operand, (tensor, offset) in enumerate(zip(layer.inputs, part.inputs, strict=True)):
            first, size, shift = needed_rows(layer, operand, part, box)
            pitch = tensor.size_bytes // extent_along(tensor, box.axis)
            memory = self.l1 if step.inputs[operand].form == RESIDENT else self.l2
            self._expect(
                memory, offset + shift * pitch, tensor.name, first * pitch, size * pitch, where
            )
        self._use_l1(step)
        if step.weights is not None and step.weights.level == 3:
            chunk = step.weights.chunks[part.chunk]
            assert part.weights is not None
            name = f"weights {step.index}.{part.chunk}"
            self._expect(self.l2, part.weights, name, 0, len(chunk.data), where)
            rows = [span.size for span in part.schedule.c_out]
            if len(rows) != len(chunk.tiles) or sum(rows) != box.channels:
                raise Wrong(f"{where}: the chunk has constants of other channels")
        self._write(step, part, box, where)
        if part.report is not None:
            at, size = part.report
            done = self.reported.get(step.index, 0)
            memory = self.l1 if step.output.form == RESIDENT else self.l2
            self._expect(memory, at, layer.output.name, done, size, f"{where}: report")
            self.reported[step.index] = done + size

    def _use_l1(self, step: LayerStep) -> None:
        """Overwrite the buffers of a layer but for the operands in them that stay."""
        stay = {place.offset for place in step.found}
        for block in step.l1:
            for offset in block.offsets:
                if block.name not in ("x", "x2") or offset not in stay:
                    self.l1[offset : offset + block.bytes] = NOTHING
        y = step.block("y")
        name, size = step.layer.output.name, step.layer.output.size_bytes
        if step.tile_count == 1 and y is not None:
            self.l1[y.offsets[0] : y.offsets[0] + size] = self._number(name, size)

    def _write(self, step: LayerStep, part: PartPlan, box: Box, where: str) -> None:
        y = step.layer.output
        pixel, first = pixel_bytes(y.channels, y.bits), box.first_channel * y.bits
        assert first % 8 == 0, f"{where}: a group starts inside a byte"
        total = extent_along(y, box.axis)
        cut = y.size_bytes // total // pixel  # pixels per row or column
        rows = np.arange(box.start, box.start + box.size)
        pixels = (rows[:, None] * cut + np.arange(cut)).reshape(-1)
        here = np.arange(box.size * cut)
        row = np.arange(pixel_bytes(box.channels, y.bits))
        ids = self.numbers[y.name] + pixels[:, None] * pixel + first // 8 + row
        if step.output.form == RESIDENT:
            return
        at = part.output + here[:, None] * pixel + row
        for t, _ in self.flying.values():
            low, high = int(at.min()), int(at.max()) + 1
            if t.l2_offset < high and low < t.l2_offset + t.size:
                touched = at[(at >= t.l2_offset) & (at < t.l2_offset + t.size)]
                if touched.size:
                    raise Wrong(f"{where}: writes where {t.name} is in flight")
        self.l2[at] = ids


def extent_along(tensor: object, axis: int | None) -> int:
    """Return the number of stripes of one row (column) that a tensor has."""
    if axis is None:
        return 1
    return tensor.height if axis == 0 else tensor.width  # type: ignore[attr-defined]


def boxes_of(step: LayerStep) -> list[Box]:
    """Return what each part computes, from the order and the sizes of the parts alone."""
    layer = step.layer
    y = layer.output
    sizes = [
        (
            sum(s.size for s in p.schedule.c_out),
            sum(s.size for s in p.schedule.h),
            sum(s.size for s in p.schedule.w),
        )
        for p in step.parts
    ]
    axis: int | None = None
    if any(h != y.height for _, h, _ in sizes):
        axis = 0
    elif any(w != y.width for _, _, w in sizes):
        axis = 1
    channels: dict[int, int] = {}
    for part, (c, _, _) in zip(step.parts, sizes, strict=True):
        if channels.setdefault(part.chunk, c) != c:
            raise Wrong(f"layer {step.index}: parts of one chunk have other channels")
    if sum(channels.values()) != y.channels or sorted(channels) != list(range(len(channels))):
        raise Wrong(f"layer {step.index}: the groups have {channels} of {y.channels} channels")
    first = {n: sum(channels[m] for m in range(n)) for n in channels}
    done = dict.fromkeys(channels, 0)
    boxes = []
    for part, (c, h, w) in zip(step.parts, sizes, strict=True):
        size = 1 if axis is None else (h, w)[axis]
        boxes.append(Box(axis, done[part.chunk], size, first[part.chunk], c))
        done[part.chunk] += size
    if any(n != extent_along(y, axis) for n in done.values()):
        raise Wrong(f"layer {step.index}: stripes cover {done}, not each row once")
    return boxes


def needed_rows(layer: Layer, operand: int, part: PartPlan, box: Box) -> tuple[int, int, int]:
    """Return (first row, rows, rows between the part's offset and the first) of what is read."""
    if box.axis is None or isinstance(layer.op, Linear):
        return 0, 1, 0
    spans = part.schedule.h if box.axis == 0 else part.schedule.w
    low = min(s.x_start for s in spans)
    high = max(s.x_start + s.x_size for s in spans)
    if not isinstance(layer.op, (Conv, MaxPool, AvgPool)):
        return box.start, box.size, low
    window = layer.op.window
    total = extent_along(layer.inputs[operand], box.axis)
    read: set[int] = set()
    for row in range(box.start, box.start + box.size):
        start = row * window.strides[box.axis] - window.pads[box.axis]
        for tap in range(window.kernel[box.axis]):
            at = start + tap * window.dilations[box.axis]
            if 0 <= at < total:
                read.add(at)
    if not read:
        return 0, 0, low
    first, last = min(read), max(read)
    if high - low < last - first + 1:
        raise Wrong(f"layer {layer.op.index}: a part reads {high - low} rows of {first}-{last}")
    return first, last - first + 1, _shift(box, window.strides, window.pads, total, first)


def _shift(
    box: Box, strides: tuple[int, ...], pads: tuple[int, ...], total: int, first: int
) -> int:
    """Return how far behind the start of the stripe its first row that counts lies."""
    assert box.axis is not None
    start = box.start * strides[box.axis] - pads[box.axis]
    return first - min(max(start, 0), total - 1)


def check_plan(plan: Plan) -> None:
    """Raise Wrong unless the plan computes the network whatever the speed of its transfers."""
    Machine(plan).run()
