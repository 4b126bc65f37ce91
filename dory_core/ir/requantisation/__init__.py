"""What requantisations do to every reachable accumulator, and cheaper ones that do the same."""

from dory_core.ir import float_requant, mean_requant
from dory_core.ir.requantisation.halves import integer_form
from dory_core.ir.requantisation.layers import cached_per_layer, search_steps, steps_of_sums
from dory_core.ir.requantisation.lines import exact_addend_interval
from dory_core.ir.requantisation.narrow import (
    Narrow,
    Stairs,
    narrow,
    narrow_32,
    narrow_clamped,
    narrow_limbs,
    narrow_product,
    reach,
    widest,
)
from dory_core.ir.requantisation.own_shifts import (
    HighProduct,
    high_product,
    narrow_for_channels,
)
from dory_core.ir.requantisation.pairs import PairLine, pair_line_of
from dory_core.ir.requantisation.staircase import (
    SignedStaircase,
    Staircase,
    signed_staircase,
    staircase,
)
from dory_core.ir.requantisation.tables import byte_table

__all__ = [
    "HighProduct",
    "Narrow",
    "PairLine",
    "SignedStaircase",
    "Staircase",
    "Stairs",
    "byte_table",
    "exact_addend_interval",
    "float_requant",
    "high_product",
    "integer_form",
    "mean_requant",
    "narrow",
    "narrow_32",
    "narrow_clamped",
    "narrow_for_channels",
    "narrow_limbs",
    "narrow_product",
    "pair_line_of",
    "cached_per_layer",
    "reach",
    "search_steps",
    "signed_staircase",
    "staircase",
    "steps_of_sums",
    "widest",
]
