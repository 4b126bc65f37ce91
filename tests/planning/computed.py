"""What each part and each call of a layer computes, from their order and their sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.ir import Conv
from dory_core.ir.geometry import channel_granule, is_channelwise
from dory_core.plan import LayerStep
from dory_core.plan.operations import Address, Call, LayerProgram
from tests.plan.walk import Values, value, walk


class Wrong(AssertionError):
    """The plan computes something else than the network, or may do so."""


@dataclass
class Box:
    """What a call, or a part, computes: start and size along channels, rows and columns."""

    start: tuple[int, int, int]
    size: tuple[int, int, int]


def parts_of(step: LayerStep, program: LayerProgram) -> list[Box]:
    """Return what each part computes, from the order and the sizes of the parts alone."""
    y = step.layer.output
    full = (y.height, y.width)
    sizes = []
    for part in range(program.parts):
        told = [_told(operation, values) for operation, values in calls(program, part)]
        along = ({t[axis]: t[1 + axis] for t in told} for axis in (0, 2, 4))
        sizes.append(tuple(sum(one.values()) for one in along))
    axis = next((a for a in (0, 1) if any(size[1 + a] != full[a] for size in sizes)), None)
    chunks = [part.chunk for part in step.parts]
    channels: dict[int, int] = {}
    for chunk, size in zip(chunks, sizes, strict=True):
        if channels.setdefault(chunk, size[0]) != size[0]:
            raise Wrong(f"layer {step.index}: parts of one chunk have other channels")
    if sum(channels.values()) != y.channels or sorted(channels) != list(range(len(channels))):
        raise Wrong(f"layer {step.index}: the groups have {channels} of {y.channels} channels")
    done = dict.fromkeys(channels, 0)
    boxes = []
    for chunk, size in zip(chunks, sizes, strict=True):
        start = [sum(channels[n] for n in range(chunk)), 0, 0]
        if axis is not None:
            start[1 + axis] = done[chunk]
        done[chunk] += 1 if axis is None else size[1 + axis]
        boxes.append(Box((start[0], start[1], start[2]), size))
    if any(n != (1 if axis is None else full[axis]) for n in done.values()):
        raise Wrong(f"layer {step.index}: stripes cover {done}, not each row once")
    return boxes


def calls(program: LayerProgram, part: int) -> list[tuple[Call, Values]]:
    """Return the calls of a part."""
    return [(op, values) for op, values in walk(program, part) if isinstance(op, Call)]


def _told(call: Call, values: Values) -> tuple[int, ...]:
    """Return position and size along output channels, rows, columns, input channels."""
    found = []
    for axis, name in (("o", "y_c"), ("h", "y_h"), ("w", "y_w"), ("i", "x_c")):
        size = call.arguments[name]
        assert size is not None and not isinstance(size, Address)
        found += [values.get(axis, 0), value(size, values)]
    return tuple(found)


def calls_of(
    step: LayerStep, program: LayerProgram, part: int, whole: Box, where: str
) -> list[tuple[Box, tuple[int, int], int]]:
    """Return the box of each call of a part, start and size of its input channels, their tile.

    Positions along an axis count up; the sizes before one are where it starts.
    """
    layer = step.layer
    told = [_told(operation, values) for operation, values in calls(program, part)]
    starts: list[dict[int, int]] = []
    for axis in (0, 2, 4, 6):
        sizes = {t[axis]: t[axis + 1] for t in told}
        starts.append({n: sum(sizes[m] for m in sizes if m < n) for n in sizes})
    boxes = []
    for o, c, h, height, w, width, i, x_c in told:
        start = (
            whole.start[0] + starts[0][o],
            whole.start[1] + starts[1][h],
            whole.start[2] + starts[2][w],
        )
        channels = (starts[3][i], x_c)
        if is_channelwise(layer):
            each = layer.op.groups if isinstance(layer.op, Conv) else layer.output.channels
            channels = (
                start[0] // channel_granule(layer) * (layer.inputs[0].channels // each),
                x_c,
            )
        boxes.append((Box(start, (c, height, width)), channels, i))
    seen = {(box.start, channels[0]) for box, channels, _ in boxes}
    if len(seen) != len(boxes):
        raise Wrong(f"{where}: a tile is computed twice")
    return boxes
