"""One step of a requantisation: types of its parameters, form of its divisor, cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.api import Argument, Layer, Rejection, Requant, Struct, Tensor
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

    mul, add: exact integers, one for all channels or one per channel. offset, below: None, or what
    is added to the operand, and to the product where that is negative then; of a first step.
    """

    mul: tuple[int, ...]
    add: tuple[int, ...]
    div: int
    form: str
    shift: int
    clip: tuple[int, int] | None
    offset: tuple[int, ...] | None = None
    below: tuple[int, ...] | None = None

    def struct(self, with_scalars: bool = True) -> Struct:
        """Return a ``dory_gap8_step_t``: only the fields that are read."""
        fields: dict[str, Argument] = {}
        if with_scalars:
            fields = {"mul": self.mul[0], "add": self.add[0]}
        fields |= {"div": self.div} if self.form == EXACT else {"shift": self.shift}
        return Struct(fields | clip_bounds(self.clip))

    @property
    def tokens(self) -> tuple[str, ...]:
        """What distinguishes the step in the name of an instance; none for the usual step."""
        form = {SHIFT: (), ONES: ("ones",), EXACT: ("div",)}[self.form]
        return form + (() if self.clip is not None else ("noclip",))

    def cycles(self, bits: int) -> int:
        """Return the estimated cycles of only the step."""
        return (cal.STEP_64 if bits == 64 else cal.STEP_32) + self.division_cycles(bits)

    def division_cycles(self, bits: int) -> int:
        """Return the cycles of the form of the divisor beyond those of a shift."""
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
        parameters = (v * factor for p in r.parameters for v in p)
        if rest == 0 and _folds(*scaled, k) and fits(limits, *parameters):
            return _Division(ONES, k, factor)
    return _Division(EXACT)


def make_step(
    r: Requant, values: tuple[int, int], bits: int, fold: Sequence[int] | None = None
) -> Step:
    """Return a step; ``fold``: a bias per channel that its ``add`` takes over."""
    division = _division(r, values, bits)
    mul, add, *other = (tuple(v * division.factor for v in p) for p in r.parameters)
    clip = None if r.lo is None or r.hi is None else (r.lo, r.hi)
    if other:
        offset = (0,) if fold is None else tuple(fold)
        count = max(len(add), len(other[0]))
        pairs = zip(*(p * (count // len(p)) for p in (add, other[0])), strict=True)
        below = tuple(b - a for a, b in pairs)
        return Step(
            *(mul, add, r.div * division.factor, division.form, division.shift, clip),
            offset,
            below,
        )
    if fold is not None:
        channels = len(fold)
        mul = mul * channels if len(mul) == 1 else mul
        add = add * channels if len(add) == 1 else add
        add = tuple(a + m * b for a, m, b in zip(add, mul, fold, strict=True))
    return Step(mul, add, r.div * division.factor, division.form, division.shift, clip)


def clip_bounds(clip: tuple[int, int] | None) -> dict[str, Argument]:
    """Return the members of a clip, none without."""
    return {} if clip is None else {"lo": clip[0], "hi": clip[1]}


def describe(r: Requant | None) -> tuple[int, ...]:
    """Return every parameter of a step that its C type must hold."""
    return () if r is None else (*(v for p in r.parameters for v in p), r.div)


def arithmetic(layer: Layer, requants: Sequence[Requant | None]) -> int:
    """Return 32 or 64: what the proven ranges and the size of the parameters ask for."""
    small = all(fits(INT32, *describe(r)) for r in requants)
    return 32 if layer.ranges.bits <= 32 and small else 64


def reject_steps(requants: Sequence[Requant | None]) -> Rejection | None:
    """Return why the steps exceed the kernels' types: 64-bit parameters, 32-bit clip bounds."""
    for r in requants:
        if r is None:
            continue
        if r.float32:
            return Rejection("a step in binary32 is computed behind sums alone")
        if not fits(INT64, *describe(r)) or r.div > 1 << 62:
            return Rejection("a requantisation parameter exceeds 64 bits")
        if r.lo is not None and r.hi is not None and not fits(INT32, r.lo, r.hi):
            return Rejection("a clip bound of the requantisation exceeds 32 bits")
    return None


def operand_step(r: Requant | None, x: Tensor, bits: int) -> Step | None:
    """Return the step of an operand ``x`` of Add, None for identity; its parameters are scalars."""
    if r is None or r.is_identity:
        return None
    ends = (r.mul[0] * x.lo + r.add[0], r.mul[0] * x.hi + r.add[0])
    return make_step(r, (min(ends), max(ends)), bits, None)
