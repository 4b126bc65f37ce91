"""What the values of a layer's program are called in C: variables of the tile loop, addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dory_core.codegen.arguments import ArgumentText
from dory_core.codegen.cexpr import Reader
from dory_core.codegen.names import weights_symbol
from dory_core.expr import Expr, Var
from dory_core.plan import LayerStep
from dory_core.plan.operations import (
    CONSTANTS,
    L1,
    Address,
    Argument,
    LayerProgram,
    LoopAxis,
    Of,
    Slot,
    Value,
)


@dataclass(slots=True)
class Values:
    """The values of a layer's program. single: the loop has one axis, which is its counter; the
    position in others is a struct. reader: knows which tables the texts so far need."""

    prefix: str
    step: LayerStep
    program: LayerProgram
    axes: tuple[LoopAxis, ...] = ()
    slots: tuple[Slot, ...] = ()
    single: bool = False
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        loop = self.program.loop
        if loop is not None:
            self.axes, self.slots, self.single = loop.axes, loop.slots, len(loop.axes) == 1
        self.reader = Reader({})
        names = {axis.name: axis.name if self.single else f"t.{axis.name}" for axis in self.axes}
        for slot in self.slots:
            always = self.changes_always(slot.axes)
            names[slot.name] = f"{self.tile_number} % {slot.copies}" if always else slot.name
        self.reader.variables = names

    def text(self, value: Value) -> str:
        """Return a value as C."""
        return self.reader.text(value)

    def atom(self, value: Value) -> str:
        """Return the same so that it can stand next to any operator."""
        return self.reader.atom(value)

    def changes_always(self, axes: Sequence[str]) -> bool:
        """Return whether every tile differs from the one before along one of the axes."""
        return bool(self.axes) and self.axes[-1].name in axes

    @property
    def tile_number(self) -> str:
        """The number of the tile, from 0."""
        if not self.single:
            return "n" if self.axes else "0"
        axis = self.axes[0]
        if isinstance(axis.first, int) and axis.first == 0:
            return axis.name
        return f"({axis.name} - {self.atom(axis.first)})"

    @property
    def position(self) -> str:
        """What the position of a tile is called."""
        return self.axes[0].name if self.single else "t"

    def position_of(self, of: Of) -> str:
        """Return the position of the first tile, or of the next one."""
        if of is Of.CURRENT:
            return self.text(self.axes[0].first) if self.single else "t"
        return f"{self.position} + 1" if self.single else "next"

    def address(self, address: Address, of: Of | None = Of.CURRENT) -> str:
        """Return a pointer to a byte. of: None for the first tile."""
        base = {L1: "l1", CONSTANTS: weights_symbol(self.prefix, self.step)}.get(
            address.memory, address.memory
        )
        terms, constant = self.reader.sum_terms(address.offset)
        texts = [base]
        block = self.step.block(address.operand) if address.memory == L1 else None
        if block is not None:
            name = f"L1_{address.operand.upper()}"
            texts.append(name)
            constant -= block.offsets[0]
            slots = [term for _, term in terms if isinstance(term, Var) and _is_slot(term)]
            terms = [term for term in terms if not _is_slot(term[1])]
            if of is not None:
                texts += (f"{self._slot(slot, of)} * {name}_STEP" for slot in slots)
        if terms or constant:
            texts.append(self.reader.behind(terms, constant))
        if address.memory == CONSTANTS and len(texts) > 1:
            texts[0] = f"(const uint8_t *){base}"
        return " + ".join(texts)

    def _slot(self, variable: Var, of: Of) -> str:
        """Return which copy of a ping-pong buffer the tile uses, or the next one will."""
        if of is Of.CURRENT:
            return self.atom(variable)
        slot = next(slot for slot in self.slots if slot.name == variable.name)
        if self.changes_always(slot.axes):
            return f"(({self.tile_number} + 1) % {slot.copies})"
        return f"({slot.name} ^ 1u)"

    def argument(self, argument: Argument) -> ArgumentText:
        """Return what a kernel is called with."""
        if argument is None:
            return ArgumentText("NULL", "NULL")
        if not isinstance(argument, Address):
            return ArgumentText(self.text(argument), self.atom(argument), _of_tile(argument))
        text = self.address(argument)
        if argument.operand == "psum":
            text = f"(int32_t *)(void *)({text})"
        if argument.memory == CONSTANTS and not text.startswith("("):
            text = f"(const uint8_t *){text}"
        atom = text if text.isidentifier() or text.startswith("(int32_t *)") else f"({text})"
        return ArgumentText(text, atom, _of_tile(argument.offset))


def _of_tile(value: Value) -> bool:
    """Return whether a value differs between the tiles of a part."""
    return isinstance(value, Expr) and any(v.name != "part" for v in value.variables)


def _is_slot(term: Expr) -> bool:
    return isinstance(term, Var) and term.name.endswith("_slot")
