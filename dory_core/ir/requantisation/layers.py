"""Requantisations of a layer as steps over its sums of products, and what is found once of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from dory_core.ir import Layer, Operator, Requant, requant
from dory_core.ir.ranges import accumulator_bounds
from dory_core.ir.requantisation.narrow import Stairs
from dory_core.ir.requantisation.staircase import signed_staircase, staircase

_More = ParamSpec("_More")
_Found = TypeVar("_Found")
_Integers = npt.NDArray[np.int64]


def steps_of_sums(layer: Layer) -> tuple[tuple[Requant, ...], _Integers, _Integers]:
    """Return (steps, lo, hi): all that happens to the sums of products, and which can be reached.

    A bias is the first of the steps. Bounds are int64, shape (C,) for C output channels, or (1,).
    """
    lo, hi = accumulator_bounds(layer.op, layer.inputs)
    steps = layer.op.requants
    if layer.bias is None:
        return steps, lo, hi
    bias = layer.bias.values.astype(np.int64)
    return (requant([1] * len(bias), bias.tolist()), *steps), lo - bias, hi - bias


def search_steps(
    search: Callable[[Stairs], _Found | None],
    steps: Sequence[Requant],
    acc_lo: _Integers,
    acc_hi: _Integers,
) -> _Found | None:
    """Return the parameters that a search finds for the staircase of steps.

    Where it finds nothing and the first step has two addends, the staircases on each side of zero
    are searched: they have two addends as well.

    Args:
        search: Returns the parameters for a staircase, None for none.
        steps: As for :func:`staircase`.
        acc_lo: As for :func:`staircase`.
        acc_hi: As for :func:`staircase`.
    """
    stairs = staircase(steps, acc_lo, acc_hi)
    found = None if stairs is None else search(stairs)
    if found is not None or all(step.add_negative is None for step in steps):
        return found
    sides = signed_staircase(steps, acc_lo, acc_hi)
    return None if sides is None else search(sides)


def cached_per_layer(
    find: Callable[Concatenate[Layer, _More], _Found],
) -> Callable[Concatenate[Layer, _More], _Found]:
    """Keep what a function finds for a layer and hashable arguments after it.

    Tiling asks for it thousands of times, layer after layer. What is kept goes with the operator.
    """
    kept: WeakKeyDictionary[Operator, dict[object, _Found]] = WeakKeyDictionary()

    @wraps(find)
    def found(layer: Layer, /, *args: _More.args, **kwargs: _More.kwargs) -> _Found:
        of_operator = kept.setdefault(layer.op, {})
        key = (layer.inputs, layer.output, layer.ranges, args, *kwargs.items())
        if key not in of_operator:
            of_operator[key] = find(layer, *args, **kwargs)
        return of_operator[key]

    return found
