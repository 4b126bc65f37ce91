"""Plans of a network that may be streamed, within ever smaller budgets of L2.

Smaller budgets take more parts, and more parts take more code. Where code lies in L2 as well, the
smallest plan is that with the fewest bytes of both. Layers are cut once for each budget: a plan for
that budget alone may be faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import TypeVar

from dory_core.errors import DoesNotFit
from dory_core.hardware.target import TargetContext
from dory_core.plan.budgets import Budgets
from dory_core.planning.fitting import Fitted, place_network, problems_of
from dory_core.planning.front.least_bytes import PRECISION, least_room, needed_bytes
from dory_core.planning.problem import HOME, Problem
from dory_core.tiling.parts import Tilings

T = TypeVar("T")

#: Most plans of a front that are searched.
MOST_PLANS = 5
#: Share of the bytes of a plan that the next one may use at most.
_STEP = 0.75
#: The least budget grows by one part in as many where the code of its parts has no room.
_GROWTH = 32
#: Plans that are searched next to the smallest one with its code, where others are further away.
_BETWEEN, _FAR = 2, 1.25


@dataclass(frozen=True, slots=True)
class Streamed:
    """A network that may be streamed.

    Attributes:
        tiling: The tilings of the layers.
        ctx: The target.
        budgets: Bytes of each level.
        any_core: As for :func:`place_network`.
        problems: Ways to compute the network; what was computed for one plan serves the others.
    """

    tiling: Tilings
    ctx: TargetContext
    budgets: Budgets
    any_core: bool
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, tiling: Tilings, ctx: TargetContext, budgets: Budgets, any_core: bool) -> Streamed:
        """Return the network with its problems.

        Args:
            tiling: The tilings of the layers.
            ctx: The target.
            budgets: Bytes of each level.
            any_core: As for :func:`place_network`.
        """
        problems = tuple(replace(p, thorough=False) for p in problems_of(tiling, ctx, budgets))
        return cls(tiling, ctx, budgets, any_core, problems)

    def place(self, room: int) -> Fitted:
        """Return the fastest plan within some bytes of L2. Raises: as :func:`place_network`."""
        within = self._within(room)
        return place_network(self.tiling, self.ctx, within, self.any_core, problems=self.problems)

    def front(self, start: Fitted) -> list[Fitted]:
        """Return a plan and smaller ones, from the largest data to the smallest."""
        if self.ctx.memory.level(HOME).code is not None:
            return beside_code(self.place, _data, lambda one: one.l2_bytes, start)
        return shrunk(self.place, _data, start, self._least(_data(start)))

    def smallest(self, start: Fitted) -> Fitted:
        """Return the plan with the fewest bytes of data and code in L2."""
        if self.ctx.memory.level(HOME).code is not None:
            return min(self.front(start), key=lambda one: (one.l2_bytes, one.cycles))
        return self.least_data(start)

    def least_data(self, start: Fitted) -> Fitted:
        """Return the plan with the fewest bytes of data in L2, whatever its code takes."""
        return shrunk(self.place, _data, start, self._least(_data(start)), most=2)[-1]

    def _within(self, room: int) -> Budgets:
        return replace(self.budgets, bytes={**self.budgets.bytes, HOME: room})

    def _needed(self, room: int, is_sure: bool = False) -> int:
        """Return about the bytes of data that are needed, 0 where some suffice."""
        if not self.problems[0].network.by_rows:
            trials = (replace(one, budgets=self._within(room)) for one in self.problems)
            return needed_bytes(trials, is_sure)
        try:
            self.place(room)
        except DoesNotFit as error:
            return error.needed_bytes or room + 1
        return 0

    def _least(self, most_bytes: int) -> int:
        """Return about the fewest bytes of data that suffice, of which ``most_bytes`` do."""
        least = least_room(self._needed, most_bytes)
        while least < most_bytes and self._needed(least, is_sure=True):
            least += max(1, least // _GROWTH)
        return least


def _data(plan: Fitted) -> int:
    """Return the bytes of data of a plan in L2."""
    return plan.planned.home_bytes


def shrunk(
    place: Callable[[int], T],
    used: Callable[[T], int],
    start: T,
    least: int,
    most: int = MOST_PLANS,
) -> list[T]:
    """Return a plan, and those within ever smaller budgets, each smaller by about the same share.

    Args:
        place: Makes a plan within some bytes of L2, or raises DoesNotFit.
        used: Returns the bytes of L2 of a plan.
        start: The first plan.
        least: The smallest budget. It grows where it has no plan.
        most: Most plans.
    """
    found = [start]
    while len(found) < most and (high := used(found[-1])) > least + high * PRECISION:
        share = min(_STEP, (least / high) ** (1 / (most - len(found))))
        room = max(least, int(high * share))
        try:
            found.append(place(room))
        except DoesNotFit:
            least = (room + high) // 2
    return found


def beside_code(
    place: Callable[[int], T], data: Callable[[T], int], total: Callable[[T], int], start: T
) -> list[T]:
    """Return a plan, and those within ever smaller budgets while they save more than code takes.

    Args:
        place: Makes a plan within some bytes of data, or raises DoesNotFit.
        data: Returns the bytes of data of a plan.
        total: Returns its bytes of data and code.
        start: The first plan.
    """
    found, refused = [start], 0
    while len(found) <= MOST_PLANS and total(found[-1]) == min(map(total, found)):
        high = data(found[-1])
        room = max(high // 2, isqrt(refused * high))
        if high < _FAR * room:
            break
        try:
            found.append(place(room))
        except DoesNotFit:
            refused = room
    for _ in range(_BETWEEN):
        best = min(range(len(found)), key=lambda n: total(found[n]))
        gaps = [
            (data(larger) / data(smaller), n)
            for n, (larger, smaller) in enumerate(pairwise(found))
            if best in (n, n + 1)
        ]
        far, n = max(gaps, default=(0.0, 0))
        if far < _FAR:
            break
        try:
            found.insert(n + 1, place(isqrt(data(found[n]) * data(found[n + 1]))))
        except DoesNotFit:
            break
    return found
