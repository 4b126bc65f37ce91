"""What lies where while a network runs, as ranges of bytes, and transfers on their way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dory_core.errors import DoryError
from dory_core.ir import Tensor
from dory_core.ir.layout import HWC, Layout
from dory_core.plan import Conversion, ExtTransfer, Place
from dory_core.plan.operations import L1, l2_name

L2 = l2_name(0)  # the memory that transfers reach
_L3 = "l3"


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes start to end of a memory.

    Attributes:
        tensor: None for data of a layer alone.
        reserved: They belong to a transfer on its way.
    """

    start: int
    end: int
    tensor: str | None = None
    layout: Layout = HWC
    reserved: str = ""

    def meets(self, other: Range) -> bool:
        """Return True when both have a byte in common."""
        return self.start < other.end and other.start < self.end


@dataclass(slots=True)
class _Transfer:
    """A transfer on its way. arrives: what it brings. mark: reserves its target. source: the range
    that its first byte comes from."""

    one: ExtTransfer
    arrives: list[Range]
    mark: Range
    source: Range | None


@dataclass(slots=True)
class Held:
    """What each memory holds, by its name. flying: transfers that have started."""

    ranges: dict[str, list[Range]] = field(default_factory=dict)
    flying: dict[ExtTransfer, _Transfer] = field(default_factory=dict)

    def at(self, where: str, byte: int, tensor: str | None = None) -> Range | None:
        """Return what lies at a byte: ``tensor`` when that is there, maybe beside others that its
        bytes belong to as well."""
        here = [r for r in self.ranges.get(where, ()) if r.start <= byte < r.end]
        return next((r for r in here if r.tensor == tensor), here[0] if here else None)

    def take(self, where: str, new: Range) -> None:
        """Let something lie there, and nothing else that it overlaps."""
        left = [r for r in self.ranges.get(where, ()) if not r.meets(new)]
        self.ranges[where] = [*left, new]

    # -- transfers between L2 and L3 ---------------------------------------------------------------

    def start(self, one: ExtTransfer) -> None:
        """Start a transfer."""
        source, start, target, goal = _ends(one)
        found = self.at(source, start)
        if found is None and not one.incoming:
            raise bug(f"{one.name} leaves L2 at {start}, where no tensor lies")
        arrives = []
        if one.incoming:  # what L3 holds from the start are constants, known by their place
            arrives = [Range(goal, goal + one.size, constants_name(start - goal))]
        here = Range(start, start + one.size)
        for r in self.ranges.get(source, ()):
            if r.meets(here):
                first, last = max(r.start, here.start), min(r.end, here.end)
                arrives.append(replace(r, start=first - start + goal, end=last - start + goal))
        mark = Range(goal, goal + one.size, reserved=one.name)
        self.flying[one] = _Transfer(one, arrives, mark, found)
        self.take(target, mark)

    def wait(self, one: ExtTransfer) -> None:
        """Let a transfer end."""
        source, _, target, _ = _ends(one)
        transfer = self.flying.pop(one)
        found = transfer.source
        if found is not None and found not in self.ranges.get(source, ()):
            raise bug(f"{found.tensor} is written over while {one.name} is on its way")
        if transfer.mark not in self.ranges.get(target, ()):
            raise bug(f"{one.name} is written over before it is waited for")
        for piece in transfer.arrives:
            self.take(target, piece)

    # -- tensors -----------------------------------------------------------------------------------

    def read(self, place: Place, wanted: Layout, who: str) -> None:
        """Check that a tensor lies at a place, from its first byte on."""
        where, bytes_ = memory_of(place), range_of(place)
        found = self.at(where, place.offset, place.tensor.name)
        if found is None or found.start != place.offset:
            raise not_there(who, place.tensor.name, where, place.offset)
        self.pieces(where, replace(bytes_, layout=wanted), who, place.tensor)

    def pieces(self, where: str, wanted: Range, who: str, tensor: Tensor | None = None) -> None:
        """Check that bytes lie somewhere, in one piece or several. tensor: of which they are."""
        at = wanted.start
        while at < wanted.end:
            found = self.at(where, at, wanted.tensor)
            if found is None or found.tensor != wanted.tensor:
                raise not_there(who, str(wanted.tensor), where, at)
            if tensor is not None and not found.layout.serves(wanted.layout, tensor):
                raise bug(
                    f"{who} reads {tensor.name} as {layout_text(wanted.layout)}, it lies there as "
                    f"{layout_text(found.layout)}"
                )
            at = found.end

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
    """Return what constants are called that lie ``shift`` bytes further on in L3."""
    return f"constants of L3, {shift} bytes on"


def _ends(one: ExtTransfer) -> tuple[str, int, str, int]:
    """Return memory and first byte of the source and of the target of a transfer."""
    near, far = (L2, one.l2_offset), (_L3, one.l3_offset)
    return (*far, *near) if one.incoming else (*near, *far)


def memory_of(place: Place) -> str:
    """Return the name of the memory of a place."""
    return {1: L1, 2: l2_name(place.memory)}.get(place.level, _L3)


def range_of(place: Place) -> Range:
    """Return the bytes of a place, with its tensor."""
    return Range(place.offset, place.offset + place.size_bytes, place.tensor.name, place.layout)


def layout_text(layout: Layout) -> str:
    """Return a layout for messages."""
    return f"{layout.name}{'' if layout.clean else ' with junk in the padding'}"


def not_there(who: str, tensor: str, where: str, byte: int) -> DoryError:
    """Return the error of who reads a tensor where it does not lie."""
    return bug(f"{who} reads {tensor} at {byte} of {where}, where it does not lie")


def bug(message: str) -> DoryError:
    """Return the error of a wrong plan."""
    return DoryError(
        f"memory plan is wrong: {message}", "This is a bug in dory: please report the network."
    )
