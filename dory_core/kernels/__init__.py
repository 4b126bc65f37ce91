"""Kernels that dory_core ships: plain C99 for every layer kind and precision, for any core."""

from dory_core.kernels.portable import PortableCosts, portable_kernels

__all__ = ["PortableCosts", "portable_kernels"]
