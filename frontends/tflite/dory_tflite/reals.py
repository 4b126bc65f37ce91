"""Reals between a DEQUANTIZE and a QUANTIZE: functions of one byte in binary32.

Every operation rounds to binary32, as the kernels of TensorFlow Lite Micro do. Exponentials and
the like are computed in double and rounded: the C library gives the same wherever it
rounds correctly. Sources: tflite-micro ``kernels/internal/reference``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_tflite.byte_functions import Quantisation

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Options = Mapping[str, Any]

#: Integers of 32 bits, beyond which the conversion of a real is not defined.
_LIMIT = 2.0**31


class NoNumberError(ValueError):
    """A real that no integer stands for."""


@dataclass(frozen=True, slots=True)
class Reals:
    """What the stored values of a tensor stand for.

    Attributes:
        x: Quantisation of the stored values.
        values: By rising stored value, numbers of binary32 or truth values.
    """

    x: Quantisation
    values: tuple[float, ...]

    @property
    def array(self) -> npt.NDArray[Any]:
        """The values as an array."""
        found = np.array(self.values)
        return found if found.dtype == np.bool_ else found.astype(np.float32)

    @property
    def is_plain(self) -> bool:
        """True when they are what a DEQUANTIZE gives."""
        return self == dequantised(self.x)

    def of(self, stored: Integers) -> npt.NDArray[Any]:
        """Return the reals of an array of stored values."""
        return np.asarray(self.array[stored - self.x.bounds[0]])

    def become(self, values: npt.NDArray[Any]) -> Reals:
        """Return other values for the same bytes."""
        return replace(self, values=tuple(values.tolist()))


def dequantised(x: Quantisation) -> Reals:
    """Return DEQUANTIZE of all stored values."""
    values = x.centred.astype(np.float32) * np.float32(x.scale)
    return Reals(x, tuple(values.tolist()))


def half_away(values: Floats) -> Floats:
    """Return the nearest integers, halves away from zero: TfLiteRound."""
    wide = values.astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(wide) + 0.5), wide)
    return np.asarray(rounded.astype(np.float32))


def quantised(values: Floats, y: Quantisation, reached: slice) -> Integers:
    """Return QUANTIZE of reals: division in binary32, halves away from zero, saturated.

    reached: entries that an inference can need. Raises: NoNumberError when one is no number, or
    beyond integers of 32 bits, where the interpreter's result depends on the processor.
    """
    with np.errstate(all="ignore"):
        rounded = half_away(values / np.float32(y.scale))
    wrong = values[reached][~(np.abs(rounded[reached]) < _LIMIT)]
    if wrong.size:
        raise NoNumberError(f"a value of it is {wrong[0]}, which no integer of 32 bits stands for")
    return _saturated(rounded.astype(np.float64) + y.zero_point, y)


def table_of(
    function: Callable[[Floats], Floats], x: Quantisation, y: Quantisation, reached: slice
) -> Integers:
    """Return the table of a function of stored values, as ``LUTPopulate`` of LiteRT fills it.

    reached: entries that an inference can need. Raises: NoNumberError like :func:`quantised`; a
    value below integers of 32 bits becomes the least stored one everywhere.
    """
    with np.errstate(all="ignore"):
        values = np.asarray(function(dequantised(x).array), np.float32)
        rounded = half_away(values * (np.float32(1) / np.float32(y.scale))) + np.float32(
            y.zero_point
        )
    wrong = values[reached][~(rounded[reached] < _LIMIT)]
    if wrong.size:
        raise NoNumberError(f"a value of it is {wrong[0]}, which no integer of 32 bits stands for")
    return _saturated(rounded, y)


def _saturated(values: npt.NDArray[Any], y: Quantisation) -> Integers:
    lo, hi = y.bounds
    inside = np.clip(np.nan_to_num(values, nan=lo), lo, hi)
    return np.asarray(inside.astype(np.int64))


def _exact(function: Callable[[npt.NDArray[np.float64]], Any]) -> Callable[..., Floats]:
    """Return a function that is computed in double and rounded once."""

    def rounded(x: Floats, options: Options) -> Floats:
        return np.asarray(function(x.astype(np.float64)), np.float32)

    return rounded


def _logistic(x: Floats, options: Options) -> Floats:
    power = np.exp(-x.astype(np.float64)).astype(np.float32)
    middle = np.float32(1) / (np.float32(1) + power)
    low = np.exp(x.astype(np.float64)).astype(np.float32)
    return np.where(x > np.float32(16.619047), np.float32(1), np.where(x < -9, low, middle))


def _gelu(x: Floats, options: Options) -> Floats:
    wide = x.astype(np.float64)
    if options.get("Approximate"):
        inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
        return np.asarray(0.5 * wide * (1 + np.tanh(inner)), np.float32)
    found = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in wide.tolist()]
    return np.array(found, np.float32)


def _hard_swish(x: Floats, options: Options) -> Floats:
    return np.asarray(x * np.clip(x + np.float32(3), 0, 6) / np.float32(6), np.float32)


def _between(low: float, high: float) -> Callable[..., Floats]:
    return lambda x, options: np.clip(x, np.float32(low), np.float32(high))


def _rsqrt(x: Floats, options: Options) -> Floats:
    return np.asarray(np.float32(1) / np.sqrt(x), np.float32)


#: By operator, of one real.
UNARY: Mapping[str, Callable[[Floats, Options], Floats]] = {
    "ABS": lambda x, options: np.abs(x),
    "CEIL": lambda x, options: np.ceil(x),
    "COS": _exact(np.cos),
    "ELU": _exact(lambda x: np.where(x < 0, np.expm1(x), x)),
    "EXP": _exact(np.exp),
    "FLOOR": lambda x, options: np.floor(x),
    "GELU": _gelu,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": lambda x, options: np.where(x > 0, x, x * np.float32(options["Alpha"])),
    "LOG": _exact(np.log),
    "LOGISTIC": _logistic,
    "NEG": lambda x, options: -x,
    "RELU": _between(0, np.inf),
    "RELU6": _between(0, 6),
    "RELU_0_TO_1": _between(0, 1),
    "RELU_N1_TO_1": _between(-1, 1),
    "ROUND": lambda x, options: np.rint(x),
    "RSQRT": _rsqrt,
    "SIN": _exact(np.sin),
    "SQRT": lambda x, options: np.sqrt(x),
    "SQUARE": lambda x, options: x * x,
    "TANH": _exact(np.tanh),
}

_ACTIVATIONS: Mapping[str, tuple[float, float]] = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0, np.inf),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
}


def _activated(function: Callable[[Floats, Floats], Floats]) -> Callable[..., Floats]:
    def clipped(a: Floats, b: Floats, options: Options) -> Floats:
        low, high = _ACTIVATIONS[options.get("FusedActivationFunction", "NONE")]
        return np.clip(function(a, b), np.float32(low), np.float32(high))

    return clipped


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, options: function(a, b)


#: Comparisons of two numbers, by operator.
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "NOT_EQUAL": np.not_equal,
}
#: By operator, of two reals: of the same bytes, or one a constant.
BINARY: Mapping[str, Callable[[Floats, Floats, Options], Any]] = {
    "ADD": _activated(np.add),
    "DIV": _activated(np.divide),
    "MAXIMUM": _plain(np.maximum),
    "MINIMUM": _plain(np.minimum),
    "MUL": _activated(np.multiply),
    "POW": _plain(lambda a, b: np.power(a.astype(np.float64), b).astype(np.float32)),
    "SQUARED_DIFFERENCE": _plain(lambda a, b: (a - b) * (a - b)),
    "SUB": _activated(np.subtract),
    **{code: _plain(function) for code, function in COMPARISONS.items()},
}
