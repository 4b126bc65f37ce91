"""Kernels that dory_core ships: plain C99 for every layer kind and precision, for any core."""

from dory_core.kernels.portable import portable_kernels
from dory_core.kernels.portable_base import PortableCosts

__all__ = ["PortableCosts", "portable_kernels"]
