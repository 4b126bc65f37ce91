"""What a kernel does with its accumulators: requantisations as widening products.

The Cortex-M7 adds a product of 32 by 32 bits to 64 bits in one instruction, and with a shift of 32
the result is simply its upper half. For each step, or for both of two at once, the generator
searches mul and add that have the same value for every accumulator that can occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Items,
    Layer,
    Operand,
    Rejection,
    Requant,
    Struct,
    requantisation,
)
from dory_stm32h7.backend.lines import (
    INT32,
    SHIFTS_UPPER,
    Line,
    above,
    bounds_of,
    find_line,
    is_above,
    product_line,
)

_WORDS = "const int32_t *"
# Products of steps in binary32 are below this: a zero point is added as an integer.
_ROOM_EVEN = 1 << 30


@dataclass(frozen=True, eq=False)
class Epilogue:
    """One or two steps, or none and a bias per channel (None: none)."""

    steps: tuple[Line, ...]
    bias: npt.NDArray[np.int64] | None = None

    @property
    def channel_bytes(self) -> int:
        """Bytes of parameters per output channel in a weight block."""
        if self.steps:
            return 4 * self.records.shape[1]
        return 4 if self.bias is not None else 0

    @property
    def turned(self) -> bool:
        """Whether accumulators below some value have another addend."""
        return bool(self.steps) and self.steps[0].below is not None

    @property
    def shifted(self) -> bool:
        """Whether channels have shifts of their own."""
        return bool(self.steps) and self.steps[0].beyond is not None

    @property
    def even(self) -> bool:
        """Whether the step has the roundings of binary32."""
        return bool(self.steps) and self.steps[0].even

    @property
    def in_assembly(self) -> bool:
        """Whether the assembly of the chip computes it: one step with immediate bounds."""
        if len(self.steps) != 1 or self.shifted or self.steps[0].shift < 32:
            return False
        if self.clip[0] not in ("UNSIGNED", "SIGNED"):
            return False
        line = self.steps[0]
        return line.below is None or is_above(line)

    @property
    def part(self) -> str:
        """Name of the part of a weight block with the parameters."""
        return "mul" if self.steps else "bias"

    def parameters(self, channels: slice, count: int) -> bytes:
        """Return the parameters of some of ``count`` output channels as they lie in memory."""
        if self.steps:
            records = np.broadcast_to(self.records, (count, self.records.shape[1]))
            return records[channels].astype("<i4").tobytes()
        return b"" if self.bias is None else self.bias[channels].astype("<i4").tobytes()

    @cached_property
    def records(self) -> npt.NDArray[np.int32]:
        """The records of the first step, int32, shape (C, words)."""
        if self.even:
            first = self.steps[0]
            assert first.offset is not None
            columns = np.broadcast_arrays(first.mul, first.add, first.offset)
            return np.stack(columns, axis=1).astype(np.int32)
        line = above(self.steps[0])
        fields = (line.offset, line.below, line.beyond)
        more = [values for values in fields if values is not None]
        mul, add, *turned = np.broadcast_arrays(line.mul, line.add, *more)
        low = (add & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
        words = [mul.astype(np.int32), low, (add >> 32).astype(np.int32)]
        return np.stack([*words, *(values.astype(np.int32) for values in turned)], axis=1)

    @property
    def clip(self) -> tuple[str, int]:
        """The macro of the first step's clip and its bits."""
        bounds = self.steps[0].clip
        if bounds is None:
            return "NONE", 0
        lo, hi = bounds
        bits = (hi + 1).bit_length()
        if lo == 0 < hi and hi + 1 == 1 << bits - 1 and bits <= 32:
            return "UNSIGNED", bits - 1
        if lo == -hi - 1 and hi + 1 == 1 << bits - 1:
            return "SIGNED", bits
        return "BOUNDS", 0

    @property
    def suffix(self) -> str:
        """The part of an instance's name: ``_q32_u8``."""
        if not self.steps:
            return ""
        form, bits = self.clip
        side = "turned_" if is_above(self.steps[0]) else "turned_below_"
        text = (
            f"_{side if self.turned else ''}{'even' if self.even else 'q'}"
            f"{self.steps[0].shift}"
            f"{'up' if self.shifted else ''}_"
            + {
                "NONE": "noclip",
                "BOUNDS": "bounds",
                "UNSIGNED": f"u{bits}",
                "SIGNED": f"i{bits}",
            }[form]
        )
        if len(self.steps) == 2:
            text += "_then_noclip" if self.steps[1].clip is None else "_then_bounds"
        return text

    @property
    def macros(self) -> tuple[tuple[str, object], ...]:
        """The macros of ``dory_stm32h7_requant_impl.h``."""
        found: list[tuple[str, object]] = [("DORY_STEPS", len(self.steps))]
        if self.steps:
            form, bits = self.clip
            found.append(("DORY_SHIFT", self.steps[0].shift))
            side = "DORY_ABOVE" if self.turned and is_above(self.steps[0]) else "DORY_BELOW"
            found.append(("DORY_TURNED", side if self.turned else 0))
            found.append(("DORY_SHIFTED", int(self.shifted)))
            found.append(("DORY_BINARY32", int(self.even)))
            found.append(("DORY_CLIP", f"DORY_{form}"))
            if bits:
                found.append(("DORY_CLIP_BITS", bits))
        if len(self.steps) == 2:
            found.append(("DORY_CLIP2", int(self.steps[1].clip is not None)))
        return tuple(found)

    def struct(self, arrays: bool = True) -> Struct:
        """Return a ``dory_stm32h7_requant_t``.

        arrays: whether parameters lie in a weight block; else they are immediates.
        """
        if not self.steps:
            return Struct({"bias": Operand("bias", _WORDS) if self.bias is not None else 0})
        own = Items(tuple(int(word) for word in self.records[0]), "const int32_t")
        fields: dict[str, Argument] = {"channels": Operand("mul", _WORDS) if arrays else own}
        if self.clip[0] == "BOUNDS":
            fields |= bounds_of(self.steps[0].clip)
        if len(self.steps) == 2:
            fields["next"] = self.steps[1].struct()
        return Struct(fields)


def epilogue(layer: Layer) -> Epilogue:
    """Return the epilogue of a layer that has one. Raises: ValueError for another layer."""
    found = find_epilogue(layer)
    if isinstance(found, Rejection):
        raise ValueError(found.reason)
    return found


def reject_epilogue(layer: Layer) -> Rejection | None:
    """Return why a layer has no epilogue."""
    found = find_epilogue(layer)
    return found if isinstance(found, Rejection) else None


@requantisation.cached_per_layer
def find_epilogue(layer: Layer) -> Epilogue | Rejection:
    """Return the epilogue of a layer, or why there is none."""
    kind, ranges = layer.op, layer.ranges
    if not -INT32 - 1 <= ranges.acc_lo <= ranges.acc_hi <= INT32:
        return Rejection("its accumulator exceeds 32 bits")
    if not kind.requants:
        return Epilogue((), None if layer.bias is None else layer.bias.values.astype(np.int64))
    if kind.requants[0].float32 and len(kind.requants) == 1:
        return _integer_line(layer) or _even(layer, kind.requants[0])
    if len(kind.requants) > 2:
        return Rejection(f"it has {len(kind.requants)} requantisations in sequence")
    steps, lo, hi = requantisation.steps_of_sums(layer)
    if all(len(p) == 1 for s in steps for p in s.parameters):
        lo, hi = lo.min(keepdims=True), hi.max(keepdims=True)
    whole = find_line(steps, (lo, hi))
    if whole is not None:
        return Epilogue((whole,))
    if len(kind.requants) == 2:
        first = find_line(steps[:-1], (lo, hi))
        second = _second(kind.requants, layer)
        if first is not None and second is not None:
            return Epilogue((first, second))
    return Rejection("no product of 32-bit numbers has exactly the values of its requantisation")


def _integer_line(layer: Layer) -> Epilogue | None:
    """Return one integer step with one addend and the upper half of a product, None without one.

    It takes fewer cycles than a step in binary32, others take more.
    """
    steps, lo, hi = requantisation.steps_of_sums(layer)
    if all(len(p) == 1 for s in steps for p in s.parameters):
        lo, hi = lo.min(keepdims=True), hi.max(keepdims=True)
    if max(abs(int(b.max())) for b in (lo, -lo, hi)) > INT32:
        return None
    stairs = requantisation.staircase(steps, lo, hi)
    if stairs is None or steps[-1].lo is None or steps[-1].hi is None:
        return None
    line = product_line(stairs, (steps[-1].lo, steps[-1].hi), False, SHIFTS_UPPER)
    return None if line is None else Epilogue((line,))


def _even(layer: Layer, step: Requant) -> Epilogue | Rejection:
    """Return a step in binary32: scale as bits, zero point and offset of each channel."""
    ends = (layer.ranges.acc_lo - step.turn, layer.ranges.acc_hi - step.turn)
    if max(map(abs, ends)) > INT32:
        return Rejection("its accumulator exceeds 32 bits beside its zero point")
    if max(map(abs, ends)) * float(step.scales.max()) >= _ROOM_EVEN:
        return Rejection("its products in binary32 reach 2^30")
    assert step.lo is not None and step.hi is not None
    mul = step.scales.astype(np.float32).view(np.int32).astype(np.int64)
    bias = np.zeros(1, np.int64) if layer.bias is None else layer.bias.values.astype(np.int64)
    add = np.array([step.add[0] // step.div], dtype=np.int64)
    clip = (step.lo, step.hi)
    return Epilogue((Line(mul, add, 32, clip, offset=bias - step.turn, even=True),))


def _second(steps: Sequence[Requant], layer: Layer) -> Line | None:
    """Return the second of two steps, which is the same for all channels."""
    first, second = steps
    if second.is_channelwise:
        return None
    ranges = layer.ranges
    ends = [
        first.scalar(acc, c)
        for acc in (ranges.acc_lo, ranges.acc_hi)
        for c in range(max(len(p) for p in first.parameters))
    ]
    line = find_line((second,), (np.array([min(ends)]), np.array([max(ends)])))
    return None if line is None or line.below is not None else line
