"""Operations of a layer with replaced values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dory_core.expr import Expr
from dory_core.kernels.call import Argument as CallArgument
from dory_core.plan.operations import (
    Address,
    Argument,
    AtTile,
    Barrier,
    Call,
    Changes,
    Copy,
    Loop,
    Mark,
    Operation,
    Value,
    Wait,
    When,
)


@dataclass(frozen=True, slots=True)
class Mapped:
    """Replacements for the values of operations.

    Attributes:
        value: Gives the replacement of a size, a stride or a condition.
        address: Gives the replacement of an address.
        number: Gives the replacement of a plain number in a struct of a kernel, from its path.
        rows: Values of the names that ``number`` gives.
    """

    value: Callable[[Value], Any]
    address: Callable[[Address], Any]
    number: Callable[[str, int], CallArgument]
    rows: Mapping[str, Argument] = field(default_factory=dict)

    def all(self, operations: Iterable[Operation]) -> tuple[Any, ...]:
        """Return operations with replaced values, in the order of execution; marks have no text."""
        return tuple(map(self.one, operations))

    def one(self, operation: Operation) -> Any:
        """Return one operation with replaced values."""
        if isinstance(operation, Copy):
            return self._copy(operation)
        if isinstance(operation, Wait):
            return replace(operation, slot=self.value(operation.slot))
        if isinstance(operation, Barrier):
            return operation
        if isinstance(operation, Mark):
            address = None if operation.address is None else self.address(operation.address)
            size = self.value(operation.bytes)
            return replace(operation, address=address, bytes=size, text="")
        if isinstance(operation, Call):
            return self._call(operation)
        if isinstance(operation, When):
            condition = self._condition(operation.condition)
            return replace(operation, condition=condition, body=self.all(operation.body))
        return self._loop(operation)

    def _call(self, call: Call) -> Call:
        """Return a call with the operands and sizes that it names, and no others."""
        used = {name: self._argument(call.arguments[name]) for name in call.call.names}
        return Call(call.call.with_numbers(self.number), used | dict(self.rows))

    def _argument(self, argument: Argument) -> Any:
        if isinstance(argument, Address):
            return self.address(argument)
        return argument if argument is None else self.value(argument)

    def _values(self, values: Iterable[Value]) -> tuple[Any, ...]:
        return tuple(map(self.value, values))

    def _copy(self, copy: Copy) -> Any:
        return replace(
            copy,
            l1=self.address(copy.l1),
            l2=self.address(copy.l2),
            shape=self._values(copy.shape),
            l1_strides=self._values(copy.l1_strides),
            channels=None if copy.channels is None else self.value(copy.channels),
            l1_channel=self.value(copy.l1_channel),
            ticket_slot=self.value(copy.ticket_slot),
        )

    def _condition(self, condition: Expr | Changes | AtTile) -> Any:
        if isinstance(condition, AtTile):
            return AtTile(self.value(condition.number))
        return condition if isinstance(condition, Changes) else self.value(condition)

    def _loop(self, loop: Loop) -> Any:
        axes = (
            replace(axis, first=self.value(axis.first), end=self.value(axis.end))
            for axis in loop.axes
        )
        tiles = self.value(loop.tiles)
        return replace(loop, axes=tuple(axes), tiles=tiles, body=self.all(loop.body))
