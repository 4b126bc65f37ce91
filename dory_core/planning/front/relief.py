"""What binds the L2 of a plan, and which changes of the network would make it fit.

Everything is computed from the bytes that are live in each chain and each layer: a change scales
some blocks, and the least bytes are found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from dory_core.ir.geometry import is_channelwise
from dory_core.plan.block_ids import BlockKind
from dory_core.plan.blocks import align_up, fullest_step, live_at, owners
from dory_core.planning.chains.paths import Chain
from dory_core.planning.planned import Planned
from dory_core.planning.problem import HOME, Problem
from dory_core.planning.sequence.network_parts import NetworkParts
from dory_core.tiling.outer import stripes_of

#: Most changes that are proposed.
_MOST = 3
#: Share of the channels that is left at least: another network is no change of this one.
_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a plan needs most of L2.

    Attributes:
        first, last: Indices of the layer, or of the first and the last one of a fused chain.
        rows: Rows of a stripe of the layer that runs then; 0 outside a chain.
        bytes: Bytes that are live at once.
        block: Name of the largest block that is live.
        block_bytes: Its bytes.
    """

    first: int
    last: int
    rows: int
    bytes: int
    block: str
    block_bytes: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change with which a network would fit.

    Attributes:
        kind: ``rows`` (the input arrives by rows), ``image`` (it is smaller) or ``channels`` (of
            some tensors there are fewer).
        text: The change, in words.
        bytes: Bytes of L2 that the plan needs with it: what is live at once.
        macs: Share of the MACs that goes with it.
    """

    kind: str
    text: str
    bytes: int
    macs: float


def binding(problem: Problem, planned: Planned) -> Binding:
    """Return where a plan needs most of L2."""
    program = planned.candidate.program
    requests = owners(tuple(program.requests.values()))
    step, size = fullest_step(requests, problem.alignment)
    n = program.runs[min(max(step, 0), program.end - 1)].layer
    split = planned.candidate.decision.splits[n]
    first, last = n - split.place, n - split.place + split.chain - 1
    stripes = stripes_of(problem.network.layers[n], split) if split.starts else ()
    layers, largest = problem.network.layers, live_at(requests, step)[0]
    return Binding(
        layers[first].op.index,
        layers[last].op.index,
        max((stripe.size for stripe in stripes), default=0),
        size + planned.static_in(HOME),
        str(largest.id),
        largest.size_bytes,
    )


class _Held(NamedTuple):
    """Bytes of a tensor that are live.

    Attributes:
        name: Of the tensor.
        bytes: How many.
        whole: Whether these are all of it, not some rows.
        window: Bytes of its rows, where it is an input that might arrive by rows; else 0.
    """

    name: str
    bytes: int
    whole: bool = True
    window: int = 0


class _Moment(NamedTuple):
    """What is live in a chain, or in a layer or a position by itself."""

    first: int
    last: int
    held: tuple[_Held, ...]


_Size = Callable[[_Held], float]


def changes(
    problem: Problem, planned: Planned, room: int, edges: Sequence[Chain] = ()
) -> tuple[Change, ...]:
    """Return the changes that each make a network fit, those that lose the fewest MACs first.

    Args:
        problem: The network.
        planned: Its plan with the fewest bytes of L2.
        room: Bytes of home for blocks and linked constants.
        edges: Chains and layers of which a plan is made; empty for changes of only this plan.
    """
    moments = _in_chains(problem, edges) if edges else _in_plan(planned)
    found = _Changes(problem, planned, room, sorted(moments, key=lambda one: one.last))
    every = [*found.by_rows(), *found.smaller_image(), *found.fewer_channels()]
    return tuple(sorted(every, key=lambda one: one.macs)[:_MOST])


def _in_plan(planned: Planned) -> Iterator[_Moment]:
    """Yield what is live at each position of a plan."""
    program = planned.candidate.program
    requests = owners(tuple(program.requests.values()))
    for position in range(program.end):
        live = live_at(requests, position)
        held = (
            _Held(one.id.tensor, one.size_bytes, one.id.kind in (BlockKind.WHOLE, BlockKind.BACK))
            for one in live
        )
        yield _Moment(position, position, tuple(held))


def _in_chains(problem: Problem, edges: Sequence[Chain]) -> Iterator[_Moment]:
    """Yield what is live in each chain and each layer."""
    network = problem.network
    for edge in edges:
        rolling, held = dict(edge.rolling), list[_Held]()
        names = {name for n in range(edge.first, edge.last + 1) for name in network.alive[n]}
        for name in sorted(names - rolling.keys() - network.views.places.keys()):
            size = align_up(network.sizes[name], problem.alignment)
            window = _window(network, edge, name) if name in network.flow.inputs else 0
            held.append(_Held(name, size, window=align_up(window, problem.alignment)))
        # Rolling buffers lie in each other: together they take less than their bytes.
        rows = edge.bytes - sum(one.bytes for one in held)
        share = min(1.0, max(0, rows) / max(1, sum(rolling.values())))
        held += [_Held(name, int(size * share), whole=False) for name, size in edge.rolling]
        yield _Moment(edge.first, edge.last, tuple(held))


def _window(network: NetworkParts, edge: Chain, name: str) -> int:
    """Return the bytes of the rows of an input that a chain still reads; 0 where it is whole."""
    readers = network.readers[name]
    inside = edge.splits and edge.first <= min(readers, default=-1) and max(readers) <= edge.last
    if not inside or name in network.fixed or not network.is_read_by_rows(name):
        return 0
    chain = network.rolling(edge.first, edge.splits)
    reads = list[tuple[int, int, int]]()  # position, first byte, end
    for (place, _), ranges in network.readings(name, edge.first, edge.splits).items():
        positions = chain.positions[place]
        reads += [(at, a, a + b) for at, (a, b) in zip(positions, ranges, strict=True)]
    reads.sort()
    ends = list(accumulate((end for _, _, end in reads), max))
    starts = list(accumulate((start for _, start, _ in reversed(reads)), min))[::-1]
    return max(end - start for start, end in zip(starts, ends, strict=True))


class _Changes:
    """The moments of a network, whose blocks changes scale."""

    def __init__(
        self, problem: Problem, planned: Planned, room: int, moments: Sequence[_Moment]
    ) -> None:
        self.network = problem.network
        self.alignment = problem.alignment
        self.planned = planned
        self.moments = moments
        self.static = planned.static_in(HOME)
        self.room = room
        self.macs = max(1, sum(layer.macs for layer in self.network.layers))

    def needed(self, size_of: _Size) -> int:
        """Return the least bytes of L2 with other sizes of blocks: what is live at once."""
        least = [0] + [1 << 62] * (self.moments[-1].last + 1)
        for first, last, held in self.moments:
            if least[first] < least[last + 1]:
                live = sum(align_up(max(1, int(size_of(one))), self.alignment) for one in held)
                least[last + 1] = min(least[last + 1], max(least[first], live))
        return least[-1] + self.static

    def most(self, top: int, size_with: Callable[[int], _Size]) -> int:
        """Return the largest number below ``top`` with which the network fits; 0 without one."""
        low, high = 0, top
        while high - low > 1:
            middle = (low + high) // 2
            if self.needed(size_with(middle)) <= self.room:
                low = middle
            else:
                high = middle
        return low

    # -- the input arrives by rows -----------------------------------------------------------------

    def by_rows(self) -> Iterator[Change]:
        """Yield the change that the caller hands over an input row by row."""
        needed = self.needed(lambda one: one.window or one.bytes)
        windows = [one.window for moment in self.moments for one in moment.held if one.window]
        if windows and needed <= self.room:
            size = sum(self.network.sizes[name] for name in self.network.flow.inputs)
            text = f"an input that arrives by rows, of which {min(windows)} B or more lie in L2"
            yield Change("rows", f"{text} in place of {size} B", needed, 0.0)

    # -- a smaller image ---------------------------------------------------------------------------

    def smaller_image(self) -> Iterator[Change]:
        """Yield the change that the input has fewer rows and columns, and so has all after it."""
        inputs = [self.network.flow.forms[name].tensor for name in self.network.flow.inputs]
        image = max(inputs, key=lambda tensor: tensor.size_bytes)
        side = image.height if image.height > 1 else image.width
        if side == 1:
            return

        def sizes(rows: int) -> _Size:
            return lambda one: one.bytes * self._share(one, rows / side)

        rows = self.most(side, sizes)
        if not rows:
            return
        share = rows / side
        flat = image.height == 1
        columns = rows if flat else max(1, int(image.width * share))
        to = f"{1 if flat else rows} x {columns}"
        lost = sum(
            layer.macs * (1 - (share if layer.output.height == 1 else share * share))
            for layer in self.network.layers
            if layer.output.height > 1 or layer.output.width > 1
        )
        yield Change(
            "image",
            f"an input of at most {to} (now {image.height} x {image.width}) for the same layers",
            self.needed(sizes(rows)),
            lost / self.macs,
        )

    def _share(self, held: _Held, share: float) -> float:
        """Return the share of a block that is left when the image has a share of its rows."""
        form = self.network.flow.forms.get(held.name)
        if form is None:
            return 1.0
        columns = share if form.tensor.width > 1 else 1.0
        if form.tensor.height == 1:
            return columns if held.whole else 1.0  # as many columns as before
        return columns * share if held.whole else columns

    # -- fewer channels ----------------------------------------------------------------------------

    def fewer_channels(self) -> Iterator[Change]:
        """Yield the changes that a tensor which is live at the peak has fewer channels.

        Tensors that have as many by their layers change with it.
        """
        requests = owners(tuple(self.planned.candidate.program.requests.values()))
        step, _ = fullest_step(requests, self.alignment)
        groups, seen = self._groups(), set[frozenset[str]]()
        borders = {*self.network.flow.inputs, *self.network.flow.outputs}
        for name in (request.id.tensor for request in live_at(requests, step)):
            group = groups.get(name, frozenset())
            if not group or group in seen or not group.isdisjoint(borders):
                continue
            seen.add(group)
            change = self._with_fewer(name, group)
            if change is not None:
                yield change

    def _with_fewer(self, name: str, group: frozenset[str]) -> Change | None:
        channels = self.network.flow.forms[name].tensor.channels

        def sizes(left: int) -> _Size:
            return lambda one: one.bytes * (left / channels if one.name in group else 1)

        left = self.most(channels, sizes)
        if left < _LEAST_SHARE * channels:
            return None
        lost = sum(
            layer.macs * (1 - (left / channels) ** self._touches(n, group))
            for n, layer in enumerate(self.network.layers)
        )
        maker = self.network.layers[self.network.makers[name]].op
        others = f" and {len(group) - 1} tensors that follow it" if len(group) > 1 else ""
        return Change(
            "channels",
            f"at most {left} of {channels} channels in the output of layer {maker.index} "
            f"{maker.kind} '{maker.name}'{others}",
            self.needed(sizes(left)),
            lost / self.macs,
        )

    def _touches(self, n: int, group: frozenset[str]) -> int:
        """Return of how many of the two, input and output of a layer, the channels get fewer."""
        reads = not group.isdisjoint(self.network.flow.reads[n])
        writes = self.network.flow.writes[n] in group
        return min(reads + writes, 1 if is_channelwise(self.network.layers[n]) else 2)

    def _groups(self) -> Mapping[str, frozenset[str]]:
        """Return for each tensor those that have as many channels as it by the layers between."""
        group = {name: {name} for name in self.network.flow.forms}
        for n, layer in enumerate(self.network.layers):
            output = self.network.flow.writes[n]
            alike = [
                name
                for name, tensor in zip(self.network.flow.reads[n], layer.inputs, strict=False)
                if tensor.channels == layer.output.channels and is_channelwise(layer)
            ]
            for name in alike:
                merged = group[name] | group[output]
                for member in merged:
                    group[member] = merged
        return {name: frozenset(members) for name, members in group.items()}
