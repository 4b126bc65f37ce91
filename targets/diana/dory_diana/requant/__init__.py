"""Requantisation in the forms that the arrays have, found and proven for reachable accumulators."""

from dory_diana.requant.adc import Adc, find_adc
from dory_diana.requant.shift import Shift, find_shift

__all__ = ["Adc", "Shift", "find_adc", "find_shift"]
