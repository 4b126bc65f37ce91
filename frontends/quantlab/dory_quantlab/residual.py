"""Residual Add: one node whose attributes carry all of its arithmetic.

    q_i = clip_i((x_i * in{i}_mul + in{i}_add) >> in{i}_shift)   if in{i}_rq, else x_i
    s   = q_1 + q_2
    y   = clip((s * out_mul + out_add) >> out_shift)             if out_rq, else clip(s)

with in1 for the first operand of the node. A clip to n levels is 0 .. n - 1, or -(n // 2) .. and n
values when signed. n is a bound only: it may exceed what the operand can reach. No attribute gives
the sign of q_i, and older files lack out_signed: the rules that decide are :func:`_operand_step`
and :func:`_result_signed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dory_onnx import AddMeaning, Node, Operand, Step, normal_add, requants_of

from dory_core.api import NotSupported, Requant
from dory_core.importing import requant

_PARTS = ("in1", "in2", "out")
_FIELDS = ("rq", "mul", "add", "shift", "n_levels")
ADD_ATTRIBUTES = frozenset(
    ["out_signed", "add_bits", *(f"{part}_{field}" for part in _PARTS for field in _FIELDS)]
)
"""Attributes of a residual Add."""

_MAX_SHIFT = 62
_EXPORT_HINT = "export with the DORY exporter of QuantLab, which writes all of in1_, in2_ and out_"


@dataclass(frozen=True, slots=True)
class _Interval:
    """Values from lo to hi."""

    lo: int
    hi: int

    def __contains__(self, other: _Interval) -> bool:
        return self.lo <= other.lo and other.hi <= self.hi

    def __add__(self, other: _Interval) -> _Interval:
        return _Interval(self.lo + other.lo, self.hi + other.hi)

    def through(self, step: Requant) -> _Interval:
        """Return the result of ``step``, without its clip and equal for all channels."""
        ends = [(end * step.mul[0] + step.add[0]) // step.div for end in (self.lo, self.hi)]
        return _Interval(min(ends), max(ends))


@dataclass(frozen=True, slots=True)
class _Part:
    """The attributes of an operand or of the sum. step: None when rq is 0."""

    step: Requant | None
    levels: int

    def bounds(self, signed: bool) -> _Interval:
        lo = -(self.levels // 2) if signed else 0
        return _Interval(lo, lo + self.levels - 1)


def add_meaning(
    node: Node, operands: tuple[Operand, Operand], steps: tuple[Step, ...]
) -> AddMeaning:
    """Return the arithmetic of an Add of two tensors followed by ``steps``.

    Raises: NotSupported, naming node and attribute, for attributes that are missing, no integers
    or out of range, and for a sign that cannot be decided.
    """
    notes: list[str] = []
    readings = []
    for name, operand in zip(("in1", "in2"), operands, strict=True):
        if any(step.op != "Cast" for step in operand.steps):
            raise NotSupported(
                f"{node.label}: {operand.steps[0].node.label} rescales an operand, but in this"
                " dialect the attributes of the Add do that"
            )
        readings.append(_operand_step(node, name, operand, notes))
    (first, first_range), (second, second_range) = readings
    last = _part(node, "out")
    total = first_range + second_range
    reach = total if last.step is None else total.through(last.step)
    bounds = last.bounds(_result_signed(node, operands, last, reach, steps, notes))
    scale = last.step or requant()
    if reach in bounds and _bits(bounds) > _bits(reach):
        out = scale  # a bound beyond all values must not widen their storage
    else:
        out = requant(scale.mul, scale.add, scale.div, bounds.lo, bounds.hi)
    behind = (() if out.is_identity else (out,)) + requants_of(steps, node.label)
    meaning = normal_add((first, second), behind)
    return AddMeaning(meaning.operands, meaning.requants, tuple(notes))


def _operand_step(
    node: Node, name: str, operand: Operand, notes: list[str]
) -> tuple[Requant | None, _Interval]:
    """Return the step of an operand and the range after it.

    The clip is left out where it cannot bind. Where it can, its sign is that of the operand, which
    a positive factor keeps.
    """
    part = _part(node, name)
    tensor = operand.tensor
    before = _Interval(tensor.lo, tensor.hi)
    if part.step is None:
        return None, before
    reach = before.through(part.step)
    signed = before.lo < 0
    bounds = part.bounds(signed)
    if reach in bounds:
        return (None if part.step.is_identity else part.step), reach
    if not signed and part.step.mul[0] < 0:
        raise NotSupported(
            f"{node.label}: {name}_mul = {_integer(node, f'{name}_mul')} makes its unsigned operand"
            f" '{tensor.name}' negative, so that the sign of the clip to {name}_n_levels ="
            f" {part.levels} cannot be decided",
            "export with a positive factor",
        )
    notes.append(
        f"{node.label}: no attribute gives the sign of the clip to {name}_n_levels ="
        f" {part.levels}; assumed {_sign(signed)} like its operand '{tensor.name}'"
    )
    step = requant(part.step.mul, part.step.add, part.step.div, bounds.lo, bounds.hi)
    clamped = [min(max(end, bounds.lo), bounds.hi) for end in (reach.lo, reach.hi)]
    return step, _Interval(*clamped)


def _result_signed(
    node: Node,
    operands: tuple[Operand, Operand],
    part: _Part,
    reach: _Interval,
    steps: tuple[Step, ...],
    notes: list[str],
) -> bool:
    """Return True when the clip of the sum is signed, from out_signed or else from its neighbours.

    Neighbours are a Clip directly after the Add, or both operands when they agree.
    """
    if "out_signed" in node.attributes:
        value = _integer(node, "out_signed")
        if value not in (0, 1):
            raise NotSupported(f"{node.label}: attribute out_signed = {value} is neither 0 nor 1")
        return value == 1
    missing = f"{node.label}: attribute out_signed is missing"
    signs = [operand.tensor.lo < 0 for operand in operands]
    names = " and ".join(f"'{operand.tensor.name}'" for operand in operands)
    if steps and steps[0].op == "Clip":
        signed, reason = steps[0].lo < 0, "like the Clip behind it"
    elif signs[0] == signs[1] and (signs[0] or reach.lo >= 0):
        signed, reason = signs[0], f"like its operands {names}"
    elif reach in part.bounds(signed=False):
        signed, reason = False, "as none of its values is negative"
    else:
        kinds = " and ".join(_sign(sign) for sign in signs)
        raise NotSupported(
            f"{missing}, and the sign of its result cannot be decided: its operands {names} are"
            f" {kinds}, and its values reach from {reach.lo} to {reach.hi}",
            "export with out_signed, as newer versions of the exporter do",
        )
    notes.append(f"{missing}; its result is assumed {_sign(signed)}, {reason}")
    return signed


def _part(node: Node, name: str) -> _Part:
    flag = _integer(node, f"{name}_rq")
    if flag not in (0, 1):
        raise NotSupported(f"{node.label}: attribute {name}_rq = {flag} is neither 0 nor 1")
    if flag == 0 and name != "out":
        return _Part(None, 0)
    levels = _integer(node, f"{name}_n_levels")
    if levels < 1:
        raise NotSupported(f"{node.label}: attribute {name}_n_levels = {levels} must be positive")
    if flag == 0:
        return _Part(None, levels)
    shift = _integer(node, f"{name}_shift")
    if not 0 <= shift <= _MAX_SHIFT:
        raise NotSupported(
            f"{node.label}: attribute {name}_shift = {shift} is not in [0, {_MAX_SHIFT}]"
        )
    mul, add = (_integer(node, f"{name}_{field}") for field in ("mul", "add"))
    return _Part(requant(mul, add, 1 << shift), levels)


def _integer(node: Node, name: str) -> int:
    value: Any = node.attributes.get(name)
    if value is None:
        raise NotSupported(
            f"{node.label}: attribute {name} is missing; a residual Add carries its requantisation"
            " in attributes",
            _EXPORT_HINT,
        )
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, int) and not (isinstance(value, float) and value.is_integer()):
        raise NotSupported(f"{node.label}: attribute {name} = {value} is not an integer")
    return int(value)


def _bits(interval: _Interval) -> int:
    """Return the width of the narrowest integers that hold an interval; 64 beyond 32 bits."""
    ends = (interval.lo, interval.hi)
    significant = max((end if end >= 0 else ~end).bit_length() for end in ends)
    needed = significant + (interval.lo < 0)
    return next((bits for bits in (2, 4, 8, 16, 32) if bits >= needed), 64)


def _sign(signed: bool) -> str:
    return "signed" if signed else "unsigned"
