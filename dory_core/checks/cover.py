"""Independent check that tiles cover each output, and that constants do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from dory_core.checks.held import bug
from dory_core.ir.geometry import Span
from dory_core.plan import LayerStep, PartPlan

_NEVER = 1 << 62  # an end that no memory has


def verify_tiles(steps: Sequence[LayerStep]) -> None:
    """Raise DoryError (a bug) unless the tiles of each layer cover its output, (C, H, W).

    Tiles of an axis follow each other from 0 on. Parts lie within the output of the layer. Together
    they have as many elements as the output.
    Groups of channels follow each other, or fill the whole output.
    """
    for step in steps:
        if step.is_view:
            continue
        who, shape = f"layer {step.index} '{step.layer.op.name}'", step.layer.output.shape
        ends = [tuple(_ends(part, who)) for part in step.parts]
        inside = all(end <= size for part in ends for end, size in zip(part, shape, strict=True))
        if not inside or sum(map(prod, ends)) != prod(shape):
            raise bug(f"tiles of {who} end at {', '.join(map(str, ends))}, its output at {shape}")
        if any(channels < shape[0] for channels, _, _ in ends):
            _verify_groups(step, ends, who)


def _verify_groups(step: LayerStep, ends: Sequence[tuple[int, ...]], who: str) -> None:
    """Raise DoryError unless groups of channels are adjacent in the output.

    In layouts with blocks of channels a group has rows of its own, which the check of contents
    follows.
    """
    place, (channels, height, width) = step.output.place, step.layer.output.shape
    if step.output.layout.channel_block:
        return
    pixel = place.size_bytes // (height * width)
    if place.level == 2 and not place.passing:
        written = np.zeros((height * width, channels), dtype=bool)
        for part, (count, rows, columns) in zip(step.parts, ends, strict=True):
            first, byte = divmod(part.output - place.offset, pixel)
            channel = byte * 8 // place.tensor.bits
            pixels = first + width * np.arange(rows)[:, None] + np.arange(columns)
            if channel + count > channels or not 0 <= first <= pixels[-1, -1] < height * width:
                raise bug(f"{who} has a group of channels outside its output")
            written[pixels.ravel(), channel : channel + count] = True
        if not written.all():
            raise bug(f"{who} has groups that leave channels of its output unwritten")
        return
    channel = 0  # first channel of the next group of a stripe
    for (part, (count, _, _)), (following, _) in pairwise(zip(step.parts, ends, strict=True)):
        channel += count
        if channel < channels and following.output - part.output != count * place.tensor.bits // 8:
            raise bug(f"{who} has groups of channels that do not follow each other")
        channel %= channels


def verify_constants(steps: Sequence[LayerStep]) -> None:
    """Raise DoryError (a bug) when constants overlap.

    Chunks lie in their table, tables of streamed constants in the image of their level.
    """
    tables = []
    for step in steps:
        table = step.weights
        if table is None:
            continue
        who = f"layer {step.index} '{step.layer.op.name}'"
        chunks = [(c.offset, c.offset + len(c.data), f"constants of {who}") for c in table.chunks]
        _verify_apart([*chunks, (table.size, _NEVER, f"the end of the table of {who}")])
        if not table.linked:
            tables.append((table.offset, table.offset + table.size, f"constants of {who}"))
    _verify_apart(tables)


def _verify_apart(blocks: Sequence[tuple[int, int, str]]) -> None:
    """Raise DoryError when blocks (start, end, owner) of a memory overlap."""
    for (start, end, owner), (following, _, next_owner) in pairwise(sorted(blocks)):
        if following < end:
            raise bug(f"{owner}, bytes {start} to {end - 1}, overlap {next_owner} at {following}")


def _ends(part: PartPlan, who: str) -> Iterator[int]:
    """Yield the end of the tiles of each axis of the output."""
    schedule = part.schedule
    for spans in (schedule.c_out, schedule.h, schedule.w):
        yield _end(spans, who)


def _end(spans: Sequence[Span], who: str) -> int:
    end = 0
    for span in spans:
        if span.start != end or span.size < 1:
            raise bug(f"{who} has a tile from {span.start} of {span.size}, after {end}")
        end += span.size
    return end
