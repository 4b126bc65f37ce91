"""The copies of a layer's tiles between two levels, and how the link carries them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import MappingProxyType

from dory_core.hardware.copies import AS_IT_IS, Carriage, CopySet, DmaCost, carry
from dory_core.hardware.links import Link
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Layer, Tensor, pixel_bytes
from dory_core.ir.geometry import input_channels, make_tile, read_span
from dory_core.ir.layout import HWC, Layout
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.call import OPERANDS
from dory_core.schedule.loops import L1_ALIGNMENT, Schedule

#: Where the data of a layer starts by operand (x, x2, y), once for each of its parts.
Bases = Mapping[str, Sequence[int]]

ALIGNED: Bases = MappingProxyType({})

#: How links that move everything carry copies.
PLAIN: Mapping[str, Carriage] = MappingProxyType(dict.fromkeys((*OPERANDS, "w", "y"), AS_IT_IS))


def moves_all(hierarchy: MemoryHierarchy) -> bool:
    """Return True where the links of L1 make every copy as it is."""
    return hierarchy.link(1).is_plain and hierarchy.constants_link.is_plain


def box_transfer(
    tensor: Tensor,
    rows: int,
    columns: int,
    channels: int,
    layout: Layout = HWC,
    planar: bool = False,
) -> DmaCost:
    """Return the transfer of a box of a tensor in the lower level to or from a dense tile.

    A box with all channels and columns is one row; with all channels, one row per image row; else
    one per pixel. The rows of a block of channels are contiguous and count as one row, as does a
    whole tensor. In layouts other than HWC the box has whole rows.

    Args:
        tensor: The tensor.
        rows: Rows of the box.
        columns: Its columns.
        channels: Its channels.
        layout: The layout of the tensor.
        planar: Whether the tile of an HWC tensor is CHW, which is moved element by element.
    """
    if layout.is_hwc:
        size = rows * columns * pixel_bytes(channels, tensor.bits)
    else:
        size = int(layout.box_bytes(tensor, channels, rows))
        columns = layout.padded_width(tensor.width)
    if layout.channel_block:
        blocks = int(layout.padded_channels(channels)) // layout.channel_block
        return DmaCost(size, 1 if rows == tensor.height else blocks)
    continues = columns == tensor.width
    if planar and layout.is_hwc and tensor.channels > 1:
        return DmaCost(size, rows * columns * channels, True, channels, rows, continues)
    if channels < tensor.channels:
        return DmaCost(size, rows * columns, planes=rows, planes_continue=continues)
    return DmaCost(size, rows if columns < tensor.width else 1)


class LayerCopies:
    """The copies of one layer's tiles."""

    def __init__(
        self,
        layer: Layer,
        bound: BoundKernel,
        resident: Collection[str] = (),
        weight_unit: int = 1,
        schedules: Sequence[Schedule] = (),
    ) -> None:
        """Describe the copies of a layer's tiles.

        Args:
            layer: The layer.
            bound: Its kernel.
            resident: Tensors (x, x2, y) that lie in L1 and are not moved.
            weight_unit: Granule of the length of weight blocks, in bytes.
            schedules: The tile loops that make the copies, where they are known.
        """
        self.layer = layer
        self.bound = bound
        traits = bound.traits
        self.planar = traits.planar
        self._input_layouts = traits.inputs
        self._output_layout = traits.output
        self._resident = resident
        self._unit = weight_unit
        self._schedules = schedules
        self._splits_columns = splits_columns(layer, schedules)  # else a tile with all columns

    @property
    def moved(self) -> tuple[tuple[str, Tensor, Layout], ...]:
        """Name, tensor and layout of the operands that are loaded."""
        triples = zip(OPERANDS, self.layer.inputs, self._input_layouts, strict=False)
        return tuple(t for t in triples if t[0] not in self._resident)

    def copy(self, operand: str, *sizes: int) -> DmaCost:
        """Return the transfer of a tile of an operand.

        Args:
            operand: ``w`` for constants, ``y`` for the output, or one of OPERANDS.
            sizes: Output and input channels of constants; channels, rows and columns of the output;
                rows, columns and channels of an input.
        """
        if operand == "w":
            return self.weights(*sizes)
        return self.output(*sizes) if operand == "y" else self._input(operand, *sizes)

    def _input(self, name: str, rows: int, columns: int, channels: int) -> DmaCost:
        operand = OPERANDS.index(name)
        tensor, layout = self.layer.inputs[operand], self._input_layouts[operand]
        if self.layer.op.reads_vector:
            share = channels / input_channels(self.layer)
            return DmaCost(max(1, round(layout.size_bytes(tensor) * share)), 1)
        all_c, all_h, all_w = self.layer.whole_axes(operand)
        channels = tensor.channels if all_c else channels
        rows = tensor.height if all_h else rows
        columns = tensor.width if all_w else columns
        cost = box_transfer(tensor, rows, columns, channels, layout, self.planar)
        one_row = cost.rows == 1 and layout.is_hwc
        return replace(cost, rows=rows) if one_row and self._splits_columns else cost

    def weights(self, c_out: int, c_in: int) -> DmaCost:
        """Return the transfer that loads a weight block: one row."""
        tile = make_tile(self.layer, c_out, self.layer.output.height, self.layer.output.width)
        size = int(self.bound.weight_bytes(replace(tile, c_in=c_in)))
        return DmaCost(-(-size // self._unit) * self._unit, 1)

    def output(self, c_out: int, h: int, w: int) -> DmaCost:
        """Return the transfer that stores an output tile."""
        return box_transfer(self.layer.output, h, w, c_out, self._output_layout)

    # -- how they are carried -----------------------------------------------------------------

    def carriages(self, hierarchy: MemoryHierarchy, bases: Bases = ALIGNED) -> dict[str, Carriage]:
        """Return how the link carries the copies of x, x2, w and y in the tile loops.

        Args:
            hierarchy: The memories and links.
            bases: The first byte of the data of each operand, for each part.
        """
        schedules = self._schedules
        link, constants, cores = hierarchy.link(1), hierarchy.constants_link, hierarchy.cores
        if moves_all(hierarchy):
            return dict(PLAIN)
        # Everything comes into L1 through one function: it obeys the limits of both links.
        link, constants = strictest(constants, link), strictest(link, constants)
        found: dict[str, Carriage] = {}
        for name, tensor, layout in self.moved:
            copies = self._loads(schedules, (name, tensor, layout), bases.get(name, ()))
            found[name] = carry(link, copies, cores)
        if schedules[0].has_weights:
            sizes = {(o.size, i.size) for s in schedules for o in s.c_out for i in s.c_in}
            blocks = CopySet([self.weights(o, i) for o, i in sizes], (L1_ALIGNMENT,))
            found["w"] = carry(constants, blocks, cores)
        if "y" not in self._resident:
            stores = self._stores(schedules, bases.get("y", ()), link.alignment_bytes)
            found["y"] = carry(link, stores, cores)
        return found

    def _loads(
        self,
        schedules: Sequence[Schedule],
        operand: tuple[str, Tensor, Layout],
        bases: Iterable[int],
    ) -> CopySet:
        name, tensor, layout = operand
        number = OPERANDS.index(name)
        all_c, all_h, all_w = self.layer.whole_axes(number)
        starts, pitches, shapes = {L1_ALIGNMENT, *bases}, set[int](), set[DmaCost]()
        chw = self.planar and layout.is_hwc and tensor.channels > 1
        for schedule in schedules:
            channels = _input_spans(schedule)
            rows, columns = (
                {read_span(self.layer, number, span) for span in axis}
                for axis in (schedule.h, schedule.w)
            )
            for (_, h), (_, w), (_, c) in product(rows, columns, channels):
                shapes.add(self._input(name, h, w, c))
            if self.layer.op.reads_vector:
                starts |= {self._linear_bytes(tensor, c) for c, _ in channels}
                continue
            starts |= _starts(
                tensor,
                layout,
                {0 if all_h else start for start, _ in rows},
                {0 if all_w else start for start, _ in columns},
                {0 if all_c else c for c, _ in channels},
            )
            whole = all_w or all(size == tensor.width for _, size in columns)
            all_channels = all_c or len(channels) == 1
            if schedule.is_channelwise and not all_c:  # of one group of channels, or of all
                all_channels = channels == {(0, tensor.channels)}
            pitches |= _pitches(tensor, layout, whole and not chw, all_channels and not chw)
            if chw:
                starts.add(tensor.bits // 8)
        return _copy_set(shapes, starts, pitches, may_round=True)

    def _linear_bytes(self, tensor: Tensor, channels: int) -> int:
        if tensor.channels * tensor.bits % 8 == 0:
            return channels * tensor.bits // 8
        return channels // tensor.channels * pixel_bytes(tensor.channels, tensor.bits)

    def _stores(self, schedules: Sequence[Schedule], bases: Iterable[int], unit: int) -> CopySet:
        tensor, layout = self.layer.output, self._output_layout
        starts, pitches, shapes = {L1_ALIGNMENT, *bases}, set[int](), set[DmaCost]()
        row = tensor.width * pixel_bytes(tensor.channels, tensor.bits)
        ends: set[int] = set()
        for schedule in schedules:
            sizes = (({s.size for s in a}) for a in (schedule.c_out, schedule.h, schedule.w))
            shapes |= {self.output(o, h, w) for o, h, w in product(*sizes)}
            whole = schedule.w[0].size == tensor.width
            all_channels = schedule.c_out[0].size == tensor.channels
            starts |= _starts(
                tensor,
                layout,
                {s.start for s in schedule.h},
                {s.start for s in schedule.w},
                {s.start for s in schedule.c_out},
            )
            pitches |= _pitches(tensor, layout, whole, all_channels)
            ends |= {(s.start + s.size) * row for s in schedule.h}
        # The tensor, or its only stripe, is a block of its own: the bytes after it are free.
        inner = ends - {tensor.height * row}
        may_round = layout.is_hwc and all(end % unit == 0 for end in inner)
        return _copy_set(shapes, starts, pitches, may_round)


def _copy_set(
    shapes: Collection[DmaCost], starts: Collection[int], pitches: Collection[int], may_round: bool
) -> CopySet:
    several = any(shape.rows > 1 for shape in shapes)
    return CopySet(tuple(shapes), starts, pitches if several else (), may_round)


def _input_spans(schedule: Schedule) -> set[tuple[int, int]]:
    """Return (start, size) of the input channels of all tiles."""
    if schedule.is_channelwise:
        return {(span.x_start, span.x_size) for span in schedule.c_out}
    return {(span.start, span.size) for span in schedule.c_in}


def _starts(
    tensor: Tensor,
    layout: Layout,
    rows: Iterable[int],
    columns: Iterable[int],
    channels: Iterable[int],
) -> set[int]:
    """Return the offsets of tiles in a tensor along each axis, in bytes."""
    pixel, row, block = layout.strides(tensor)
    channel_bits = block // layout.channel_block * 8 if block else tensor.bits
    found = {n * row for n in rows} | {n * pixel for n in columns}
    return found | {n * channel_bits // 8 for n in channels}


def _pitches(tensor: Tensor, layout: Layout, whole: bool, all_channels: bool) -> set[int]:
    """Return the pitches of boxes that have several rows or planes, in bytes.

    Args:
        tensor: The tensor.
        layout: Its layout.
        whole: Whether a tile has all columns.
        all_channels: Whether a tile has all channels.
    """
    pixel, row, block = layout.strides(tensor)
    if block:
        return {block}
    if not all_channels:
        return {pixel, row}
    return set() if whole else {row}


def splits_columns(layer: Layer, schedules: Sequence[Schedule]) -> bool:
    """Return True when a tile of these loops lacks columns of the input."""
    if layer.op.reads_vector:
        return False
    width = layer.inputs[0].width
    return any(span.x_size < width for schedule in schedules for span in schedule.w)


def strictest(one: Link, other: Link) -> Link:
    """Return the link ``other`` with the limits of both DMAs, as it is where ``one`` has none."""
    if not one.dma:
        return other
    limits = [link.max_bytes for link in (one, other) if link.max_bytes]
    return replace(
        other,
        alignment_bytes=max(one.alignment_bytes, other.alignment_bytes),
        max_bytes=min(limits, default=0),
        dimensions=min(one.dimensions, other.dimensions),
    )


def l1_dma(hierarchy: MemoryHierarchy) -> Link:
    """Return the link to L1 with the limits of every transfer into or out of it."""
    link, constants = hierarchy.link(1), hierarchy.constants_link
    return strictest(constants, link) if link.dma else strictest(link, constants)


def weight_unit(hierarchy: MemoryHierarchy) -> int:
    """Return the granule of the length of weight blocks, as the links to L1 need it, in bytes."""
    return max(hierarchy.link(1).alignment_bytes, hierarchy.constants_link.alignment_bytes)
