"""Parameters of ``dory_cortex_m55_requant_t``: numbers of all channels, and what they take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.api import Argument, Number, Operand, Requant, Struct, Symbol, ceil_div
from dory_cortex_m55 import calibration as costs

#: The same channel eight times: the places of a form with one step for all channels.
ONE_CHANNEL = np.zeros(8, np.intp)

Integers = npt.NDArray[np.int64]

# The shift to the right of which narrowing is a part.
FAST_DOWN = costs.FAST_DOWN
# Shifts to the right of a vector.
_MOST_DOWN = 31
_INT16 = (1 << 15) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """Parameters of all channels, int64, shape (C,); x is a sum of the kernel, and the bias.

    below: what is added as well where x is negative, None for nothing. up: of SCALAR without use.
    Of BINARY32 mul are the bits of the scales, and up is what is added last, the same for all.
    table: what becomes of each byte in a step that follows, shape (256,); None without one.
    """

    form: str
    bias: Integers
    add: Integers
    mul: Integers
    below: Integers | None
    up: Integers
    down: int
    clip: tuple[int, int]
    table: Integers | None = None

    @property
    def _parts(self) -> tuple[Integers | None, ...]:
        """Return the arrays of ``channels``; None has no values but zero."""
        turned = (self.bias << self.up) + self.add
        named = {
            "VECTOR": (self.add, self.mul),
            "PLAIN": (self.add, self.mul),
            "TURNED": (turned, self.add, self.below, self.mul),
            "SUMS": (self.bias,),
            "BINARY32": (self.bias, self.mul),
            "ROUNDED": (self.bias, self.mul),
            "SHIFTED": (self.bias, self.below, self.add, self.mul, self.up),
        }
        return named.get(self.form, (self.bias, self.below, self.add, self.mul))

    @property
    def channel_bytes(self) -> int:
        """Bytes of the parameters of a channel."""
        return len(self._parts) * (8 if self.form == "SCALAR" else 4)

    @property
    def table_bytes(self) -> int:
        """Bytes of the table."""
        return 0 if self.table is None else len(self.table)

    @property
    def cycles(self) -> int:
        """Cycles of eight outputs, one after another."""
        return costs.finish(self.form, self.down, self.clip == (-128, 127))

    def finish_cycles(self, eights: Number, pixels: Number, calls: Number) -> Number:
        """Return the cycles of outputs of some pixels, of channels in eights."""
        table: Number = 0
        if self.table is not None:
            vectors = ceil_div(eights, 2) * costs.LUT_VECTOR
            table = pixels * (costs.TABLE_PIXEL + vectors)
        if self.form in ("PLAIN", "BINARY32") and self.clip in ((-128, 127), (0, 255)):
            each = costs.finish_two(self.form, self.down)
            start = calls * (costs.FINISH_CALL + eights * costs.FINISH_EIGHT)
            return table + start + pixels * eights * each // 2
        each_pixel = costs.FINISH_PIXEL + eights * self.cycles
        return table + calls * costs.FINISH_CALL + pixels * each_pixel

    def parameters(self, places: npt.NDArray[np.intp]) -> bytes:
        """Return ``channels``.

        places: number of the channel at each place, in whole eights, -1 for one that is not there.
        """
        kind = "<i8" if self.form == "SCALAR" else "<i4"
        taken = np.where(places < 0, 0, places).reshape(-1, 1, 8)
        zeros = np.zeros_like(self.add)
        parts = [(zeros if part is None else part)[taken] for part in self._parts]
        return np.concatenate(parts, axis=1).astype(kind).tobytes()

    def struct(self) -> Struct:
        """Return the ``dory_cortex_m55_requant_t`` of a tile."""
        members: dict[str, Argument] = {
            "channels": Operand("mul", "const uint8_t *"),
            "form": Symbol(f"DORY_REQUANT_{self.form}"),
            "up": int(self.up[0]),
            "down": self.down,
            "lo": self.clip[0],
            "hi": self.clip[1],
            "table": None if self.table is None else Operand("add"),
        }
        return Struct(members)


def rounded(step: Requant, bias: Integers, most: Integers) -> Form | None:
    """Return a step that adds half of its divisor to a product, exactly, in 32 bits.

    The product times a power of two is shifted by 32 bits and ``down``: what it adds is then a
    multiple of 2^32, and the upper half of the product is all that matters.

    most: largest magnitude of sums with their bias.
    """
    mul = np.array(step.mul, np.int64)
    halves = all(2 * add == step.div for add in step.add)
    if step.shift is None or step.add_negative is not None or not halves:
        return None
    assert step.lo is not None and step.hi is not None
    room, room_mul = (31 - int(abs(numbers).max()).bit_length() for numbers in (most, mul))
    down = max(1, step.shift - 32)
    bits = 32 + down - step.shift
    up = max(bits - room_mul, 0)
    if min(room, room_mul) < 0 or up > room or down > _MOST_DOWN:
        return None
    zero, clip = np.zeros(1, np.int64), (step.lo, step.hi)
    return Form("ROUNDED", bias, zero, mul << (bits - up), None, zero + up, down, clip)


def binary32(step: Requant, bias: Integers) -> Form | None:
    """Return a step in binary32 of sums with their bias; it adds 16 bits at most."""
    assert step.lo is not None and step.hi is not None
    last = np.array([step.add[0] // step.div], np.int64)
    if abs(last[0]) > _INT16 >> 1:
        return None
    scales = step.scales.view(np.int32).astype(np.int64)
    return Form("BINARY32", bias, 0 * last, scales, None, last, 0, (step.lo, step.hi))


def wide(step: Requant, bias: Integers, most: Integers) -> Form | None:
    """Return an integer step of sums with their bias, whose magnitudes are ``most`` or less."""
    assert step.lo is not None and step.hi is not None
    mul, add, *other = (np.array(values, object) for values in step.parameters)
    below = other[0] - add if other else 0 * add
    largest = np.max(abs(mul) * most + abs(add) + abs(below))
    if step.shift is None or max(largest, step.div) >= 1 << 62:
        return None
    mul, add, below = (values.astype(np.int64) for values in (mul, add, below))
    clip = (step.lo, step.hi)
    return Form("SCALAR", bias, add, mul, below if other else None, 0 * add[:1], step.shift, clip)


def byte_table(before: Requant, last: Requant) -> Integers | None:
    """Return the outputs of a step for each byte that the one before it gives, shape (256,)."""
    lo, hi = before.lo, before.hi
    if lo is None or hi is None or last.is_channelwise:
        return None
    if not (-128 <= lo <= hi <= 127 or 0 <= lo <= hi <= 255):
        return None
    bytes_ = np.arange(256, dtype=np.int64)
    values = np.clip(np.where((bytes_ > 127) & (lo < 0), bytes_ - 256, bytes_), lo, hi)
    return last.apply(values[None])[0]
