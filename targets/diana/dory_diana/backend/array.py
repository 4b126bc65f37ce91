"""What the kernels of both arrays share: driver calls and rejections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dory_core.api import (
    Argument,
    FunctionCall,
    Kernel,
    Layer,
    Local,
    Operand,
    OutputFile,
    Rejection,
    Struct,
    Symbol,
    Tensor,
    ops,
)
from dory_diana.requant import Adc, Shift

#: Members of a struct of the driver, by name.
Arguments = tuple[tuple[str, Argument], ...]
#: Sides of filters that the arrays have.
SIDES = (1, 3, 5, 7)
DRIVER = "dory_diana_driver.h"


@dataclass(frozen=True, slots=True)
class ArrayKernel(Kernel):
    """A call of the driver on one tile.

    function: its public name. array: the engine, and the suffix of its barrier.
    """

    function: ClassVar[str]
    array: ClassVar[str]

    def symbol(self, layer: Layer) -> str:
        """Return the public name of the call."""
        return self.function

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of the driver."""
        return (DRIVER,)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """Return that header; the library is the board's, or the model's in the simulation."""
        from dory_diana.runtime import driver_files

        return driver_files()

    def driver_call(
        self,
        fields: Iterable[tuple[str, Argument]],
        arguments: Mapping[str, Argument],
    ) -> FunctionCall:
        """Return the call and the barrier that completes it."""
        parameters = Local("Layer_parameters", "parameters", Struct(dict(fields)))
        barrier = FunctionCall(f"dory_cores_barrier_{self.array}")
        all_arguments = {**arguments, "parameters": Symbol("&parameters")}
        return FunctionCall(self.function, all_arguments, (parameters,), (barrier,))


def requantisation(form: Adc | Shift) -> Arguments:
    """Return the fields of the requantisation of sums, or after the converters."""
    return (
        ("activation_function", int(form.relu)),
        ("output_shift", form.shift),
        ("dilation", 1),
    )


def l1(name: str) -> Operand:
    """Return the L1 address of a buffer as the calls count."""
    return Operand(name, function="dory_diana_l1")


def l2(name: str) -> Operand:
    """Return an L2 address as the calls take it."""
    return Operand(name, "uintptr_t")


def reject_bytes(tensors: Sequence[Tensor]) -> Rejection | None:
    """Reject tensors that are not stored in bytes."""
    for tensor in tensors:
        if tensor.bits != 8:
            return Rejection(
                f"{tensor.name} has {tensor.bits} bits in storage, activations of the arrays are "
                "bytes"
            )
    return None


def reject_filter(conv: ops.Conv) -> Rejection | None:
    """Reject filters and steps that neither array has."""
    window = conv.window
    if any(side not in SIDES for side in window.kernel):
        height, width = window.kernel
        return Rejection(f"its filter is {height}x{width}, sides of 1, 3, 5 and 7 are possible")
    if window.strides not in ((1, 1), (2, 2)):
        return Rejection(f"its strides are {window.strides}, (1, 1) and (2, 2) are possible")
    if any(d != 1 for d, side in zip(window.dilations, window.kernel, strict=True) if side > 1):
        return Rejection("its filter is dilated")
    for side, pads in zip(window.kernel, (window.pads[0::2], window.pads[1::2]), strict=True):
        if max(pads) >= side:
            return Rejection(f"it pads by {max(pads)}, as much as its filter has rows or columns")
    return None
