"""Layers that only give bytes another name: their tensors are slices of one block.

Nothing is copied. A Reshape keeps the bytes of its input. Rows that follow one another are a range
of bytes, so a Slice of rows lies in its input, and a Concat of rows is the block that its inputs
are written into. For tensors of one row the same holds for columns, for those of one pixel for
channels.

What an inference leaves as state lies where it has found it, when no layer reads that any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from dory_core.ir import Layer
from dory_core.planning.layouts import LayoutPlan


@dataclass(frozen=True, slots=True)
class Views:
    """Which layers are views, and of what.

    Attributes:
        layers: Their positions.
        places: (block, byte) of every tensor that is a slice of another one's block.
        groups: By the name of each tensor in such a block all of them, the block's own first.
    """

    layers: frozenset[int] = frozenset()
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("places", "groups"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


def plan_views(layers: Sequence[Layer], flow: LayoutPlan, alignment: int) -> Views:
    """Return the views of a network.

    Args:
        layers: In the order of execution.
        flow: The forms that they read and write.
        alignment: Granule of the places of tensors, in bytes.
    """
    builder = _Builder(flow, alignment)
    found = frozenset(n for n, layer in enumerate(layers) if builder.add(n, layer))
    builder.keep_states()
    groups: dict[str, list[str]] = {}
    for name, (whole, _) in builder.places.items():
        groups.setdefault(whole, [whole]).append(name)
    shared = {name: tuple(group) for group in groups.values() for name in group}
    return Views(found, builder.places, shared)


class _Builder:
    def __init__(self, flow: LayoutPlan, alignment: int) -> None:
        self.flow = flow
        self.alignment = alignment
        self.places: dict[str, tuple[str, int]] = {}
        self.held: dict[str, list[str]] = {}  # slices of each block
        self.converted = {name for pairs in flow.before for pair in pairs for name in pair}
        self.left = dict(flow.states)  # by what is read
        self.sinks = frozenset(flow.sinks)

    def add(self, n: int, layer: Layer) -> bool:
        """Let a layer be a view if it can."""
        offsets, reads, written = layer.byte_offsets, self.flow.reads[n], self.flow.writes[n]
        names = {*reads, written}
        if offsets is None or len(reads) != len(layer.inputs) or len(names) != len(reads) + 1:
            return False
        forms = [self.flow.forms[name] for name in names]
        if not all(form.layout.is_hwc for form in forms) or names & self.converted:
            return False
        if layer.op.holds_inputs:
            # A tensor that lies in another block already cannot also lie in this one.
            if any(name in self.places for name in reads):
                return False
            return self._lie(dict(zip(reads, offsets, strict=True)), written, 0)
        whole, at = self.places.get(reads[0], (reads[0], 0))
        return self._lie({written: offsets[0]}, whole, at)

    def _lie(self, slices: Mapping[str, int], whole: str, at: int) -> bool:
        """Let tensors, and what lies in their blocks, lie in another block from byte ``at`` on."""
        if any((at + offset) % self.alignment for offset in slices.values()):
            return False
        if not self._may_share({whole, *slices, *self._held((whole, *slices))}):
            return False
        self._put_all(slices, whole, at)
        return True

    def _put_all(self, slices: Mapping[str, int], whole: str, at: int) -> None:
        for name, offset in slices.items():
            for inner in self.held.pop(name, []):
                self._put(inner, whole, at + offset + self.places[inner][1])
            self._put(name, whole, at + offset)

    def _held(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            yield from self.held.get(name, ())

    def _may_share(self, names: Collection[str]) -> bool:
        """Return True when tensors may lie in one block.

        At the end new state is copied over the old one. Nothing that is needed then may lie there.
        """
        reads = [name for name in names if name in self.left]
        if not reads:
            return True
        own = self.left[reads[0]]
        others = {name for name in names if name in self.sinks} - {own}
        return len(reads) == 1 and not others and not (own in names and own in self.flow.outputs)

    # -- state --------------------------------------------------------------------------------

    def keep_states(self) -> None:
        """Let new state lie in the place of the old one where that is read no more."""
        makers = {name: n for n, name in enumerate(self.flow.writes)}
        last = dict.fromkeys(self.flow.forms, -1)
        for n, pairs in enumerate(self.flow.before):
            reads = self.flow.reads[n] if n < len(self.flow.reads) else ()
            last |= dict.fromkeys((*reads, *(source for source, _ in pairs)), n)
        last |= dict.fromkeys(self.sinks, len(self.flow.writes))
        taken = set[str]()
        for read, left in self.flow.states:
            if left in taken or left in self.places or {read, left} & self.converted:
                continue
            whole, at = self.places.get(read, (read, 0))
            size = self.flow.forms[read].size_bytes
            block = (whole, *self.held.get(whole, ()))
            here = (name for name in block if self._meets(name, at, at + size))
            arrives = min(makers[name] for name in (left, *self.held.get(left, ())))
            if max(last[name] for name in here) < arrives:
                self._put_all({left: 0}, whole, at)
                taken.add(left)

    def _meets(self, name: str, start: int, end: int) -> bool:
        at = self.places.get(name, ("", 0))[1]
        return at < end and start < at + self.flow.forms[name].size_bytes

    def _put(self, name: str, whole: str, at: int) -> None:
        self.places[name] = (whole, at)
        self.held.setdefault(whole, []).append(name)
