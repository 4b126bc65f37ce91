"""Requantisation as the kernels' C templates want it: forms, macros, parameters and cost.

Of the forms of ``dory_gap8_requant_impl.h`` a layer gets the cheapest that is proven for every
accumulator that can occur: one multiplication in 32 bits, the same after a clamp, two limbs, two
limbs after a clamp, the upper word of a product, and at last the steps as the network has them. A
step in binary32 that no integers equal: see :mod:`dory_gap8.backend.even`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
from dory_gap8 import calibration as cal
from dory_gap8.backend.even import Even, even_form, reject_even
from dory_gap8.backend.records import (
    high_records,
    modular,
    narrow_records,
    step_records,
    words,
)
from dory_gap8.backend.steps import (
    INT32,
    SHIFT,
    Step,
    arithmetic,
    clip_bounds,
    fits,
    make_step,
    reject_steps,
)

# Forms of an epilogue, by the macro that selects them.
STEPS, NARROW, LIMBS = "DORY_Q_STEPS", "DORY_Q_NARROW", "DORY_Q_LIMBS"
HIGH, EVEN, BINARY32 = "DORY_Q_HIGH", "DORY_Q_EVEN", "DORY_Q_BINARY32"


@dataclass(frozen=True, slots=True, eq=False)
class Epilogue:
    """All that a kernel does with its accumulators.

    steps: as the layer has them. bits: 32 or 64, the arithmetic of what is computed step by step.
    narrow, high: parameters that do the same, for the narrow forms or for the upper word of a
    product; both None: step by step.
    clip: bounds of the last step. records: int32, shape (C, words) or (1, words) when all channels
    have the same: the parameters as they lie in memory.
    bias: per channel, only where there is no step (the first step takes it otherwise).
    even: of a step in binary32; None for others. zero: what is added to its product.
    own: the only word of a record that channels do not share, which follow one record; None: none.
    """

    steps: tuple[Step, ...]
    bits: int
    records: npt.NDArray[np.int32]
    narrow: requantisation.Narrow | None = None
    high: requantisation.HighProduct | None = None
    clip: tuple[int, int] | None = None
    bias: tuple[int, ...] | None = None
    even: Even | None = None
    zero: int = 0
    own: int | None = None

    @property
    def form(self) -> str:
        """The macro that selects how the steps are computed."""
        if self.even is not None:
            return BINARY32 if self.even.up is None else EVEN
        if self.high is not None:
            return HIGH
        if self.narrow is None:
            return STEPS
        return LIMBS if self.narrow.low_bits else NARROW

    @property
    def in_words(self) -> bool:
        """Whether one step in 32 bits does what all steps do: what the assembly of kernels has."""
        return self.form in (NARROW, LIMBS, HIGH, EVEN)

    @property
    def low_bits(self) -> int:
        """Bits of the low limb; of HIGH and EVEN those by which x is shifted; else 0."""
        if self.even is not None:
            return self.even.up or 0
        if self.high is not None:
            return self.high.up
        return 0 if self.narrow is None else self.narrow.low_bits

    @property
    def shift(self) -> int:
        """The shift of all channels of a narrow form; 0 for other forms and for own shifts."""
        return 0 if self.narrow is None else self.narrow.high_shift

    @property
    def shifts(self) -> bool:
        """Whether each channel of a narrow form has a shift of its own."""
        return self.narrow is not None and self.narrow.shifts is not None

    @property
    def reach(self) -> bool:
        """Whether the accumulator is clamped first."""
        return self.narrow is not None and self.narrow.reach is not None

    @property
    def turned(self) -> bool:
        """Whether there is another addend for accumulators below some value."""
        if self.narrow is not None:
            return self.narrow.add_negative is not None
        if self.high is not None:
            return self.high.below is not None
        return bool(self.steps) and self.steps[0].below is not None

    @property
    def clip_form(self) -> str:
        """The macro that tells a narrow form how to clip."""
        if self.clip is None:
            return "DORY_CLIP_NONE"
        lo, hi = self.clip
        if lo == 0:
            return "DORY_CLIP_UNSIGNED"
        return "DORY_CLIP_SIGNED" if lo == -hi - 1 else "DORY_CLIP_BOUNDS"

    @property
    def per_channel(self) -> bool:
        """True when each channel has its parameters in the weight block."""
        return bool(self.steps) and len(self.records) > 1

    @property
    def channel_bytes(self) -> int:
        """Bytes of parameters per output channel in a weight block of a kernel with weights."""
        if not self.steps or self.own is not None:
            return 4
        return 4 * self.records.shape[1] if self.per_channel else 0

    @property
    def shared_bytes(self) -> int:
        """Bytes of parameters in a weight block that channels share."""
        return 0 if self.own is None else 4 * self.records.shape[1]

    def part(self, c_out: tuple[int, int]) -> tuple[str, bytes] | None:
        """Return name and content of the part of a weight block with the channels' parameters."""
        if not self.steps:
            bias = np.array(self.bias if self.bias is not None else (0,), dtype="<i4")
            return "bias", np.broadcast_to(bias, (max(len(bias), c_out[1]),))[
                slice(*c_out)
            ].tobytes()
        if not self.per_channel:
            return None
        records = self.records[slice(*c_out)].astype("<i4")
        if self.own is not None:
            return "mul", records[0].tobytes() + records[:, self.own].tobytes()
        return "mul", records.tobytes()

    @property
    def suffix(self) -> str:
        """The part of an instance's name: ``_q32``, ``_clamp_limbs``; empty without steps."""
        if not self.steps:
            return ""
        turned = ["turned"] if self.turned else []
        if self.even is not None:
            tokens = ["even"] if self.form == EVEN else ["binary32"]
            tokens += ["wide"] if self.even.wide else []
            tokens += _CLIP_TOKENS[self.clip_form]
        elif self.narrow is not None:
            tokens = [*turned, "clamp"] if self.reach else turned
            tokens += ["limbs"] if self.form == LIMBS else [] if self.reach else ["q32"]
            tokens += ["shifts"] if self.shifts else []
            tokens += _CLIP_TOKENS[self.clip_form]
        elif self.high is not None:
            tokens = [*turned, "high", *_CLIP_TOKENS[self.clip_form]]
        else:
            tokens = [*turned, f"q{self.bits}steps", *self.steps[0].tokens]
            for step in self.steps[1:]:
                tokens += ["then", *step.tokens]
        if not self.per_channel:
            tokens.append("scalar")
        tokens += [] if self.own is None else ["own"]
        return "_" + "_".join(tokens)

    @property
    def macros(self) -> tuple[tuple[str, str], ...]:
        """The macros of ``dory_gap8_requant_impl.h``."""
        count = 1 if self.in_words else len(self.steps)
        found = [("DORY_STEPS", str(count)), ("DORY_Q_BITS", str(self.bits))]
        found.append(("DORY_Q_FORM", self.form))
        if not self.steps:
            return tuple(found)
        found.append(("DORY_PER_CHANNEL", str(int(self.per_channel))))
        found.append(("DORY_Q_TURNED", str(int(self.turned))))
        if self.own is not None:
            found.append(("DORY_Q_OWN", str(self.own)))
        if self.form != STEPS:
            found += [("DORY_Q_REACH", str(int(self.reach))), ("DORY_Q_CLIP", self.clip_form)]
            if self.shifts:
                found.append(("DORY_Q_SHIFTS", "1"))
            if self.form == BINARY32:
                found.append(("DORY_Q_WIDE", str(int(self.even is not None and self.even.wide))))
            return tuple(found)
        for n, step in enumerate(self.steps, 1):
            found += [
                (f"DORY_DIV{n}", step.form),
                (f"DORY_CLIP{n}", str(int(step.clip is not None))),
            ]
        return tuple(found)

    def struct(self, arrays: bool = True, pointed: bool = False) -> Struct:
        """Return a ``dory_gap8_requant_t``, or a pointer to one.

        arrays: whether biases, where there is no step, lie in a weight block.
        """
        type_ = "dory_gap8_requant_t" if pointed else ""
        if not self.steps:
            bias = Operand("bias", "const int32_t *")
            return Struct({"bias": bias} if arrays else {"shift": 0}, type_)
        own = Items(tuple(int(word) for word in self.records[0]), "const int32_t")
        found = Operand("mul", "const int32_t *") if self.per_channel else own
        fields: dict[str, Argument] = {"channels": found}
        if self.form == BINARY32:
            fields |= {"zero": self.zero} | clip_bounds(self.clip)
        elif not self.in_words:
            steps = tuple(s.struct(with_scalars=n > 0) for n, s in enumerate(self.steps))
            fields["steps"] = Items(steps, "const dory_gap8_step_t")
        else:
            fields |= {} if self.narrow is None or self.shifts else {"shift": self.shift}
            fields |= {"low_bits": self.low_bits} if self.low_bits else {}
            fields |= clip_bounds(self.clip)
        return Struct(fields, type_)

    @property
    def cycles(self) -> int:
        """Estimated cycles per output of a dense kernel, store included."""
        if not self.steps:
            return cal.EPILOGUE_NONE
        if self.even is not None and self.even.up is None:
            return cal.EPILOGUE_BINARY32 + cal.BINARY32_WIDE * self.even.wide
        if self.in_words:
            return cal.EPILOGUE_32 + self._extra
        first = cal.EPILOGUE_64 if self.bits == 64 else cal.EPILOGUE_32
        return (
            first
            + self.steps[0].division_cycles(self.bits)
            + cal.TURNED_EXTRA * self.turned
            + sum(s.cycles(self.bits) for s in self.steps[1:])
        )

    @property
    def step_cycles(self) -> int:
        """Estimated cycles per output of only the steps."""
        if self.even is not None and self.even.up is None:
            return cal.STEP_BINARY32 + cal.BINARY32_WIDE * self.even.wide
        if self.in_words:
            return cal.STEP_32 + self._extra
        first = cal.TURNED_EXTRA * self.turned
        return first + sum(s.cycles(self.bits) for s in self.steps)

    @property
    def _extra(self) -> int:
        """Cycles of a form in words beyond one multiplication."""
        extra = {LIMBS: cal.LIMBS_EXTRA, HIGH: cal.HIGH_EXTRA, EVEN: cal.EVEN_EXTRA}
        product = extra.get(self.form, 0)
        return cal.CLAMP_EXTRA * self.reach + product + cal.TURNED_EXTRA * self.turned


_CLIP_TOKENS = {
    "DORY_CLIP_UNSIGNED": [],
    "DORY_CLIP_SIGNED": ["signed"],
    "DORY_CLIP_BOUNDS": ["bounds"],
    "DORY_CLIP_NONE": ["noclip"],
}


def reject_requants(layer: Layer, requants: Sequence[Requant]) -> Rejection | None:
    """Return why the sequence of requantisations after the accumulator is not possible."""
    if len(requants) == 1 and requants[0].float32:
        return reject_even(layer, requants[0])
    if len(requants) > 2:
        return Rejection(f"it has {len(requants)} requantisations in sequence, two are possible")
    if len(requants) == 2 and requants[1].is_channelwise:
        return Rejection("the second of two requantisations differs from channel to channel")
    if len(requants) == 2 and requants[1].add_negative is not None:
        return Rejection("the second of two requantisations has two addends")
    turn = requants[0].turn if requants else 0
    ends = (layer.ranges.acc_lo, layer.ranges.acc_hi)
    if not fits(INT32, *ends, *(end - turn for end in ends)):
        return Rejection("its accumulator exceeds 32 bits")
    return reject_steps(requants)


def epilogue(layer: Layer, least_bits: int = 32, shifts: bool = False) -> Epilogue:
    """Return the epilogue of a layer whose requantisations :func:`reject_requants` lets pass.

    least_bits: 64 when the kernel computes in 64 bits for another reason. shifts: whether channels
    of a narrow form may have shifts of their own.
    """
    return _epilogue(layer, least_bits, shifts)


@requantisation.cached_per_layer
def _epilogue(layer: Layer, least_bits: int, shifts: bool) -> Epilogue:
    requants, ranges = layer.op.requants, layer.ranges
    biases = None if layer.bias is None else tuple(int(b) for b in layer.bias.values)
    if not requants:
        return Epilogue((), least_bits, np.zeros((1, 0), np.int32), bias=biases)
    bits = max(least_bits, arithmetic(layer, requants))
    values = (ranges.value_lo, ranges.value_hi)
    if requants[0].float32:
        return _even(layer, least_bits)
    first = make_step(requants[0].from_turn(), values, bits, _offset(requants[0], biases))
    steps = (first, *(make_step(r, values, bits) for r in requants[1:]))
    last = requants[-1]
    clip = None if last.lo is None or last.hi is None else (last.lo, last.hi)
    if len(steps) == 1 and bits == 32 and first.form == SHIFT and first.below is None:
        found: requantisation.Narrow | None = _as_it_is(first)
    else:
        found = narrow_form(layer, shifts)
    if found is not None:
        return Epilogue(steps, least_bits, narrow_records(found), found, clip=clip)
    high = high_form(layer)
    if high is not None:
        return Epilogue(steps, least_bits, high_records(high), high=high, clip=clip)
    return Epilogue(steps, bits, step_records(first, bits))


def _even(layer: Layer, bits: int) -> Epilogue:
    """Return the epilogue of a step in binary32."""
    step, found = layer.op.requants[0], even_form(layer)
    assert step.lo is not None and step.hi is not None
    clip = (step.lo, step.hi)
    known = Step((1,), (0,), 1, SHIFT, 0, clip)
    records = words([modular(column.tolist(), 32) for column in found.records.T])
    zero = step.add[0] // step.div
    return Epilogue((known,), bits, records, clip=clip, even=found, zero=zero)


def narrow_form(layer: Layer, shifts: bool = False) -> requantisation.Narrow | None:
    """Return parameters for the accumulator without bias that do what all steps of a layer do."""
    return _narrow(*_steps_of_sums(layer), shifts)


def high_form(layer: Layer) -> requantisation.HighProduct | None:
    """Return parameters for the upper word of a product, as :func:`narrow_form`."""
    return _high(*_steps_of_sums(layer))


_Ends = tuple[int, ...]


def _steps_of_sums(layer: Layer) -> tuple[tuple[Requant, ...], _Ends, _Ends]:
    """Return the steps, and the interval of sums of each channel, or of all where it is one."""
    steps, lo, hi = requantisation.steps_of_sums(layer)
    if all(len(p) == 1 for s in steps for p in s.parameters):
        lo, hi = lo.min(keepdims=True), hi.max(keepdims=True)
    return steps, tuple(lo.tolist()), tuple(hi.tolist())


# Parts of a layer share what is found.
@lru_cache(maxsize=256)
def _narrow(
    steps: tuple[Requant, ...], lo: _Ends, hi: _Ends, shifts: bool
) -> requantisation.Narrow | None:
    ends = (np.array(lo, dtype=np.int64), np.array(hi, dtype=np.int64))
    search = requantisation.narrow_for_channels if shifts else requantisation.narrow
    return requantisation.search_steps(search, steps, *ends)


@lru_cache(maxsize=256)
def _high(steps: tuple[Requant, ...], lo: _Ends, hi: _Ends) -> requantisation.HighProduct | None:
    ends = (np.array(lo, dtype=np.int64), np.array(hi, dtype=np.int64))
    return requantisation.search_steps(requantisation.high_product, steps, *ends)


def _offset(step: Requant, biases: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the addends of sums of products: biases, and for two addends minus their turn."""
    if not step.turn:
        return biases
    return tuple(b - step.turn for b in biases or (0,))


def _as_it_is(step: Step) -> requantisation.Narrow:
    """Return a step that range analysis has proven to fit 32 bits."""
    mul, add = np.broadcast_arrays(modular(step.mul, 32), modular(step.add, 32))
    return requantisation.Narrow(mul, add, step.shift)
