"""Whether two sequences of requantisations are equal on an interval, by their staircases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Requant
from dory_core.ir.requantisation import staircase

Integers = npt.NDArray[Any]


def equal_on(
    one: Sequence[Requant], other: Sequence[Requant], acc_lo: Integers, acc_hi: Integers
) -> npt.NDArray[np.bool_]:
    """Return, shape (C,), whether two sequences of steps are equal on the whole interval.

    acc_lo, acc_hi: as for :func:`staircase`. Raises: ValueError when there are too many steps to
    compare.
    """
    first, second = staircase(one, acc_lo, acc_hi), staircase(other, acc_lo, acc_hi)
    if first is None or second is None:
        raise ValueError("too many steps")
    channels = max(len(first.first), len(second.first))
    same = (first.first == second.first) & (first.last == second.last)
    same = np.broadcast_to(same & ((first.falling == second.falling) | first.constant), (channels,))
    if not same.any():
        return same
    if first.levels.shape[1] != second.levels.shape[1]:
        # Channels that differ widen the levels of one side only: compare the others alone.
        keep = np.flatnonzero(same)
        narrow = [_part(s, keep) for s in (one, other)]
        ends = [np.broadcast_to(e, (channels,))[keep] for e in (acc_lo, acc_hi)]
        result = np.zeros(channels, dtype=bool)
        result[keep] = equal_on(narrow[0], narrow[1], ends[0], ends[1])
        return result
    equal: npt.NDArray[np.bool_] = same & (
        (first.thresholds == second.thresholds).all(axis=1) | first.constant
    )
    return equal


def _part(steps: Sequence[Requant], channels: npt.NDArray[Any]) -> tuple[Requant, ...]:
    """Return the steps of some channels."""

    def pick(values: tuple[int, ...]) -> tuple[int, ...]:
        return values if len(values) == 1 else tuple(values[c] for c in channels)

    return tuple(
        Requant(
            *(pick(s.mul), pick(s.add), s.div, s.lo, s.hi),
            None if s.add_negative is None else pick(s.add_negative),
            s.turn,
        )
        for s in steps
    )
