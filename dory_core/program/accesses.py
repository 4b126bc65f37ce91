"""Which bytes the operations of a layer touch: ranges over all tiles of a part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dory_core.expr import Expr, evaluate
from dory_core.plan.operations import (
    L1,
    Copy,
    LayerProgram,
    Mark,
    MarkKind,
    Value,
    all_operations,
    is_constants,
)
from dory_core.records import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes start to end of a memory of L2 that a part reads or writes of an operand.

    sure: end without the bytes that may be what a length was rounded up to.
    """

    operand: str
    memory: str
    start: int
    end: int
    sure: int


def l2_accesses(program: LayerProgram, part: int, reads: bool) -> Iterator[Access]:
    """Yield what a part reads from L2, or writes to it, by copies or by the kernel in place."""
    tiles = _tiles(program, part)
    kind = MarkKind.READ if reads else MarkKind.WRITE
    known = set()
    for operation in all_operations(program):
        if isinstance(operation, Copy) and operation.to_l1 == reads:
            address, size = operation.l2, _copied_bytes(operation, tiles)
            operand, slack = operation.operand, operation.carriage.multiple - 1
        elif isinstance(operation, Mark) and operation.kind is kind and operation.address:
            address, size = operation.address, evaluate(operation.bytes, tiles)
            operand, slack = address.operand, 0
        else:
            continue
        # The first tile is copied by an operation of its own, from the same expressions.
        constant = is_constants(address.memory)
        if address.memory != L1 and not constant and operand not in known:
            known.add(operand)
            start = evaluate(address.offset, tiles)
            first, end = int(np.min(start)), int(np.max(start + size))
            yield Access(operand, address.memory, first, end, end - slack)


def used_l1(program: LayerProgram) -> dict[str, tuple[int, int]]:
    """Return start and end of the bytes of L1 that the kernel reads or writes, by buffer."""
    found: dict[str, tuple[int, int]] = {}
    for mark in marks(program, MarkKind.READ, MarkKind.WRITE):
        where = mark.address
        if where is not None and where.memory == L1:
            (start, last), (_, size) = bounds(where.offset), bounds(mark.bytes)
            found[where.operand] = (start, last + size)
    return found


def marks(program: LayerProgram, *kinds: MarkKind) -> Iterator[Mark]:
    """Yield the marks of some kinds."""
    for operation in all_operations(program):
        if isinstance(operation, Mark) and operation.kind in kinds:
            yield operation


def bounds(value: Value) -> tuple[int, int]:
    """Return the least and the greatest value."""
    return value.bounds if isinstance(value, Expr) else (value, value)


def _copied_bytes(copy: Copy, tiles: dict[str, Any]) -> Any:
    """Return the bytes from the first to the last one of the box in L2."""
    n0, n1, n2 = (evaluate(n, tiles) for n in copy.shape)
    row, plane = copy.l2_strides
    size = n0 * copy.element_bytes + (n1 - 1) * row + (n2 - 1) * plane
    if copy.channels is not None:
        size = size + (evaluate(copy.channels, tiles) - 1) * copy.l2_channel
    return size


def _tiles(program: LayerProgram, part: int) -> dict[str, Any]:
    """Return the variables of all tiles of a part, those of the loop as arrays."""
    found: dict[str, Any] = {"part": part}
    if program.loop is not None:
        axes = program.loop.axes
        ranges = (np.arange(evaluate(a.first, found), evaluate(a.end, found)) for a in axes)
        grids = np.meshgrid(*ranges)
        found |= {axis.name: grid.ravel() for axis, grid in zip(axes, grids, strict=True)}
    return found
