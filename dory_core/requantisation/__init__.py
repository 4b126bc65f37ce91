"""What requantisations do to every reachable accumulator, and cheaper ones that do the same."""

from dory_core.requantisation.layers import once_per_layer, steps_of_sums
from dory_core.requantisation.narrow import (
    Narrow,
    addends,
    narrow,
    narrow_32,
    narrow_clamped,
    narrow_limbs,
    narrow_product,
    reach,
)
from dory_core.requantisation.staircase import Staircase, equal_on, staircase

__all__ = [
    "Narrow",
    "Staircase",
    "addends",
    "equal_on",
    "narrow",
    "narrow_32",
    "narrow_clamped",
    "narrow_limbs",
    "narrow_product",
    "once_per_layer",
    "reach",
    "staircase",
    "steps_of_sums",
]
