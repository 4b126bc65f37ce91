"""What the kernels of both arrays share: driver calls and rejections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dory_core.api import FunctionCall, Kernel, Layer, OutputFile, Rejection, Tensor, ops
from dory_diana.requant import Adc, Shift

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
        fields: Sequence[tuple[str, str]],
        arguments: Mapping[str, str],
        before: Sequence[str] = (),
    ) -> FunctionCall:
        """Return the call and the barrier that completes it."""
        lines = [*before, "Layer_parameters parameters = {"]
        lines += [f"  .{name} = {value}," for name, value in fields]
        barrier = f"dory_cores_barrier_{self.array}();"
        all_arguments = {**arguments, "parameters": "&parameters"}
        return FunctionCall(self.function, all_arguments, (*lines, "};"), (barrier,))


def requantisation(form: Adc | Shift) -> tuple[tuple[str, str], ...]:
    """Return the fields that say what happens to sums, or behind the converters."""
    return (
        ("activation_function", str(int(form.relu))),
        ("output_shift", str(form.shift)),
        ("dilation", "1"),
    )


def l1(name: str) -> str:
    """Return the L1 address of a buffer as the calls count."""
    return f"dory_diana_l1(${name})"


def l2(name: str) -> str:
    """Return an L2 address as the calls take it."""
    return f"(uintptr_t)${name}"


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
