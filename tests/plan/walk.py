"""Programs of layers executed step by step: operations in order, integers for variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from dory_core.expr import Expr, evaluate
from dory_core.plan.operations import (
    AtTile,
    Changes,
    Copy,
    LayerProgram,
    Loop,
    LoopAxis,
    Of,
    Operation,
    Slot,
    Value,
    When,
)

Values = Mapping[str, int]


def walk(program: LayerProgram, part: int = 0) -> Iterator[tuple[Operation, Values]]:
    """Yield the operations of one part in order, each with the values of its variables.

    Loops and conditions are resolved. ``tile`` is the number of the tile, from 0; what stands
    before a loop belongs to its first tile.
    """
    values: Values = {"part": part, "tile": 0}
    if program.loop is not None:
        values = next(iter(_tiles(program.loop, values)), values)
    for operation in program.operations:
        if isinstance(operation, Loop):
            yield from _loop(operation, values)
        else:
            yield from _run((operation,), values, None)


def value(expression: Value, values: Values) -> int:
    """Return an expression's value."""
    return int(evaluate(expression, values)) if isinstance(expression, Expr) else expression


def _loop(loop: Loop, values: Values) -> Iterator[tuple[Operation, Values]]:
    tiles = list(_tiles(loop, values))
    for number, tile in enumerate(tiles):
        following = tiles[number + 1] if number + 1 < len(tiles) else None
        yield from _run(loop.body, tile, following)


def _tiles(loop: Loop, values: Values) -> Iterator[Values]:
    """Yield the variables of every tile."""
    ranges = [range(value(a.first, values), value(a.end, values)) for a in loop.axes]
    for number, position in enumerate(product(*ranges)):
        tile = {**values, "tile": number}
        tile.update((axis.name, at) for axis, at in zip(loop.axes, position, strict=True))
        tile.update((slot.name, slot_value(slot, loop.axes, tile)) for slot in loop.slots)
        yield tile


def slot_value(slot: Slot, axes: Iterable[LoopAxis], tile: Values) -> int:
    """Return a slot's value at a tile.

    A tile changes along the slot's axes exactly when the number of the iteration of the loops from
    the outermost axis to the innermost one of them changes.
    """
    iteration = found = 0
    for axis in axes:
        first, end = value(axis.first, tile), value(axis.end, tile)
        iteration = iteration * (end - first) + tile[axis.name] - first
        if axis.name in slot.axes and end - first > 1:
            found = iteration
    return found % slot.copies


def _run(
    operations: Iterable[Operation], tile: Values, following: Values | None
) -> Iterator[tuple[Operation, Values]]:
    for operation in operations:
        if isinstance(operation, When):
            if _holds(operation.condition, tile, following):
                yield from _run(operation.body, tile, following)
        elif isinstance(operation, Copy) and operation.of is Of.NEXT:
            assert following is not None
            yield operation, following
        else:
            yield operation, tile


def _holds(condition: Expr | Changes | AtTile, tile: Values, following: Values | None) -> bool:
    if isinstance(condition, AtTile):
        return tile["tile"] == value(condition.number, tile)
    if isinstance(condition, Changes):
        return following is not None and any(tile[a] != following[a] for a in condition.axes)
    return bool(value(condition, tile))
