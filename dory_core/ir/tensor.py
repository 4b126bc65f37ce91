"""Tensors of a network: their shape, the values that they reach and how these are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from dory_core.expr import Expr, Number
from dory_core.hardware.memories import STORAGE_BITS

#: (C, H, W) of a tensor.
Shape = tuple[int, int, int]

#: Name of the type of elements that are stored as two halves, and how many of them lie together.
HALVES, HALVES_TOGETHER = "u8x2", 4


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation tensor of one image.

    Attributes:
        name: Unique in the network.
        channels, height, width: Logical shape; HWC in memory unless a kernel declares otherwise.
        lo, hi: Range that the elements can reach.
        bits, signed: Storage of one element.
        scale, zero_point: What a value of the file means, scale * (value - zero_point); None where
            the format does not say.
        offset: An element is the value of the file plus this.
        removed: (channel, value) of the channels in the file that are not stored, rising. They have
            this value of the file everywhere; None where nothing reads them and nothing computes
            them. channels counts those that are stored (``dory_core.ir.channels``).
        halves: An element of 16 bits is stored as two unsigned bytes, floor(v / 2) and v minus
            that: of four channels the first halves, then the second ones
            (``dory_core.passes.halves``).
        channel_scales: One scale per channel where each has its own; ``scale`` is None then, and
            values of different channels do not compare.
    """

    name: str
    channels: int
    height: int
    width: int
    lo: int
    hi: int
    bits: int
    signed: bool
    scale: float | None = None
    zero_point: int = 0
    offset: int = 0
    removed: tuple[tuple[int, int | None], ...] = ()
    halves: bool = False
    channel_scales: tuple[float, ...] = ()

    @property
    def has_scale(self) -> bool:
        """Whether the file says which real numbers the values stand for."""
        return self.scale is not None or bool(self.channel_scales)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        return (self.channels, self.height, self.width)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.channels * self.height * self.width

    @property
    def size_bytes(self) -> int:
        """Bytes in HWC layout; every pixel starts on a byte."""
        return self.height * self.width * pixel_bytes(self.channels, self.bits)

    @property
    def type_name(self) -> str:
        """Short element type: u8, i8, u16, i32..., and u8x2 of two halves."""
        if self.halves:
            return HALVES
        return f"{'i' if self.signed else 'u'}{self.bits}"


@overload
def pixel_bytes(channels: int, bits: int) -> int: ...


@overload
def pixel_bytes(channels: Expr, bits: int) -> Expr: ...


def pixel_bytes(channels: Number, bits: int) -> Number:
    """Return the bytes of one pixel of ``channels`` elements of ``bits`` bits.

    Args:
        channels: A number, an array or an expression.
        bits: Of an element.
    """
    return (channels * bits + 7) // 8 if bits < 8 else channels * (bits // 8)


def value_range(bits: int, signed: bool) -> tuple[int, int]:
    """Return the lowest and highest value of a storage."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def storage_for(lo: int, hi: int) -> tuple[int, bool]:
    """Return (bits, signed) of the smallest storage that holds every value of [lo, hi].

    Which storage a target uses is chosen later: ``dory_core.passes.storage``.

    Raises:
        OverflowError: When 32 bits are not enough.
    """
    signed = lo < 0
    for bits in STORAGE_BITS:
        low, high = value_range(bits, signed)
        if low <= lo and hi <= high:
            return bits, signed
    raise OverflowError(f"values in [{lo}, {hi}] do not fit 32 bits")
