"""Which bytes the operations of a layer touch: ranges over all tiles of a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dory_core.expr import Expr, evaluate
from dory_core.plan.memories import L1, MemoryId
from dory_core.plan.operations import (
    AHEAD,
    Address,
    Copy,
    LayerProgram,
    Loop,
    Mark,
    MarkKind,
    Operation,
    Value,
    When,
    all_operations,
)


@dataclass(frozen=True, slots=True)
class L2Access:
    """Bytes of L2 that a part reads or writes of an operand.

    Attributes:
        operand: ``x``, ``x2``, ``w`` or ``y``.
        memory: The memory of L2.
        start, end: First byte, and the one after the last.
        sure: ``end`` without the bytes that may be what a length was rounded up to.
    """

    operand: str
    memory: MemoryId
    start: int
    end: int
    sure: int


class LayerAccesses:
    """What the operations of a layer touch; what is equal in all of its parts is found once.

    It has the start and end of the bytes of L1 that the kernel reads or writes, by buffer
    (``used_l1``), and the marks of what stays in L1 (``keeps``).
    """

    def __init__(self, program: LayerProgram) -> None:
        self.program = program
        self.used_l1 = _used_l1(program)
        self.keeps = tuple(_marks(program, MarkKind.KEEP))
        self._copied = {op.operand for op in all_operations(program) if isinstance(op, Copy)}
        self._touching = {reads: tuple(_touching(program, reads)) for reads in (False, True)}

    def l2(self, part: int) -> tuple[list[L2Access], list[L2Access]]:
        """Return the bytes of L2 that a part reads, and those that it writes.

        Copies do that, or a kernel in place.
        """
        tiles = _tiles(self.program, part)
        reads, writes = (
            [_access(one, address, tiles) for one, address in self._touching[reads]]
            for reads in (True, False)
        )
        return reads, writes

    def writes_behind(self, part: int, operand: str) -> bool:
        """Return True when no tile of a part is stored over what a later tile loads of an input.

        Its own input and those of earlier tiles are in L1 when it is computed. A kernel in place
        has no tiles.

        Args:
            part: Number of the part.
            operand: The input.
        """
        tiles = _tiles(self.program, part)
        copies = [
            next((one for one, _ in self._touching[reads] if _moves(one, name)), None)
            for reads, name in ((True, operand), (False, "y"))
        ]
        if not all(isinstance(one, Copy) for one in copies):
            return False
        loads, stores = (_boxes(one, tiles) for one in copies if isinstance(one, Copy))
        later = set[int]()
        for load, store in zip(reversed(loads), reversed(stores), strict=True):
            if not later.isdisjoint(store):
                return False
            later.update(load)
        return True

    def skipped_operands(self, done: Iterable[Copy]) -> set[str]:
        """Return the operands that are copied into L1 by other parts than one.

        Args:
            done: Its copies.
        """
        return self._copied - {copy.operand for copy in done}


def _touching(program: LayerProgram, reads: bool) -> Iterator[tuple[Copy | Mark, Address]]:
    """Yield the operation that reads each operand from L2, or writes it, and where that lies."""
    kind = MarkKind.READ if reads else MarkKind.WRITE
    known = set()
    for operation in all_operations(program):
        if isinstance(operation, Copy) and operation.operand == AHEAD:
            continue  # of another part or layer
        if isinstance(operation, Copy) and operation.to_l1 == reads:
            address, operand = operation.l2, operation.operand
        elif isinstance(operation, Mark) and operation.kind is kind and operation.address:
            address, operand = operation.address, operation.address.operand
        else:
            continue
        # The first tile is copied by an operation of its own, from the same expressions.
        constant = address.memory.is_constants
        if address.memory != L1 and not constant and operand not in known:
            known.add(operand)
            yield operation, address


def _access(operation: Copy | Mark, address: Address, tiles: dict[str, Any]) -> L2Access:
    """Return the bytes of L2 that an operation touches.

    Args:
        operation: A copy or a mark.
        address: Of its bytes in L2.
        tiles: Values of the loop's variables, for all tiles of a part.
    """
    if isinstance(operation, Copy):
        operand, size = operation.operand, _copied_bytes(operation, tiles)
        slack = operation.carriage.multiple - 1
    else:
        operand, size, slack = address.operand, evaluate(operation.bytes, tiles), 0
    start = evaluate(address.offset, tiles)
    first, end = _least(start), _greatest(start + size)
    return L2Access(operand, address.memory, first, end, end - slack)


def _moves(operation: Copy | Mark, operand: str) -> bool:
    """Return True when an operation is a copy of an operand."""
    return isinstance(operation, Copy) and operation.operand == operand


def _boxes(copy: Copy, tiles: dict[str, Any]) -> list[list[int]]:
    """Return the bytes of L2 that a copy touches, of each tile in order."""
    count = max(
        (value.size for value in tiles.values() if isinstance(value, np.ndarray)), default=1
    )
    channels = 1 if copy.channels is None else copy.channels
    numbers = (copy.l2.offset, channels, *reversed(copy.shape))
    arrays = (np.broadcast_to(evaluate(one, tiles), (count,)) for one in numbers)
    row, plane = copy.l2_strides
    found = []
    for at, c, n2, n1, n0 in zip(*arrays, strict=True):
        grid = np.ix_(*map(np.arange, (c, n2, n1, n0 * copy.element_bytes)))
        steps = zip(grid, (copy.l2_channel, plane, row, 1), strict=True)
        found.append((at + sum(n * step for n, step in steps)).ravel().tolist())
    return found


def _least(value: Any) -> int:
    return int(value.min() if isinstance(value, np.ndarray) else value)


def _greatest(value: Any) -> int:
    return int(value.max() if isinstance(value, np.ndarray) else value)


def executed(program: LayerProgram, part: int) -> Iterator[Operation]:
    """Yield the operations that a part runs, loops apart.

    Whether those of some tiles run is known where it depends on the part; all others count as run.
    """

    def found(operations: Iterable[Operation]) -> Iterator[Operation]:
        for operation in operations:
            if isinstance(operation, Loop):
                yield from found(operation.body)
            elif not isinstance(operation, When):
                yield operation
            elif not isinstance(operation.condition, Expr) or _holds(operation.condition, part):
                yield from found(operation.body)

    return found(program.operations)


def _holds(condition: Expr, part: int) -> bool:
    """Return True when a condition holds for a part, or may hold for one of its tiles."""
    if any(variable.name != "part" for variable in condition.variables):
        return True
    return bool(evaluate(condition, {"part": part}))


def first_copies(program: LayerProgram, part: int) -> Iterator[Copy]:
    """Yield the copies that a part makes in front of its tile loop."""
    for operation in program.operations:
        if isinstance(operation, When) and isinstance(operation.condition, Expr):
            inner = operation.body if _holds(operation.condition, part) else ()
        else:
            inner = (operation,)
        yield from (one for one in inner if isinstance(one, Copy))


def buffers_of_tiles(
    program: LayerProgram, part: int, operand: str, kind: MarkKind = MarkKind.READ
) -> Any:
    """Return start and end of the bytes of L1 that each tile of a part has of an operand.

    Args:
        program: That of the layer.
        part: Number of the part.
        operand: The operand.
        kind: Whether the kernel reads it or writes it.

    Returns:
        An array of two rows, with a column for each tile in the order of execution.
    """
    mark = next(
        mark
        for mark in _marks(program, kind)
        if mark.address is not None and mark.address.operand == operand
    )
    return _tiles_in_l1(program, part, mark)


def _tiles_in_l1(program: LayerProgram, part: int, mark: Mark) -> Any:
    """Return start and end of the bytes of a mark for each tile, as :func:`buffers_of_tiles`."""
    assert mark.address is not None
    tiles = _tiles(program, part)
    loop = program.loop
    count = 1 if loop is None else len(tiles[loop.axes[0].name])
    for slot in loop.slots if loop is not None else ():
        changed = np.zeros(count, dtype=np.int64)
        for axis in slot.axes:
            changed[1:] |= np.diff(tiles[axis]) != 0
        tiles[slot.name] = np.cumsum(changed) % slot.copies
    start, size = evaluate(mark.address.offset, tiles), evaluate(mark.bytes, tiles)
    return np.stack([np.broadcast_to(one, (count,)) for one in (start, start + size)])


def _used_l1(program: LayerProgram) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return start and end of the bytes of L1 that the kernel reads or writes, by buffer.

    Those of each copy of a buffer.
    """
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    slots = {slot.name for slot in program.loop.slots} if program.loop is not None else set[str]()
    for mark in _marks(program, MarkKind.READ, MarkKind.WRITE):
        where = mark.address
        if where is None or where.memory != L1:
            continue
        moves = isinstance(where.offset, Expr) and where.offset.variables
        if moves and any(variable.name not in slots for variable in moves):
            # Tiles are parts of a tensor: the one that begins last may have fewer bytes.
            parts = range(program.parts)
            spans = np.concatenate([_tiles_in_l1(program, n, mark) for n in parts], axis=1)
            found[where.operand] = ((int(spans[0].min()), int(spans[1].max())),)
        else:
            ends, (_, size) = bounds(where.offset), bounds(mark.bytes)
            found[where.operand] = tuple((start, start + size) for start in sorted({*ends}))
    return found


def _marks(program: LayerProgram, *kinds: MarkKind) -> Iterator[Mark]:
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
    """Return the variables of all tiles of a part in their order, those of the loop as arrays."""
    found: dict[str, Any] = {"part": part}
    if program.loop is not None:
        axes = program.loop.axes
        ranges = (np.arange(evaluate(a.first, found), evaluate(a.end, found)) for a in axes)
        grids = np.meshgrid(*ranges, indexing="ij")
        found |= {axis.name: grid.ravel() for axis, grid in zip(axes, grids, strict=True)}
    return found
