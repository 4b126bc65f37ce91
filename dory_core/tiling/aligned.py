"""Objective terms of a link: tiles whose copies its DMA makes, in one command."""

from __future__ import annotations

from dory_core.expr import Number, minimum
from dory_core.hardware.links import Link
from dory_core.ir import Layer, Tensor, pixel_bytes
from dory_core.ir.geometry import Tile, extent, is_channelwise
from dory_core.kernels.kernel import Term, Traits

# The largest weight of terms of kernels: copies by the cores cost more than a smaller tile.
WEIGHT = 1e6


def copy_terms(layer: Layer, traits: Traits, tile: Tile, link: Link) -> tuple[Term, ...]:
    """Return the term for tiles whose boxes start and end on multiples of the link's alignment.

    Each HWC tensor that is moved counts 1 where its tiles do, or are the whole tensor. Other
    layouts have paddings of their own. Links that move everything have no term.

    Args:
        layer: The layer.
        traits: Those of its kernel.
        tile: Sizes as expressions.
        link: Between L2 and L1.
    """
    if not link.dma or (link.alignment_bytes == 1 and link.dimensions > 1):
        return ()
    full = extent(layer)
    wishes: list[Number] = []
    channels = tile.c_out if is_channelwise(layer) else tile.c_in
    if not layer.op.reads_vector and not traits.planar:
        for operand, (tensor, layout) in enumerate(zip(layer.inputs, traits.inputs, strict=True)):
            if layout.is_hwc and not any(layer.whole_axes(operand)):
                # Rows and columns of inputs start at any number, so one has to be a multiple.
                rows = _aligned(tensor.width * pixel_bytes(tensor.channels, tensor.bits), link)
                columns = _aligned(pixel_bytes(tensor.channels, tensor.bits), link)
                wishes.append(
                    minimum(
                        _either(rows, tile.h == full.h),
                        _either(columns, tile.w == full.w),
                        _channels(tensor, channels, link),
                        _either(link.dimensions > 1, tile.w == full.w),
                    )
                )
    if traits.output.is_hwc:
        y = layer.output
        pixel = pixel_bytes(y.channels, y.bits)
        row = y.width * pixel
        wishes.append(
            minimum(
                _multiple(tile.h * row, tile.h == full.h, link),
                _multiple(tile.w * pixel, tile.w == full.w, link, row),
                _channels(y, tile.c_out, link),
                _either(link.dimensions > 1, tile.w == full.w),
            )
        )
    return (Term("ALIGNED_COPIES", WEIGHT, sum(wishes)),) if wishes else ()


def _aligned(size: int, link: Link) -> bool:
    return size % link.alignment_bytes == 0


def _either(always: bool, condition: Number) -> Number:
    return 1 if always else condition * 1


def _multiple(size: Number, whole: Number, link: Link, pitch: int = 0) -> Number:
    """Return 1 where a size is a multiple of the alignment, as the pitch must be, or is all."""
    if not _aligned(pitch, link):
        return whole * 1
    return 1 - minimum(size % link.alignment_bytes, 1 - whole)


def _channels(tensor: Tensor, channels: Number, link: Link) -> Number:
    """Return 1 where the DMA moves slices of a number of channels, or one slice has all."""
    whole = channels == tensor.channels
    if link.dimensions == 1:
        return whole * 1
    pixel = pixel_bytes(tensor.channels, tensor.bits)
    return _multiple(channels * tensor.bits // 8, whole, link, pixel)
