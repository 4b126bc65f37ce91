"""Independent check of what lies where when it is read. It shares no code with the planners.

The execution is walked with a record of every tensor in every memory: writing a range of bytes ends
whatever overlapped it, and what is read must lie there, whole and in a layout that serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.errors import DoryError
from dory_core.ir.layout import HWC, Layout

if TYPE_CHECKING:
    from dory_core.ir import Tensor
    from dory_core.plan import Conversion, LayerStep, OperandPlan, Place

_IN_L1 = (1, 0)


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
) -> None:
    """Raise DoryError (a bug) unless every layer finds its inputs, and the end the outputs.

    Steps in the order of execution, each in one part. Tensors in L2 keep their bytes until
    something overlaps them, those in L1 until the next layer that does not find them there as its
    input.
    """
    memory = _Memory()
    for place in inputs:
        memory.write(place, "the network input")
    for step in steps:
        who = f"layer {step.index} '{step.layer.op.name}'"
        for conversion in step.conversions:
            memory.convert(conversion, who)
        memory.run(step, who)
    for conversion in final:
        memory.convert(conversion, "the end")
    for place in outputs:
        memory.read(place, HWC, place.tensor, "the end")


class _Memory:
    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], list[_Range]] = {}

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
        found = next(
            (
                r
                for r in self._ranges.get(_where(place), ())
                if (r.start, r.end, r.tensor) == (at.start, at.end, tensor.name)
            ),
            None,
        )
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

    def run(self, step: LayerStep, who: str) -> None:
        """Run a layer: its inputs, its buffers in L1, its output."""
        for transfer, tensor in zip(step.inputs, step.layer.inputs, strict=True):
            self.read(transfer.place, transfer.layout, tensor, who)
        self._use_l1(step, who)
        place = step.output.place
        if place.layout != step.output.layout:
            raise _bug(f"{who} writes its output as {_text(step.output.layout)}")
        self.write(place, who, beside=[t.place for t in step.inputs])
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
