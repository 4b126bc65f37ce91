"""Independent check that the tiles of a layer are its output: all elements, and none beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from dory_core.ir.geometry import Span
from dory_core.memory.held import bug
from dory_core.plan import LayerStep, PartPlan


def verify_tiles(steps: Sequence[LayerStep]) -> None:
    """Raise DoryError (a bug) unless the tiles of each layer cover its output, (C, H, W).

    Tiles of an axis follow each other from 0 on. The only part of a layer has all of its output;
    several have no more than it each, and as many elements together, or more where layers that take
    turns compute rows twice.
    """
    for step in steps:
        if step.is_view:
            continue
        who, shape = f"layer {step.index} '{step.layer.op.name}'", step.layer.output.shape
        ends = [tuple(_ends(part, who)) for part in step.parts]
        inside = all(end <= size for one in ends for end, size in zip(one, shape, strict=True))
        if not inside or sum(map(prod, ends)) < prod(shape):
            raise bug(f"tiles of {who} end at {', '.join(map(str, ends))}, its output at {shape}")


def _ends(part: PartPlan, who: str) -> Iterator[int]:
    """Yield where the tiles of each axis of the output end."""
    schedule = part.schedule
    for spans in (schedule.c_out, schedule.h, schedule.w):
        yield _end(spans, who)


def _end(spans: Sequence[Span], who: str) -> int:
    end = 0
    for span in spans:
        if span.start != end or span.size < 1:
            raise bug(f"{who} has a tile from {span.start} of {span.size}, behind {end}")
        end += span.size
    return end
