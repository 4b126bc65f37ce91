"""Independent check of what lies where when it is read. It shares no code with the planners.

The execution is walked with a record of every tensor in every memory: writing a range of bytes ends
whatever overlapped it, and what is read must lie there, whole and in a layout that serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dory_core.errors import DoryError
from dory_core.ir import Linear
from dory_core.ir.layout import HWC, Layout

if TYPE_CHECKING:
    from dory_core.ir import Tensor
    from dory_core.plan import Conversion, ExtTransfer, LayerStep, OperandPlan, PartPlan, Place

_IN_L1 = (1, 0)
_IN_L2 = (2, 0)
_BELOW = 3  # tensors there pass through L2 in stripes


@dataclass(frozen=True, slots=True)
class _Range:
    """Bytes start to end of a memory; tensor: None for data of a layer alone."""

    start: int
    end: int
    tensor: str | None
    layout: Layout

    def meets(self, other: _Range) -> bool:
        return self.start < other.end and other.start < self.end


def verify_contents(
    steps: Sequence[LayerStep],
    inputs: Iterable[Place],
    outputs: Iterable[Place],
    final: Iterable[Conversion] = (),
    transfers: Iterable[ExtTransfer] = (),
) -> None:
    """Raise DoryError (a bug) unless every part finds its inputs, and the end the outputs.

    Steps in the order of execution. Tensors in L2 and L3 keep their bytes until something overlaps
    them, those in L1 until the next layer that does not find them there as its input. transfers:
    between L2 and L3; what one brings is there when it is waited for, and until then its bytes in
    both levels belong to it.
    """
    memory = _Memory()
    events: dict[int, list[ExtTransfer]] = {}
    for transfer in transfers:
        for position in {transfer.start, transfer.wait}:
            events.setdefault(position, []).append(transfer)
    for place in inputs:
        memory.write(place, "the network input")
    memory.transfer(events.get(-1, ()), -1)
    end = 0
    for step in steps:
        who = f"layer {step.index} '{step.layer.op.name}'"
        for part in step.parts:
            memory.transfer(events.get(part.position, ()), part.position)
            if part is step.parts[0]:
                for conversion in step.conversions:
                    memory.convert(conversion, who)
            memory.run(step, part, who)
            end = part.position + 1
    memory.transfer(events.get(end, ()), end)
    for conversion in final:
        memory.convert(conversion, "the end")
    for place in outputs:
        memory.read(place, HWC, place.tensor, "the end")


class _Memory:
    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], list[_Range]] = {}
        self._coming: dict[ExtTransfer, tuple[list[_Range], _Range, _Range | None]] = {}

    def transfer(self, events: Sequence[ExtTransfer], position: int) -> None:
        """Let transfers end and start before the part at a position, in the order of the code."""
        for one in events:
            if one.start < one.wait == position:
                self._end(one)
        for incoming in (False, True):
            mine = [one for one in events if one.incoming == incoming]
            for one in mine:
                if one.start == position:
                    self._start(one)
            for one in mine:
                if one.start == one.wait == position:
                    self._end(one)

    def _start(self, one: ExtTransfer) -> None:
        source, start, target, goal = _ends(one)
        found = self._at(source, start)
        if found is None and not one.incoming:
            raise _bug(f"{one.name} leaves L2 at {start}, where no tensor lies")
        # What L3 holds from the start are constants; they are known by their place.
        arrived = [_Range(goal, goal + one.size, f"byte {one.l3_offset} of L3 at {goal}", HWC)]
        here = _Range(start, start + one.size, None, HWC)
        for r in self._ranges.get(source, ()):
            if r.meets(here):
                first, last = max(r.start, start), min(r.end, start + one.size)
                arrived.append(replace(r, start=first - start + goal, end=last - start + goal))
        mark = _Range(goal, goal + one.size, f"{one.name} on its way", HWC)
        self._coming[one] = arrived, mark, found
        self._take(target, mark)

    def _end(self, one: ExtTransfer) -> None:
        source, _, target, _ = _ends(one)
        arrived, mark, found = self._coming.pop(one)
        if found is not None and found not in self._ranges.get(source, ()):
            raise _bug(f"{found.tensor} is written over while {one.name} is on its way")
        if mark not in self._ranges.get(target, ()):
            raise _bug(f"{one.name} is written over before it is waited for")
        for piece in arrived:
            self._take(target, piece)

    def _at(self, where: tuple[int, int], byte: int) -> _Range | None:
        ranges = self._ranges.get(where, ())
        return next((r for r in ranges if r.start <= byte < r.end), None)

    def _reads_piece(self, tensor: str | None, start: int, size: int, who: str) -> None:
        """Check that bytes of a tensor lie in L2, in one piece or several."""
        at = start
        while at < start + size:
            found = self._at(_IN_L2, at)
            if found is None or (tensor is not None and found.tensor != tensor):
                raise _bug(f"{who} reads {tensor} at {at} of L2, where it does not lie")
            at = found.end

    def _reads_constants(self, step: LayerStep, part: PartPlan, who: str) -> None:
        weights = step.weights
        if weights is None or part.weights is None:
            return
        chunk = weights.chunks[part.chunk]
        ahead = weights.offset + chunk.offset - part.weights
        at = part.weights
        while at < part.weights + len(chunk.data):
            found = self._at(_IN_L2, at)
            if (
                found is None
                or found.tensor != f"byte {found.start + ahead} of L3 at {found.start}"
            ):
                raise _bug(f"{who} reads its constants at {at} of L2, where they do not lie")
            at = found.end

    def write(self, place: Place, who: str, beside: Iterable[Place] = ()) -> None:
        """Let a tensor lie at a place; beside: what must be there afterwards, too."""
        new = _range(place)
        for other in beside:
            if _where(other) == _where(place) and new.meets(_range(other)):
                raise _bug(
                    f"{who} writes {place.tensor.name} over {other.tensor.name}, which it reads"
                )
        self._take(_where(place), new)

    def _take(self, where: tuple[int, int], new: _Range) -> None:
        left = [r for r in self._ranges.get(where, ()) if not r.meets(new)]
        self._ranges[where] = [*left, new]

    def read(self, place: Place, wanted: Layout, tensor: Tensor, who: str) -> None:
        """Check that a tensor lies at a place in a layout that serves ``wanted``."""
        at = _range(place)
        found = self._at(_where(place), at.start)
        if found is not None and (found.start != at.start or found.tensor != tensor.name):
            found = None
        piece = found
        while piece is not None and piece.end < at.end:  # brought in pieces
            piece = self._at(_where(place), piece.end)
            if piece is None or piece.tensor != tensor.name or place.level == 1:
                found = piece = None
        if found is None:
            raise _bug(
                f"{who} reads {tensor.name} at {place.offset} of L{place.level}, where it does not "
                "lie"
            )
        if not found.layout.serves(wanted, tensor):
            raise _bug(
                f"{who} reads {tensor.name} as {_text(wanted)}, it lies there as "
                f"{_text(found.layout)}"
            )

    def convert(self, conversion: Conversion, who: str) -> None:
        """Run a conversion, which leaves zeros in the padding."""
        source, target = conversion.source, conversion.target
        self.read(source, source.layout, source.tensor, who)
        if target.tensor.name != source.tensor.name or not target.layout.clean:
            raise _bug(f"{who}: a conversion makes no clean copy of {source.tensor.name}")
        self.write(target, who, beside=(source,))

    def run(self, step: LayerStep, part: PartPlan, who: str) -> None:
        """Run a part of a layer: its inputs, its buffers in L1, its output."""
        operands = zip(step.inputs, step.layer.inputs, part.inputs, strict=True)
        for transfer, tensor, start in operands:
            if transfer.place.level == _BELOW:
                self._reads_piece(tensor.name, start, _stripe_bytes(step, part, tensor), who)
            else:
                self.read(transfer.place, transfer.layout, tensor, who)
        self._reads_constants(step, part, who)
        self._use_l1(step, who)
        place = step.output.place
        if place.layout != step.output.layout:
            raise _bug(f"{who} writes its output as {_text(step.output.layout)}")
        if place.level != _BELOW:
            self.write(place, who, beside=[t.place for t in step.inputs])
        elif part.report is not None:
            start, size = part.report
            self._take(_IN_L2, _Range(start, start + size, place.tensor.name, place.layout))
        if part is step.parts[-1]:
            self._keep(step, who)

    def _keep(self, step: LayerStep, who: str) -> None:
        """Let what the layer keeps in L1 lie there, and nothing else."""
        there = {(r.start, r.end, r.tensor): r for r in self._ranges[_IN_L1]}
        kept = []
        for place in step.kept:
            wanted = _range(place)
            found = there.get((wanted.start, wanted.end, wanted.tensor))
            if place.level != 1 or found is None:
                raise _bug(
                    f"{who} keeps {place.tensor.name} at {place.offset} of L{place.level}, where "
                    "it does not lie"
                )
            kept.append(found)
        self._ranges[_IN_L1] = kept

    def _use_l1(self, step: LayerStep, who: str) -> None:
        """Let everything in L1 end that the layer's buffers overlap, but for the inputs that it
        finds there; its whole output lies there when that is one tile."""
        buffers = [
            _Range(offset, offset + buffer.bytes, buffer.name, HWC)
            for buffer in step.l1
            for offset in buffer.offsets
        ]
        for n, one in enumerate(buffers):
            for other in buffers[n + 1 :]:
                if one.meets(other):
                    raise _bug(f"{who}: buffers {one.tensor} and {other.tensor} of L1 overlap")
        starts = {buffer.name: buffer.offsets[0] for buffer in step.l1}
        stay = [t for t in step.inputs if t.place.level == 1]
        moved: list[tuple[str, OperandPlan]] = [
            *zip(("x", "x2"), step.inputs, strict=False),
            ("y", step.output),
        ]
        for name, transfer in moved:
            if transfer.place.level == 1 and starts.get(name) != transfer.place.offset:
                raise _bug(f"{who} does not have {transfer.place.tensor.name} in L1 where it lies")
        found = [_range(t.place) for t in stay]
        others = [
            r
            for r in self._ranges.get(_IN_L1, ())
            if r not in found and not any(r.meets(one) for one in buffers)
        ]
        self._ranges[_IN_L1] = [*found, *others]
        if step.tile_count == 1 and "y" in starts:
            output = step.output.place
            end = starts["y"] + output.size_bytes
            self._ranges[_IN_L1].append(
                _Range(starts["y"], end, output.tensor.name, step.output.layout)
            )


def _ends(one: ExtTransfer) -> tuple[tuple[int, int], int, tuple[int, int], int]:
    """Return memory and first byte of the source and of the target of a transfer."""
    near, far = (_IN_L2, one.l2_offset), ((_BELOW, 0), one.l3_offset)
    return (*far, *near) if one.incoming else (*near, *far)


def _stripe_bytes(step: LayerStep, part: PartPlan, tensor: Tensor) -> int:
    """Return the bytes that a part reads of a tensor whose stripes pass through L2."""
    if isinstance(step.layer.op, Linear):
        return tensor.size_bytes
    lines = part.schedule.h if tensor.height > 1 else part.schedule.w
    pitch = tensor.size_bytes // (tensor.height if tensor.height > 1 else tensor.width)
    return max(span.x_start + span.x_size for span in lines) * pitch


def _where(place: Place) -> tuple[int, int]:
    return (place.level, place.memory)


def _range(place: Place) -> _Range:
    return _Range(place.offset, place.offset + place.size_bytes, place.tensor.name, place.layout)


def _text(layout: Layout) -> str:
    return f"{layout.name}{'' if layout.clean else ' with junk in the padding'}"


def _bug(message: str) -> DoryError:
    return DoryError(
        f"memory plan is wrong: {message}", "This is a bug in dory: please report the network."
    )
