"""Size of the C code of a network, as a rule of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CodeSizes:
    """Bytes of code for each element of a program, fitted to measured object files.

    Attributes:
        network: Bytes of the function that runs the layers, without its layers.
        layer: Bytes of each layer in that function and in the tables of the application.
        event: Bytes of an entry of the table of transfers between L3 and L2; exact.
        function: Bytes of each layer function.
        copy, wait, barrier, condition, axis: Bytes of each transfer, wait, barrier, condition and
            loop axis of a function.
        part: Bytes of each part of the layers that run a function.
        row: Bytes of each layer that shares its function with other layers.
        number: Bytes of each number in the table of a layer's parts.
        line: Bytes of each line around the call of a kernel.
        kernel: Bytes of a kernel without a ``Kernel.code_bytes`` of its own.
        kernels: Bytes of kernels whose sizes are measured, by their symbols.
    """

    network: int
    layer: int
    event: int
    function: int
    copy: int
    wait: int
    barrier: int
    condition: int
    axis: int
    part: int
    row: int
    number: int
    line: int
    kernel: int
    kernels: Mapping[str, int] = field(default_factory=dict)

    def of_kernel(self, symbol: str, size: int | None) -> int:
        """Return the bytes of a kernel.

        Args:
            symbol: Of the kernel.
            size: Its ``Kernel.code_bytes``.
        """
        return self.kernels.get(symbol, self.kernel) if size is None else size
