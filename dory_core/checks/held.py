"""Contents of the memories while a network runs, as ranges of bytes, and transfers in flight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dory_core.errors import DoryError
from dory_core.ir import Tensor
from dory_core.ir.layout import HWC, Layout
from dory_core.plan import Conversion, ExtTransfer, Place
from dory_core.plan.memories import L1, L3, MemoryId, l2_memory
from dory_core.plan.network_operations import PutRows, TakeRows

L2 = l2_memory(0)  # the memory that transfers reach


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a memory.

    Attributes:
        start: The first byte.
        end: The byte after the last one.
        tensor: Name of the tensor that they hold, None for buffers of a layer.
        layout: Layout of the tensor.
        reserved: Name of the transfer in flight that owns the bytes, otherwise empty.
        first: Byte of the tensor at the start, of a tensor that is never whole in L2.
        below: Byte of L3 that was fetched to the start, of bytes that come from there.
    """

    start: int
    end: int
    tensor: str | None = None
    layout: Layout = HWC
    reserved: str = ""
    first: int | None = None
    below: int | None = None

    def meets(self, other: Range) -> bool:
        """Return True when both have a byte in common."""
        return self.start < other.end and other.start < self.end

    def part(self, start: int, end: int) -> Range:
        """Return those of its bytes that lie between two addresses."""
        start, end = max(self.start, start), min(self.end, end)
        first = None if self.first is None else self.first + start - self.start
        return replace(self, start=start, end=end, first=first)

    def without(self, other: Range) -> list[Range]:
        """Return the bytes that another range, which is written, does not meet."""
        if not self.meets(other):
            return [self]
        if self.first is None:
            return []
        pieces = self.part(self.start, other.start), self.part(other.end, self.end)
        return [piece for piece in pieces if piece.start < piece.end]


@dataclass(slots=True)
class _Transfer:
    """A transfer in flight.

    arrives: the data that it moves, at the target. mark: the range that reserves its target.
    source: the range of its first byte in the source.
    """

    arrives: list[Range]
    mark: Range
    source: Range | None


@dataclass(slots=True)
class Held:
    """Contents of the memories.

    Attributes:
        ranges: Ranges of each memory, by its name.
        flying: Transfers in flight.
        passed: Rows of inputs that have come, and of outputs that are with the caller.
    """

    ranges: dict[MemoryId, list[Range]] = field(default_factory=dict)
    flying: dict[ExtTransfer, _Transfer] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)

    def at(self, where: MemoryId, byte: int, tensor: str | None = None) -> Range | None:
        """Return the range at a byte, None when there is none.

        Args:
            where: Name of the memory.
            byte: Address in the memory.
            tensor: Name of the range to prefer when several ranges share the byte.
        """
        here = [r for r in self.ranges.get(where, ()) if r.start <= byte < r.end]
        return next((r for r in here if r.tensor == tensor), here[0] if here else None)

    def take(self, where: MemoryId, new: Range) -> None:
        """Add a range to a memory and remove what it overlaps.

        Of rows of a rolling buffer those that it does not overlap stay, of everything else nothing
        does.
        """
        left = [rest for r in self.ranges.get(where, ()) for rest in r.without(new)]
        self.ranges[where] = [*left, new]

    # -- transfers between L2 and L3 ---------------------------------------------------------------

    def start(self, transfer: ExtTransfer) -> None:
        """Start a transfer."""
        source, start, target, goal = _ends(transfer)
        first_range = self.at(source, start)
        if first_range is None and not transfer.incoming:
            raise bug(f"{transfer.block} leaves L2 at {start}, where no tensor lies")
        arrives = []
        if transfer.incoming:  # L3 holds constants from the start; their address names them
            arrives = [Range(goal, goal + transfer.size, constants_name(start - goal))]
        here = Range(start, start + transfer.size)
        for r in self.ranges.get(source, ()):
            if r.meets(here):
                first, last = max(r.start, here.start), min(r.end, here.end)
                below = first if transfer.incoming else None
                at = first - start + goal
                arrives.append(replace(r, start=at, end=last - start + goal, below=below))
        mark = Range(goal, goal + transfer.size, reserved=transfer.block.text)
        self.flying[transfer] = _Transfer(arrives, mark, first_range)
        self.take(target, mark)

    def wait(self, transfer: ExtTransfer) -> None:
        """End a transfer: its data is valid at the target."""
        source, _, target, _ = _ends(transfer)
        flying = self.flying.pop(transfer)
        read = flying.source
        if read is not None and read not in self.ranges.get(source, ()):
            raise bug(f"{read.tensor} is written over while {transfer.block} is on its way")
        if flying.mark not in self.ranges.get(target, ()):
            raise bug(f"{transfer.block} is written over before it is waited for")
        for piece in flying.arrives:
            self.take(target, piece)

    # -- tensors -----------------------------------------------------------------------------------

    def read(self, place: Place, wanted: Layout, who: str) -> None:
        """Check that a place holds its whole tensor.

        Args:
            place: Where the tensor is read.
            wanted: Layout in which it is read.
            who: The reader, for messages.
        """
        where, bytes_ = memory_of(place), range_of(place)
        held = self.at(where, place.offset, place.tensor.name)
        if held is None or held.start != place.offset:
            raise not_there(who, place.tensor.name, where, place.offset)
        self.pieces(where, replace(bytes_, layout=wanted), who, place.tensor)

    def pieces(
        self, where: MemoryId, wanted: Range, who: str, tensor: Tensor | None = None
    ) -> None:
        """Check that a memory holds a range, in one piece or several.

        Args:
            where: Name of the memory.
            wanted: The range that is read.
            who: The reader, for messages.
            tensor: The tensor of the range, to check its layout; None for constants.
        """
        at = wanted.start
        while at < wanted.end:
            held = self.at(where, at, wanted.tensor)
            if held is None or held.tensor != wanted.tensor:
                raise not_there(who, str(wanted.tensor), where, at)
            if wanted.first is not None and held.first != wanted.first + held.start - wanted.start:
                raise bug(f"{who} finds other rows of {wanted.tensor} at {at} of {where}")
            if wanted.below is not None and held.below != wanted.below + held.start - wanted.start:
                raise bug(f"{who} finds other channels of {wanted.tensor} at {at} of {where}")
            if tensor is not None and not held.layout.serves(wanted.layout, tensor):
                raise bug(
                    f"{who} reads {tensor.name} as {layout_text(wanted.layout)}, it lies there as "
                    f"{layout_text(held.layout)}"
                )
            at = held.end

    def move_rows(self, where: MemoryId, start: int, moved: Range, who: str) -> None:
        """Move rows to the start of their buffer; its other rows are not read again.

        Args:
            where: Name of the memory.
            start: The first byte of the buffer.
            moved: The bytes that the rows leave; the tensor whose maker needs room.
            who: The layer that makes it, for messages.
        """
        at, pieces = moved.start, list[Range]()
        while at < moved.end:
            held = self.at(where, at, moved.tensor)
            if held is None or held.first is None:
                raise not_there(f"the move of rows before {who}", str(moved.tensor), where, at)
            pieces.append(held.part(at, moved.end))
            at = held.end
        self.take(where, Range(start, moved.end))
        for piece in pieces:
            to = piece.start - moved.start + start
            self.take(where, replace(piece, start=to, end=to + piece.end - piece.start))

    def take_rows(self, operation: TakeRows) -> None:
        """Add rows of a network input that the caller writes."""
        rows = self._next_rows(operation, f"input {operation.input}")
        self.take(l2_memory(operation.place.memory), rows)

    def put_rows(self, operation: PutRows) -> None:
        """Check rows of a network output that the caller reads."""
        who, place = f"output {operation.output}", operation.place
        rows = self._next_rows(operation, who)
        self.pieces(l2_memory(place.memory), rows, f"the caller who takes {who}", place.tensor)

    def _next_rows(self, operation: TakeRows | PutRows, who: str) -> Range:
        """Return the bytes of rows, which have to follow those before them."""
        place, start = operation.place, operation.offset
        name, end = place.tensor.name, operation.first + operation.rows
        if not place.passing or operation.rows < 1 or end > place.rows:
            raise bug(f"rows {operation.first} to {end - 1} of {who} are none that pass")
        if operation.first != self.passed.get(name, 0):
            raise bug(f"row {self.passed.get(name, 0)} of {who} is left out, or passes twice")
        self.passed[name] = end
        size, first = operation.rows * place.row_bytes, operation.first * place.row_bytes
        return Range(start, start + size, name, place.layout, first=first)

    def all_put(self, place: Place) -> None:
        """Check that the caller has all rows of a network output."""
        if self.passed.get(place.tensor.name, 0) != place.rows:
            raise bug(f"the caller does not get all rows of {place.tensor.name}")

    def convert(self, conversion: Conversion) -> None:
        """Run a conversion, which leaves zeros in the padding."""
        source, target = conversion.source, conversion.target
        who = f"the conversion of {source.tensor.name}"
        self.read(source, source.layout, who)
        if target.tensor.name != source.tensor.name or not target.layout.clean:
            raise bug(f"{who} makes no clean copy")
        if memory_of(target) == memory_of(source) and range_of(target).meets(range_of(source)):
            raise bug(f"{who} writes over what it reads")
        self.take(memory_of(target), range_of(target))


def constants_name(shift: int) -> str:
    """Return the name of constants whose address in L3 is ``shift`` bytes above that in L2."""
    return f"constants of L3, {shift} bytes on"


def _ends(transfer: ExtTransfer) -> tuple[MemoryId, int, MemoryId, int]:
    """Return memory and first byte of the source and of the target of a transfer."""
    near, far = (L2, transfer.l2_offset), (L3, transfer.l3_offset)
    return (*far, *near) if transfer.incoming else (*near, *far)


def memory_of(place: Place) -> MemoryId:
    """Return the memory of a place."""
    return {1: L1, 2: l2_memory(place.memory)}.get(place.level, L3)


def range_of(place: Place) -> Range:
    """Return the bytes of a place, with its tensor."""
    return Range(place.offset, place.offset + place.size_bytes, place.tensor.name, place.layout)


def layout_text(layout: Layout) -> str:
    """Return a layout for messages."""
    return f"{layout.name}{'' if layout.clean else ' with junk in the padding'}"


def not_there(who: str, tensor: str, where: MemoryId, byte: int) -> DoryError:
    """Return the error of a reader that does not find a tensor at its address.

    Args:
        who: The layer, or part, that reads.
        tensor: Name of the tensor.
        where: The memory.
        byte: The address.
    """
    return bug(f"{who} reads {tensor} at {byte} of {where}, where it does not lie")


def bug(message: str) -> DoryError:
    """Return the error of a wrong plan."""
    return DoryError(
        f"memory plan is wrong: {message}", "This is a bug in dory: please report the network."
    )
