"""Requantisation as the kernels' C templates want it: forms, macros, immediates and cost."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.ir import LayerRanges, Requant, Tensor
from dory_core.kernel import Rejection
from dory_gap8 import calibration as cal

INT32 = (-(1 << 31), (1 << 31) - 1)
INT64 = (-(1 << 63), (1 << 63) - 1)

# Forms of a divisor, by the macro that selects them: 2^k, 2^k - 1, any.
SHIFT, ONES, EXACT, NO_STEP = "DORY_SHIFT", "DORY_ONES", "DORY_EXACT", "DORY_NO_STEP"


def fits(limits: tuple[int, int], *values: int) -> bool:
    """Return True when every value lies in ``limits``."""
    return not values or (limits[0] <= min(values) and max(values) <= limits[1])


def c_int(value: int) -> str:
    """Return ``value`` as a C constant of sufficient type."""
    if value == INT64[0]:
        return "(-INT64_C(9223372036854775807) - 1)"
    return str(value) if fits((-INT32[1], INT32[1]), value) else f"INT64_C({value})"


@dataclass(frozen=True, slots=True)
class Step:
    """One step with the form of its divisor and the parameters of its first step's arrays.

    mul, add: exact integers, one for all channels or one per channel.
    """

    mul: tuple[int, ...]
    add: tuple[int, ...]
    div: int
    form: str
    shift: int
    clip: tuple[int, int] | None

    @property
    def per_channel(self) -> bool:
        """True when channels differ."""
        return len(self.mul) > 1 or len(self.add) > 1

    def initialiser(self, with_scalars: bool = True) -> str:
        """Return the C initialiser of a ``dory_gap8_step_t``: only the fields that are read."""
        fields = []
        if with_scalars:
            fields += [f".mul = {c_int(self.mul[0])}", f".add = {c_int(self.add[0])}"]
        fields.append(
            f".div = {c_int(self.div)}" if self.form == EXACT else f".shift = {self.shift}"
        )
        if self.clip is not None:
            fields += [f".lo = {c_int(self.clip[0])}", f".hi = {c_int(self.clip[1])}"]
        return "{" + ", ".join(fields) + "}"

    @property
    def tokens(self) -> tuple[str, ...]:
        """What distinguishes the step in the name of an instance; none for the usual step."""
        form = {SHIFT: (), ONES: ("ones",), EXACT: ("div",)}[self.form]
        return form + (() if self.clip is not None else ("noclip",))

    def cycles(self, bits: int) -> int:
        """Return the estimated cycles of the step alone."""
        return (cal.STEP_64 if bits == 64 else cal.STEP_32) + self.division_cycles(bits)

    def division_cycles(self, bits: int) -> int:
        """Return what the form of the divisor costs beyond a shift."""
        if self.form == EXACT:
            return cal.DIVISION_64 if bits == 64 else cal.DIVISION_32
        return cal.ONES_EXTRA if self.form == ONES else 0


@dataclass(frozen=True, slots=True)
class _Division:
    """How to divide: mul, add and div are first multiplied by ``factor``, which changes nothing."""

    form: str
    shift: int = 0
    factor: int = 1


def _folds(lo: int, hi: int, k: int) -> bool:
    """Return True when two folds of [lo, hi] at bit k leave less than twice 2^k - 1."""
    ones = (1 << k) - 1
    lo, hi = lo >> k, (hi >> k) + ones
    return -ones < lo >> k and hi >> k < ones


def _division(r: Requant, values: tuple[int, int], bits: int) -> _Division:
    """Return the cheapest exact form of the divisor for numerators in ``values``.

    An odd divisor divides some 2^k - 1: with all parameters multiplied by the quotient it becomes
    one that needs no division. Reduction by a common divisor hides such a 2^k - 1.
    """
    if r.shift is not None:
        return _Division(SHIFT, r.shift)
    limits = INT32 if bits == 32 else INT64
    for k in range(r.div.bit_length(), bits - 1):
        factor, rest = divmod((1 << k) - 1, r.div)
        scaled = (values[0] * factor, values[1] * factor)
        if not fits(limits, *scaled):
            break
        parameters = (v * factor for v in (*r.mul, *r.add))
        if rest == 0 and _folds(*scaled, k) and fits(limits, *parameters):
            return _Division(ONES, k, factor)
    return _Division(EXACT)


def _step(
    r: Requant, values: tuple[int, int], bits: int, fold: Sequence[int] | None = None
) -> Step:
    """Return a step; ``fold``: a bias per channel that its ``add`` takes over."""
    division = _division(r, values, bits)
    mul, add = (tuple(v * division.factor for v in p) for p in (r.mul, r.add))
    if fold is not None:
        channels = len(fold)
        mul = mul * channels if len(mul) == 1 else mul
        add = add * channels if len(add) == 1 else add
        add = tuple(a + m * b for a, m, b in zip(add, mul, fold, strict=True))
    clip = None if r.lo is None or r.hi is None else (r.lo, r.hi)
    return Step(mul, add, r.div * division.factor, division.form, division.shift, clip)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """All that a kernel does with its accumulators: steps, arithmetic and storage of parameters.

    bits: 32 or 64, the arithmetic. mul_bits: storage of a multiplier array.
    bias: per channel, only where there is no step (the first step's ``add`` takes it otherwise).
    """

    steps: tuple[Step, ...]
    bits: int
    mul_bits: int
    bias: tuple[int, ...] | None = None

    @property
    def per_channel(self) -> bool:
        """True when mul and add of the first step lie in the weight block."""
        return bool(self.steps) and self.steps[0].per_channel

    @property
    def channel_bytes(self) -> int:
        """Bytes of parameters per output channel in a weight block of a kernel with weights."""
        if not self.steps:
            return 4
        return (self.bits + self.mul_bits) // 8 if self.per_channel else 0

    @property
    def suffix(self) -> str:
        """The part of an instance's name: ``_q64``, ``_q32_scalar_noclip``; empty without steps."""
        if not self.steps:
            return ""
        tokens = [f"q{self.bits}" + ("w" if self.per_channel and self.mul_bits == 64 else "")]
        if not self.per_channel:
            tokens.append("scalar")
        tokens += self.steps[0].tokens
        for step in self.steps[1:]:
            tokens += ["then", *step.tokens]
        return "_" + "_".join(tokens)

    @property
    def macros(self) -> tuple[tuple[str, str], ...]:
        """The macros of ``dory_gap8_requant_impl.h``."""
        found = [("DORY_STEPS", str(len(self.steps))), ("DORY_Q_BITS", str(self.bits))]
        if self.steps:
            found.append(("DORY_PER_CHANNEL", str(int(self.per_channel))))
        if self.per_channel:
            found.append(("DORY_MUL_T", f"int{self.mul_bits}_t"))
        for n, step in enumerate(self.steps, 1):
            found += [
                (f"DORY_DIV{n}", step.form),
                (f"DORY_CLIP{n}", str(int(step.clip is not None))),
            ]
        return tuple(found)

    def initialiser(self, arrays: bool = True) -> str:
        """Return the C initialiser of a ``dory_gap8_requant_t``, with ``$mul`` and the like."""
        fields = []
        if not self.steps and arrays:
            fields.append(".bias = $bias")
        if self.per_channel:
            fields += [".mul = $mul", ".add = $add"]
        steps = ", ".join(
            s.initialiser(with_scalars=n > 0 or not self.per_channel)
            for n, s in enumerate(self.steps)
        )
        if steps:
            fields.append(f".step = {{{steps}}}")
        return "{" + ", ".join(fields) + "}"

    @property
    def cycles(self) -> int:
        """Estimated cycles per output of a dense kernel, store included."""
        if not self.steps:
            return cal.EPILOGUE_NONE
        first = cal.EPILOGUE_64 if self.bits == 64 else cal.EPILOGUE_32
        return (
            first
            + self.steps[0].division_cycles(self.bits)
            + sum(s.cycles(self.bits) for s in self.steps[1:])
        )

    @property
    def step_cycles(self) -> int:
        """Estimated cycles per output of the steps alone."""
        return sum(s.cycles(self.bits) for s in self.steps)


def describe(r: Requant | None) -> tuple[int, ...]:
    """Return every parameter of a step that its C type must hold."""
    return () if r is None else (*r.mul, *r.add, r.div)


def arithmetic(ranges: LayerRanges, requants: Sequence[Requant | None]) -> int:
    """Return 32 or 64: what the proven ranges and the size of the parameters ask for."""
    small = all(fits(INT32, *describe(r)) for r in requants)
    return 32 if ranges.bits <= 32 and small else 64


def reject_steps(requants: Sequence[Requant | None]) -> Rejection | None:
    """Return why the steps exceed the kernels' types: 64-bit parameters, 32-bit clip bounds."""
    for r in requants:
        if r is None:
            continue
        if not fits(INT64, *describe(r)) or r.div > 1 << 62:
            return Rejection("a requantisation parameter exceeds 64 bits")
        if r.lo is not None and r.hi is not None and not fits(INT32, r.lo, r.hi):
            return Rejection("a clip bound of the requantisation exceeds 32 bits")
    return None


def reject_requants(ranges: LayerRanges, requants: Sequence[Requant]) -> Rejection | None:
    """Return why the sequence of requantisations after the accumulator is not possible."""
    if len(requants) > 2:
        return Rejection(f"it has {len(requants)} requantisations in sequence, two are possible")
    if len(requants) == 2 and (len(requants[1].mul) > 1 or len(requants[1].add) > 1):
        return Rejection("the second of two requantisations differs from channel to channel")
    if not fits(INT32, ranges.acc_lo, ranges.acc_hi):
        return Rejection("its accumulator exceeds 32 bits")
    return reject_steps(requants)


# Tiling asks for the epilogue of a layer thousands of times, layer after layer.
@functools.lru_cache(maxsize=128)
def epilogue(
    ranges: LayerRanges, requants: tuple[Requant, ...], bias: tuple[int, ...] | None = None
) -> Epilogue:
    """Return the epilogue of requantisations that :func:`reject_requants` lets pass.

    A bias joins ``add`` of the first step: mul * (acc + bias) + add, exact in modular arithmetic.
    """
    if not requants:
        return Epilogue((), 32, 32, bias)
    bits = arithmetic(ranges, requants)
    values = (ranges.value_lo, ranges.value_hi)
    first = _step(requants[0], values, bits, bias)
    if bits == 32 and not fits(INT32, *first.mul, *first.add):
        bits = 64
        first = _step(requants[0], values, bits, bias)
    others = tuple(_step(r, values, bits) for r in requants[1:])
    mul_bits = 32 if bits == 32 or fits(INT32, *first.mul) else 64
    return Epilogue((first, *others), bits, mul_bits)


def operand_step(r: Requant | None, x: Tensor, bits: int) -> Step | None:
    """Return the step of an operand ``x`` of Add, None for identity; its parameters are scalars."""
    if r is None or r.is_identity:
        return None
    ends = (r.mul[0] * x.lo + r.add[0], r.mul[0] * x.hi + r.add[0])
    return _step(r, (min(ends), max(ends)), bits, None)
