"""How the copies of a layer are made: by DMA, in one command or in pieces, or by the cores.

All copies of one operand of a layer are made in the same way. It is decided here from their
possible starts, the lengths and pitches of their rows, and the :class:`Link`. Tiling costs,
generated code and report read the decision; nothing is decided at run time.

Rounding up a length is safe: blocks are multiples of the alignment of the links that reach their
memory, so the last aligned unit of a block belongs to that block. A copy that starts on a
multiple and is rounded up ends in the same unit as before. Towards L1 that unit belongs to the
tile's buffer, and at the source to the tensor that is read. Towards the lower level the unit must
not hold elements of the tensor after the copy, so a length is rounded up only at the end of the
tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from dory_core.hardware.links import WORD_BYTES, Link

DMA = "dma"
PIECES = "pieces"
CORES = "cores"
IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class Carriage:
    """How the copies of one operand are made.

    Attributes:
        by: ``dma``: one command of the DMA for each copy. ``pieces``: several commands of the DMA
            for each copy, which share a ticket. ``cores``: copied synchronously by all cores, each
            a share of the rows. ``impossible``: the DMA cannot make the copy, and the cores do not
            reach both memories.
        multiple: Lengths are rounded up to a multiple of this number of bytes; such copies have one
            row.
        dimensions: Most dimensions of a command of ``pieces``.
        max_bytes: Most bytes of a command of ``pieces``, 0 for any number.
        reason: Why one command of the DMA does not suffice, a sentence; empty when it does.
    """

    by: str = DMA
    multiple: int = 1
    dimensions: int = 3
    max_bytes: int = 0
    reason: str = ""

    @property
    def by_cores(self) -> bool:
        """True when the cores copy."""
        return self.by == CORES


#: One command of the DMA, as it is.
AS_IT_IS = Carriage()


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of a copy.

    Attributes:
        cycles: Cycles from its start until the data has arrived.
        issue_cycles: The part of these cycles that the issuing core spends; all when cores copy.
        commands: Commands of the DMA.
        bytes: Bytes that the DMA moves.
    """

    cycles: float
    issue_cycles: float
    commands: int
    bytes: int

    def by_words(self, link: Link, words_per_cycle: float) -> Charge:
        """Return the cost of the same copy as a load by words."""
        data = self.bytes / (WORD_BYTES * words_per_cycle)
        return replace(self, cycles=link.setup_cycles + data)


@dataclass(frozen=True, slots=True)
class DmaCost:
    """A movement between two levels: planes of rows of equal length.

    Attributes:
        bytes: Total bytes.
        rows: Total rows.
        single_elements: Whether its rows are single elements, which a link may move more slowly.
        copies: Number of descriptors: one, or one for each channel of a layout change, whose rows
            are single elements.
        planes: Planes of each descriptor.
        planes_continue: Whether a plane begins one pitch of rows after the last row of the plane
            before it, so that all rows may be one plane.
    """

    bytes: int
    rows: int
    single_elements: bool = False
    copies: int = 1
    planes: int = 1
    planes_continue: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.bytes // self.rows

    @property
    def dimensions(self) -> int:
        """Dimensions of one descriptor: 1 for a row, 2 for rows, 3 for planes of rows."""
        if self.planes > 1:
            return 3
        return 2 if self.rows > self.copies else 1

    def cycles(self, link: Link) -> float:
        """Return the cycles of the movement as one transfer."""
        return link.cycles(self.bytes, self.rows, self.single_elements)

    def commands(self, carriage: Carriage) -> int:
        """Return the number of DMA transfers that the movement takes."""
        if carriage.by_cores:
            return 0
        if carriage.by != PIECES:
            return self.copies
        most, row = carriage.max_bytes, self.row_bytes
        planes = self.planes * self.copies
        rows = self.rows // planes
        if self.dimensions <= carriage.dimensions and _within(self.bytes // self.copies, most):
            return self.copies
        if carriage.dimensions == 1 or not _within(row, most):
            return planes * rows * (-(-row // most) if most else 1)
        return planes * (-(-rows // (most // row)) if most else 1)

    def charge(self, link: Link, carriage: Carriage, cores: int) -> Charge:
        """Return the cost of the movement.

        Args:
            link: The link between the levels.
            carriage: How the copies are made.
            cores: Number of cores that share a copy by cores.
        """
        if carriage.by_cores:
            cycles = self.bytes * link.core_cycles_per_byte / cores
            return Charge(cycles, cycles, 0, 0)
        if carriage.by == IMPOSSIBLE:
            return Charge(_NEVER, _NEVER, 0, 0)
        moved = self
        if carriage.multiple > 1:
            moved = DmaCost(_round_up(self.bytes, carriage.multiple), self.rows)
        commands = moved.commands(carriage)
        if carriage.by == DMA:
            planes = 0 if moved.planes_continue else (moved.planes - 1) * link.plane_cycles
            issue = link.issue_cycles + planes
            return Charge(moved.cycles(link) + planes, issue, commands, moved.bytes)
        data = link.data_cycles(moved.bytes, max(moved.rows - commands, 0), moved.single_elements)
        cycles = max(commands * link.setup_cycles + data, commands * link.minimum_cycles)
        return Charge(cycles, commands * link.issue_cycles, commands, moved.bytes)


_NEVER = 1e12


def _within(size: int, most: int) -> bool:
    return most == 0 or size <= most


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


@dataclass(frozen=True, slots=True)
class CopySet:
    """Properties of all copies of one operand.

    Attributes:
        shapes: The different shapes of the copies.
        starts: Offsets of rows and planes from a multiple of the alignment, in bytes, at source and
            target.
        pitches: Distances between rows and between planes at source and target, where there are
            several.
        may_round: True when a copy of one row may be rounded up to a multiple of the alignment.
    """

    shapes: Sequence[DmaCost]
    starts: Iterable[int]
    pitches: Iterable[int] = ()
    may_round: bool = False


def carry(link: Link, copies: CopySet, cores: int) -> Carriage:
    """Return the cheapest way to make the copies of one operand.

    Args:
        link: The link between the two levels.
        copies: The copies of the operand.
        cores: Number of cores that share a copy by cores.
    """
    if link.is_plain or not copies.shapes:
        return AS_IT_IS
    by_cores = CORES if link.core_cycles_per_byte else IMPOSSIBLE
    if not link.dma:
        return Carriage(by_cores, reason="no DMA moves data over the link")
    unit = link.alignment_bytes
    start, pitch = gcd(unit, *copies.starts), gcd(unit, *copies.pitches)
    row = gcd(unit, *(shape.row_bytes for shape in copies.shapes))
    if start < unit or pitch < unit:
        what = f"rows start on multiples of {min(start, pitch)} B"
        return Carriage(by_cores, reason=f"{what}, the DMA needs {unit}")
    one_row = all(shape.rows == shape.copies == 1 for shape in copies.shapes)
    multiple = 1
    if row < unit:
        if not (one_row and copies.may_round):
            what = f"rows are multiples of {row} B long"
            return Carriage(by_cores, reason=f"{what}, the DMA needs {unit}")
        multiple = unit
    largest = max(copies.shapes, key=lambda shape: shape.bytes)
    size = _round_up(largest.bytes // largest.copies, multiple)
    dimensions = max(shape.dimensions for shape in copies.shapes)
    why = []
    if dimensions > link.dimensions:
        why.append(f"{dimensions} dimensions, the DMA has {link.dimensions}")
    if not _within(size, link.max_bytes):
        why.append(f"up to {size} B, a transfer has at most {link.max_bytes}")
    if not why:
        return Carriage(multiple=multiple)
    pieces = Carriage(PIECES, multiple, link.dimensions, link.piece_bytes, " and ".join(why))
    other = Carriage(CORES, reason=pieces.reason)
    if link.core_cycles_per_byte and (
        largest.charge(link, other, cores).cycles < largest.charge(link, pieces, cores).cycles
    ):
        return other
    return pieces
