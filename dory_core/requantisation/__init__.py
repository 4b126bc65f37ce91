"""What requantisations do to every reachable accumulator, and cheaper ones that do the same."""

from dory_core.requantisation.layers import cached_per_layer, steps_of_sums
from dory_core.requantisation.narrow import (
    Narrow,
    exact_addend_interval,
    narrow,
    narrow_32,
    narrow_clamped,
    narrow_limbs,
    narrow_product,
    reach,
)
from dory_core.requantisation.staircase import Staircase, staircase

__all__ = [
    "Narrow",
    "Staircase",
    "exact_addend_interval",
    "narrow",
    "narrow_32",
    "narrow_clamped",
    "narrow_limbs",
    "narrow_product",
    "cached_per_layer",
    "reach",
    "staircase",
    "steps_of_sums",
]
