"""Parameters of requantisations as words in memory, see ``dory_gap8_requant_impl.h``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dory_core.api import requantisation
from dory_gap8.backend.steps import Step


def modular(values: Sequence[int], bits: int) -> npt.NDArray[np.int64]:
    """Return values modulo 2^bits, as signed numbers."""
    half = 1 << (bits - 1)
    return np.array([(v + half) % (2 * half) - half for v in values], dtype=np.int64)


def words(columns: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int32]:
    """Return columns of values modulo 2^32 as rows of words."""
    found: npt.NDArray[np.int32] = np.stack(columns, axis=1).astype(np.int32)
    return found


def narrow_records(found: requantisation.Narrow) -> npt.NDArray[np.int32]:
    """Return the records: [offset], [reach], [mul_low], mul, add, [below], [shift]."""
    below = found.below_high
    optional = (found.offset, found.reach, found.mul_low if found.low_bits else None)
    last = (found.mul_high, found.add_high, below, found.shifts)
    return words([values for values in (*optional, *last) if values is not None])


def high_records(found: requantisation.HighProduct) -> npt.NDArray[np.int32]:
    """Return the records of the upper word of a product: [offset], mul, add, [below], shift."""
    columns = (found.offset, found.mul, found.add, found.below, found.shift)
    return words([values for values in columns if values is not None])


def step_records(first: Step, bits: int) -> npt.NDArray[np.int32]:
    """Return the records of a first step: [offset], mul, add, [below], one or two words each."""
    values = (first.offset, first.mul, first.add, first.below)
    columns = np.broadcast_arrays(*(modular(v, bits) for v in values if v is not None))
    return words([part for c in columns for part in ((c,) if bits == 32 else (c, c >> 32))])
