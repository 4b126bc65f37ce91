"""Immutable integer arrays that compare by value, for use inside frozen dataclasses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Array:
    """A read-only numpy integer array with value equality.

    Attributes:
        values: Stored in the smallest of int8, int16, int32, int64 that holds it, so that equal
            content gives equal Arrays whatever the dtype of the source.
        bounds: The least and the greatest value, (0, 0) where there is none.
    """

    __slots__ = ("_hash", "bounds", "values")

    values: npt.NDArray[Any]
    bounds: tuple[int, int]
    _hash: int

    def __init__(self, values: npt.ArrayLike) -> None:
        source = np.asarray(values)
        if source.dtype.kind not in "iub":
            raise TypeError(f"Array holds integers, not {source.dtype}")
        lo, hi = (int(source.min()), int(source.max())) if source.size else (0, 0)
        dtype = next(
            t
            for t in (np.int8, np.int16, np.int32, np.int64)
            if np.iinfo(t).min <= lo and hi <= np.iinfo(t).max
        )
        packed = np.ascontiguousarray(source, dtype=dtype)
        if packed is source:
            packed = packed.copy()
        packed.setflags(write=False)
        object.__setattr__(self, "values", packed)
        object.__setattr__(self, "bounds", (lo, hi))
        object.__setattr__(self, "_hash", hash((packed.shape, packed.tobytes())))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Array is immutable")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.values.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.values.dtype})"
