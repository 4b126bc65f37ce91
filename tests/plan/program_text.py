"""Programs as text, for tests and for people: one operation a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dory_core.expr import to_text
from dory_core.plan.operations import (
    Address,
    AtTile,
    Barrier,
    Call,
    Changes,
    Copy,
    LayerProgram,
    Loop,
    Mark,
    Operation,
    Wait,
    When,
)


def program_text(program: LayerProgram) -> str:
    """Return the operations of a layer as text."""
    return "".join(f"{line}\n" for line in _lines(program.operations, ""))


def _lines(operations: Iterable[Operation], indent: str) -> Iterator[str]:
    for operation in operations:
        yield indent + _line(operation)
        if isinstance(operation, (Loop, When)):
            yield from _lines(operation.body, indent + "  ")


def _line(operation: Operation) -> str:
    if isinstance(operation, Copy):
        return _copy(operation)
    if isinstance(operation, Wait):
        slot = to_text(operation.slot)
        where = "" if slot == "0" else f"[{slot}]"
        return f"wait {operation.operand}{where}{'' if operation.open else ' if open'}"
    if isinstance(operation, Barrier):
        return "barrier"
    if isinstance(operation, Mark):
        if operation.address is None:
            return f"mark {operation.kind.value}"
        where = _address(operation.address)
        return f"mark {operation.kind.value} {where}, {to_text(operation.bytes)} B"
    if isinstance(operation, Call):
        return f"call {operation.call.function}"
    if isinstance(operation, When):
        condition = operation.condition
        if isinstance(condition, Changes):
            return f"when next {', '.join(condition.axes)} differs:"
        if isinstance(condition, AtTile):
            return f"when tile {condition.number}:"
        return f"when {to_text(condition)}:"
    axes = (f"{a.name} = {to_text(a.first)} .. {to_text(a.end)} - 1" for a in operation.axes)
    return f"loop {', '.join(axes)}:"


def _copy(copy: Copy) -> str:
    source, target = (copy.l2, copy.l1) if copy.to_l1 else (copy.l1, copy.l2)
    shape = " x ".join(to_text(n) for n in copy.shape)
    text = f"copy {copy.operand}"
    text += f" of {copy.of.value}: {_address(target)} <- {_address(source)}, {shape}"
    l1, l2 = (
        ", ".join(to_text(s) for s in strides) for strides in (copy.l1_strides, copy.l2_strides)
    )
    if (l1, l2) != ("0, 0", "0, 0"):
        text += f" by ({l1}) in L1, ({l2}) in L2"
    if copy.channels is not None:
        text += f", {to_text(copy.channels)} times"
    return text


def _address(address: Address) -> str:
    return f"{address.memory} + {to_text(address.offset)}"
