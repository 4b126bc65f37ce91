"""What the C of a network takes in memory beside its data, as a rule of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CodeSizes:
    """Bytes of the objects of a network by what its program holds, fitted to measured objects.

    Attributes:
        network: The function that runs the layers.
        layer: Of each layer there, and in tables of the application.
        event: Of an entry of the table of transfers between L3 and L2, exactly.
        function: Of each function that layers run.
        copy, wait, barrier, condition, axis: Of each transfer, wait, barrier, condition and axis of
            a loop of a function.
        part: Of each part of the layers that run a function.
        row: Of each layer that runs a function with others.
        number: Of each number of the parts of a layer in a table.
        line: Of each line around the call of a kernel.
        kernel: Of a kernel that does not say it itself (``Kernel.code_bytes``).
        kernels: Of such kernels whose sizes are known, by their symbols.
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
