"""The values of a layer's program in C: variables of the tile loop, addresses, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dory_core.codegen.arguments import ArgumentText
from dory_core.codegen.cexpr import Multiples, Reader
from dory_core.codegen.names import table_symbol, weights_symbol
from dory_core.expr import Expr, Var
from dory_core.plan import LayerStep
from dory_core.plan.constants import CONSTANT_PARTS
from dory_core.plan.memories import CONSTANTS, L1, MemoryId
from dory_core.plan.operations import (
    AHEAD,
    ROW,
    Address,
    Argument,
    LayerFunction,
    LayerProgram,
    LoopAxis,
    Of,
    Slot,
    Value,
    changes_always,
)

#: Names of offsets in L1 that are no buffer of the layer's own, by operand.
_NAMES = {AHEAD: "L1_NEXT_W", "": "L1_KEPT"}


@dataclass(slots=True)
class Values:
    """The values of a function's program.

    Attributes:
        prefix: Prefix of the Plan.
        step: The first step that runs the function.
        function: The function.
        own_part: Whether it has a copy of its part.
        own_tables: Whether it has a copy of its tables.
        multiples: Tables that are read as multiples of others, and these.
        axes: Axes of the tile loop, from the outermost to the innermost.
        slots: Slots of double-buffered operands.
        single: True when the loop has one axis, which is its counter; otherwise the position is a
            struct.
        reader: Reads expressions, and collects the tables that they need.
        bases: Pointers that the texts so far need.
        names: Named offsets in L1 and in a block of constants that the texts so far need.
    """

    prefix: str
    step: LayerStep
    function: LayerFunction
    own_part: bool = False
    own_tables: bool = False
    multiples: Multiples = field(default_factory=dict)
    axes: tuple[LoopAxis, ...] = ()
    slots: tuple[Slot, ...] = ()
    single: bool = False
    reader: Reader = field(init=False)
    bases: set[str] = field(default_factory=set)
    names: dict[str, int] = field(default_factory=dict)

    @property
    def program(self) -> LayerProgram:
        """The operations."""
        return self.function.program

    def __post_init__(self) -> None:
        loop = self.program.loop
        if loop is not None:
            self.axes, self.slots, self.single = loop.axes, loop.slots, len(loop.axes) == 1
        struct = "by_tile->" if self.own_tables else ""
        self.reader = Reader({}, copied=self.own_part, struct=struct, multiples=self.multiples)
        names = {axis.name: axis.name if self.single else f"t.{axis.name}" for axis in self.axes}
        self.reader.variables = names
        for slot in self.slots:
            always = self.changes_always(slot.axes)
            names[slot.name] = f"{self._count(slot)} % {slot.copies}" if always else slot.name
        names |= {ROW + name: f"own->{name}" for name in self.function.scalars}
        self.reader.variables = names

    def text(self, value: Value) -> str:
        """Return a value as C."""
        return self.reader.text(value)

    def atom(self, value: Value) -> str:
        """Return a value as C that can be an operand of any operator."""
        return self.reader.atom(value)

    def changes_always(self, axes: Sequence[str]) -> bool:
        """Return True when every tile differs from the previous one along one of the axes."""
        return changes_always(self.axes, axes)

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
        """Name of the position of a tile."""
        return self.axes[0].name if self.single else "t"

    def position_of(self, of: Of) -> str:
        """Return the position of the first tile, or of the next one."""
        if of is Of.CURRENT:
            return self.text(self.axes[0].first) if self.single else "t"
        return f"{self.position} + 1" if self.single else "next"

    def base(self, address: Address) -> str:
        """Return the pointer from which an offset counts."""
        if address.base:
            self.bases.add(address.base)
            return address.base
        if address.memory.is_constants:
            return self._table(address.memory)
        return str(address.memory)

    def marked(self, address: Address) -> str:
        """Return a pointer to a byte for a mark, which needs no variable for it."""
        if not address.base:
            return self.address(address)
        names = set(self.bases)
        text, base = self.address(address), address.base
        self.bases = names
        offset = text.removeprefix(base)
        if address.memory != CONSTANTS:
            return f"{address.memory} + own->{base}{offset}"
        # Tables are of words, offsets of bytes.
        return f"(const uint8_t *)own->{base}{offset}" if offset else f"own->{base}"

    def address(self, address: Address, of: Of | None = Of.CURRENT, name: str = "") -> str:
        """Return a pointer to a byte.

        Args:
            address: Memory and offset of the byte.
            of: Tile that the address belongs to, None for the first one.
            name: Name of the offset from the start of its block, empty where it has none.
        """
        base = self.base(address)
        terms, constant = self.reader.sum_terms(address.offset)
        texts = [base]
        block = self.step.block(address.operand) if address.memory == L1 else None
        if block is not None:
            buffer = f"L1_{address.operand.upper()}"
            if not address.base:
                texts.append(buffer)
                constant -= block.offsets[0]
            slots = [term for _, term in terms if isinstance(term, Var) and _is_slot(term)]
            terms = [term for term in terms if not _is_slot(term[1])]
            copies = (self._slot(slot, of) for slot in slots)
            texts += (f"{copy} * {buffer}_STEP" for copy in copies if copy != "0")
        if not address.base and address.memory == L1 and block is None:
            own = self.step.block("w") if address.operand == AHEAD else None
            if own is not None and constant == own.offsets[0]:  # the next part's constants
                texts.append("L1_W")
                constant = 0
            elif not terms:
                name = _NAMES.get(address.operand, "")
        if name and constant and self.names.setdefault(name, constant) == constant:
            texts.append(name)
            constant = 0
        if terms or constant:
            texts.append(self.reader.behind(terms, constant))
        in_table = address.memory.is_constants and not address.base
        if in_table and len(texts) > 1:
            texts[0] = f"(const uint8_t *){base}"
        return " + ".join(texts)

    def _table(self, memory: MemoryId) -> str:
        """Return the name of a table of constants: the layer's own, or another one's."""
        if memory == CONSTANTS:
            return weights_symbol(self.prefix, self.step)
        return table_symbol(self.prefix, memory)

    def _slot(self, variable: Var, of: Of | None) -> str:
        """Return which copy of a ping-pong buffer the tile uses, the next one, or the first one."""
        if of is Of.CURRENT:
            return self.atom(variable)
        slot = next(slot for slot in self.slots if slot.name == variable.name)
        if of is None:
            return "0"
        if self.changes_always(slot.axes):
            return f"({self._count(slot, 1)} % {slot.copies})"
        return f"({slot.name} ^ 1u)"

    def _count(self, slot: Slot, more: int = 0) -> str:
        """Return how often the tile has changed, and ``more``."""
        terms = [self.tile_number, *([str(more)] if more else [])]
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"

    def argument(self, argument: Argument, name: str = "") -> ArgumentText:
        """Return an argument of a kernel's call.

        Args:
            argument: Address or number.
            name: Name by which the kernel's call asks for it.
        """
        if argument is None:
            return ArgumentText("NULL", "NULL")
        if not isinstance(argument, Address):
            return ArgumentText(self.text(argument), self.atom(argument), _of_tile(argument))
        part = f"W_{name.upper()}" if name in CONSTANT_PARTS else ""
        text = self.address(argument, name=part)
        if argument.operand == "psum":
            text = f"(int32_t *)(void *)({text})"
        if argument.memory == CONSTANTS and not argument.base and not text.startswith("("):
            text = f"(const uint8_t *){text}"
        atom = text if text.isidentifier() or text.startswith("(int32_t *)") else f"({text})"
        return ArgumentText(text, atom, _of_tile(argument.offset))


def _of_tile(value: Value) -> bool:
    """Return True when a value differs between the tiles of a part."""
    if not isinstance(value, Expr):
        return False
    return any(v.name != "part" and not v.name.startswith(ROW) for v in value.variables)


def _is_slot(term: Expr) -> bool:
    return isinstance(term, Var) and term.name.endswith("_slot")
