"""What requantisations do to every reachable accumulator, and cheaper ones that do the same."""

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
    "reach",
    "staircase",
]
