"""Constants of the portable kernels: requantisation tables, biases and weights as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp

import numpy as np

from dory_core.expr import Number
from dory_core.ir import Requant
from dory_core.kernels.call import Items, Symbol
from dory_core.kernels.kernel import WeightBlock

_INT64 = range(-(2**63), 2**63)
_ALIGNMENT = 8


def unsuitable_step(steps: Iterable[Requant]) -> str | None:
    """Return why a step cannot be computed in 64 bits, or None."""
    for step in steps:
        if step.float32:
            continue
        if step.div not in _INT64 or any(
            value not in _INT64 for values in step.parameters for value in values
        ):
            return "a requantisation has a multiplier, addend or divisor beyond 64 bits"
    return None


def table_bytes(steps: Iterable[Requant], c_out: Number) -> Number:
    """Return the bytes of the int64 tables of ``steps`` for ``c_out`` channels."""
    tables = (values for step in steps for values in _tables(step))
    return 8 * sum(c_out if len(values) > 1 else 1 for values in tables)


def table(steps: Iterable[Requant], c_out: tuple[int, int]) -> bytes:
    """Return the tables of the channels c_out[0]:c_out[1]: each mul, then the addends."""
    rows = [
        values[slice(*c_out)] if len(values) > 1 else values
        for step in steps
        for values in _tables(step)
    ]
    return b"".join(np.array(row, dtype="<i8").tobytes() for row in rows)


def _tables(step: Requant) -> tuple[tuple[int, ...], ...]:
    """Return the tables of a step: mul and the addends, or the scales in binary32."""
    if not step.float32:
        return step.parameters
    return (tuple(_scale(float(scale)) for scale in step.scales),)


def _scale(scale: float) -> int:
    """Return a scale as mantissa + (digits << 32), which are those of :func:`mantissa`."""
    value, digits = mantissa(scale)
    return value + (digits << 32)


def mantissa(scale: float) -> tuple[int, int]:
    """Return a normal number of binary32 as (mantissa of 24 bits, n): mantissa / 2^n."""
    fraction, exponent = frexp(scale)
    return int(fraction * (1 << 24)), 24 - exponent


def block(parts: Iterable[tuple[str, bytes]]) -> WeightBlock:
    """Join the parts, in the order given, into one block padded to a multiple of 8 bytes."""
    data = b""
    offsets = {}
    for name, content in parts:
        offsets[name] = len(data)
        data += content
    return WeightBlock(data + bytes(-len(data) % _ALIGNMENT), offsets)


def padded(size: Number) -> Number:
    """Return ``size`` rounded up as :func:`block` does."""
    return (size + (_ALIGNMENT - 1)) // _ALIGNMENT * _ALIGNMENT


def step_values(steps: Iterable[Requant]) -> tuple[Items, ...]:
    """Return a ``dory_portable_step_t`` for each step."""
    found = []
    for step in steps:
        lo = Symbol("INT64_MIN") if step.lo is None else _int64(step.lo)
        hi = Symbol("INT64_MAX") if step.hi is None else _int64(step.hi)
        shift = -1 if step.shift is None or step.float32 else step.shift
        negative = step.add_negative
        div = step.add[0] // step.div if step.float32 else step.div
        flags = (
            len(step.mul) > 1,
            len(step.add) > 1,
            negative is not None,
            negative is not None and len(negative) > 1,
            step.float32,
        )
        found.append(Items((_int64(div), lo, hi, _int64(step.turn), shift, *map(int, flags))))
    return tuple(found)


def _int64(value: int) -> Symbol:
    """Return a C constant; bounds beyond 64 bits bound nothing and become the limits."""
    if value <= -(2**63):
        return Symbol("INT64_MIN")
    return Symbol(f"INT64_C({min(value, 2**63 - 1)})")
