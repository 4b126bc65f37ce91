"""What all functions of the library share, and what they demand of a layer."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import Kernel, Layer, Rejection, Tensor
from dory_gap8.pulp_nn.library import Library

if TYPE_CHECKING:
    from dory_core.api import OutputFile

U8_MAX = 255
U16_MAX = (1 << 16) - 1
U32_MAX = (1 << 32) - 1
INT16_MAX = (1 << 15) - 1
INT32 = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True)
class UpstreamKernel(Kernel):
    """A function of the library. cores: that share a tile, a power of two."""

    library: Library
    cores: int

    def symbol(self, layer: Layer) -> str:
        """The library's own name."""
        return self.name

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """The library's own header."""
        return ("pulp_nn_kernels.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The library's own files."""
        return self.library.sources(self.name)

    def accepts(self, layer: Layer) -> Rejection | None:
        """What all functions of the library demand, then what this one does."""
        if self.cores & (self.cores - 1):
            return Rejection(f"PULP-NN shares work among a power of two of cores, not {self.cores}")
        return self.rejection_of(layer)

    @abstractmethod
    def rejection_of(self, layer: Layer) -> Rejection | None:
        """Return why this function does not compute the layer exactly."""


def reject_u8(tensor: Tensor, role: str) -> Rejection | None:
    """Return why a tensor is not stored as the library wants it."""
    if (tensor.bits, tensor.signed) == (8, False):
        return None
    return Rejection(f"its {role} is {tensor.type_name}, PULP-NN takes u8")


def first(*rejections: Rejection | None) -> Rejection | None:
    """Return the first reason."""
    return next((r for r in rejections if r is not None), None)
