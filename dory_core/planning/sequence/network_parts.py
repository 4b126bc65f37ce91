"""How the layers of a network may be cut into parts, and what each part reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import groupby

from dory_core.ir import Graph
from dory_core.ir.geometry import axis_span
from dory_core.plan.block_ids import BlockId, BlockKind, chunk_id, stripe_id
from dory_core.plan.blocks import align_up
from dory_core.planning.chains.block import ChainRows, RollingRows
from dory_core.planning.chains.rolling import (
    Needs,
    Ranges,
    RollingBuffer,
    RollingChain,
    rolling_chain,
    turns,
    turns_of,
)
from dory_core.planning.chains.shared_rows import (
    Rolling,
    SharedRows,
    buffers_of,
    rolling_buffer,
    shared_rows,
)
from dory_core.planning.decision import Decision
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.sequence.part_sequence import Piece, Visit, widest_gap
from dory_core.planning.views import Views
from dory_core.tiling.outer import (
    Cuts,
    Part,
    Split,
    input_range,
    output_range,
    parts,
    stripe_axis,
    stripe_total,
)

#: The first and the last position of each layer.
Positions = tuple[Sequence[int], Sequence[int]]


class NetworkParts:
    """Makes the sequences of one network, of all layers or of some of them."""

    def __init__(
        self,
        graph: Graph,
        flow: LayoutPlan,
        cuts: Sequence[Cuts],
        views: Views,
        unit: int = 1,
        by_rows: Iterable[str] = (),
        over: Collection[tuple[int, int]] = (),
        alignment: int = 1,
    ) -> None:
        self.by_rows = tuple(by_rows)
        self.over = over  # operands (layer, number) whose place the output may take
        self.unit = unit
        self.alignment = alignment
        self.views = views
        self.cuts = cuts
        self.name = graph.name
        self.layers = graph.layers
        self.flow = flow
        self.sizes = {name: form.size_bytes for name, form in flow.forms.items()}
        self.wholes = {name: BlockId(name) for name in flow.forms}
        self.backs = {name: BlockId(name, BlockKind.BACK) for name in flow.forms}
        self.states = frozenset(read for read, _ in flow.states)
        self.outlive = frozenset(flow.sinks) | self.states  # the last layer
        self.makers, self.readers = flow.makers(), flow.readers()
        self.converted = {target for pairs in flow.before for _, target in pairs}
        # Names of the tensors that some part of each layer finds in memory.
        self.alive: list[list[str]] = [[] for _ in self.layers]
        for name in flow.forms:
            for n in self.layers_of(name):
                self.alive[n].append(name)
        # Tensors that always lie in L2 as a whole: forms that are converted and what is made of
        # them, views, and state, which is read and left in one place.
        self.fixed = {name for pairs in flow.before for pair in pairs for name in pair}
        self.fixed |= views.groups.keys()
        self.fixed |= {name for pair in flow.states for name in pair}
        self.parts_of = cache(self._find_parts)
        self.needs = cache(self._find_needs)
        self.rolling = cache(self._find_rolling)
        self.shared = cache(self._find_shared)
        self.buffers = cache(lambda first, splits: buffers_of(self.shared(first, splits)))
        self.taken_buffer = cache(self._find_taken_buffer)
        self.rolling_rows = cache(self._find_rolling_rows)
        self._positions: tuple[Sequence[Split], Positions] = ((), ((), ()))
        self.ranges_of = cache(self._find_ranges)
        self.visits_of = cache(self._find_visits)
        self.chunks_of = cache(self._find_chunks)
        self.stripes_of = cache(self._find_stripes)

    def layers_of(self, name: str) -> range:
        """Return the layers from the one that makes a tensor to the last one that needs it.

        What lies in the same block counts as well.
        """
        spans = [self._layers_of(one) for one in self.views.groups.get(name, (name,))]
        return range(min(span.start for span in spans), max(span.stop for span in spans))

    def _layers_of(self, name: str) -> range:
        last = len(self.layers) - 1 if name in self.outlive else max(self.readers[name], default=-1)
        return range(max(self.makers[name], 0), max(self.makers[name], last, 0) + 1)

    def names_in(self, layers: range) -> list[str]:
        """Return the tensors that some part of these layers finds in memory, in one order."""
        alive = {name for n in layers for name in self.alive[n]}
        return [name for name in self.flow.forms if name in alive]

    def _find_parts(self, n: int, split: Split) -> tuple[Part, ...]:
        return tuple(parts(self.layers[n], split))

    def _find_ranges(
        self, n: int, operand: int | None, split: Split
    ) -> tuple[tuple[int, int], ...]:
        """Return (first byte, bytes) of what each part reads of an operand; None: writes."""
        layer, todo, flow = self.layers[n], self.parts_of(n, split), self.flow
        if operand is None:
            layout = flow.forms[flow.writes[n]].layout
            return tuple(output_range(layer, part.stripe_span, layout) for part in todo)
        layout = flow.forms[flow.reads[n][operand]].layout
        return tuple(input_range(layer, operand, part.stripe_span, layout) for part in todo)

    def _find_visits(self, n: int, operand: int | str | None, split: Split) -> tuple[Visit, ...]:
        """Return the visits of what :meth:`ranges_of` tells apart; ``w``: of groups of channels."""
        used: Iterable[object]
        if operand == "w":
            used = (part.group for part in self.parts_of(n, split))
        else:
            assert not isinstance(operand, str)
            used = self.ranges_of(n, operand, split)
        visits, first = [], 0
        for _, same in groupby(used):
            visits.append(Visit(first, sum(1 for _ in same)))
            first += visits[-1].parts
        return tuple(visits)

    def _find_chunks(self, n: int, split: Split) -> tuple[Piece, ...]:
        """Return the blocks that the visits of groups of constants use."""
        todo, pieces, known = self.parts_of(n, split), list[Piece](), set[BlockId]()
        for first, count in self.visits_of(n, "w", split):
            group = todo[first].group
            block = chunk_id(self.layers[n].op.index, group)
            if block in known:
                block = chunk_id(self.layers[n].op.index, group, first)
            known.add(block)
            pieces.append(Piece(block, first, count, group=group))
        return tuple(pieces)

    def _find_stripes(self, n: int, operand: int | None, split: Split) -> tuple[Piece, ...]:
        """Return the blocks that the visits of an operand in L3 use; None: of the output.

        The link moves whole units to L2, also those in which a stripe starts and ends.
        """
        ranges, pieces = self.ranges_of(n, operand, split), list[Piece]()
        for k, (first, count) in enumerate(self.visits_of(n, operand, split)):
            offset, size = ranges[first]
            block = stripe_id(self.flow.writes[n], k)
            if operand is not None:
                index = (self.layers[n].op.index, operand, k)
                block = BlockId(self.flow.reads[n][operand], BlockKind.WINDOW, index)
                lead = offset % self.unit
                offset, size = offset - lead, align_up(size + lead, self.unit)
            pieces.append(Piece(block, first, count, offset, size))
        return tuple(pieces)

    def positions(self, decision: Decision) -> Positions:
        """Return the first and the last position of each layer; in chains parts alternate."""
        splits, found = self._positions
        if splits is not decision.splits:
            found = self._find_positions(decision.splits)
            self._positions = (decision.splits, found)
        return found

    def _find_positions(self, splits: Sequence[Split]) -> Positions:
        first, last, end = list[int](), list[int](), 0
        for n, split in enumerate(splits):
            if split.starts:
                if split.place == 0:
                    chain = self.rolling(n, tuple(splits[n : n + split.chain]))
                    first += [end + positions[0] for positions in chain.positions]
                    last += [end + positions[-1] for positions in chain.positions]
                    end += chain.parts
                continue
            first.append(end)
            end += len(self.parts_of(n, split))
            last.append(end - 1)
        return first, last

    # -- chains with rolling buffers ---------------------------------------------------------------

    def turns(
        self, first: int, most: Sequence[int], granular: Collection[str] = ()
    ) -> tuple[tuple[int, ...], ...]:
        """Return the first rows of the stripes of the layers of a chain.

        Args:
            first: The first layer of the chain.
            most: Most rows of a stripe of each of its layers.
            granular: Outputs that a link moves from and to its granules.
        """
        steps = [
            cuts.whole.step if name in granular else 1
            for cuts, name in zip(self.cuts[first:], self.flow.writes[first:], strict=True)
        ][: len(most)]
        rounded = [-(-rows // step) * step for rows, step in zip(most, steps, strict=True)]
        return turns(self.needs(first, len(most))._replace(most=rounded, granules=steps))

    def _find_needs(self, first: int, count: int) -> Needs:
        """Return the needs of the layers of a chain, with stripes of any rows."""
        layers = self.layers[first : first + count]
        operands = [
            [k for k, name in enumerate(reads) if self.makers[name] >= first]
            for reads in self.flow.reads[first : first + count]
        ]
        makers = [
            [self.makers[self.flow.reads[first + n][k]] - first for k in ks]
            for n, ks in enumerate(operands)
        ]
        totals = [*map(stripe_total, layers)]

        @cache
        def until(n: int, k: int, start: int, count: int) -> int:
            layer, axis = layers[n], stripe_axis(layers[n]) or 0
            if layer.whole_axes(operands[n][k])[axis + 1]:
                return totals[makers[n][k]]
            span = axis_span(layer, axis, start, count)
            return span.x_start + span.x_size

        return Needs(totals, totals, [1] * count, makers, until)

    def _find_rolling(self, first: int, splits: tuple[Split, ...]) -> RollingChain:
        """Return the turns of a chain.

        Args:
            first: The first layer of the chain.
            splits: Those of its layers.
        """
        order = turns_of(self.needs(first, len(splits)), [one.starts for one in splits])
        users = range(first, first + len(splits))
        taken = tuple(
            name
            for name in self.by_rows
            if self.makers[name] < 0 and not set(users).isdisjoint(self.readers[name])
        )
        readers = [self.readings(name, first, splits) for name in taken]
        return rolling_chain(order, len(splits), taken, readers)

    def readings(
        self, name: str, first: int, splits: tuple[Split, ...]
    ) -> dict[tuple[int, int], Ranges]:
        """Return the ranges that each part of the layers of a chain reads of a tensor."""
        return {
            (m - first, k): self.ranges_of(m, k, splits[m - first])
            for m in self.readers[name]
            if first <= m < first + len(splits)
            for k, read in enumerate(self.flow.reads[m])
            if read == name
        }

    def rolls(self, name: str, first: int, last: int) -> bool:
        """Return True when a tensor needs no whole block in a chain of some layers.

        They make it and are all that read it, row by row.
        """
        readers, maker = self.readers[name], self.makers[name]
        if name in self.by_rows:
            if maker < 0:
                maker = -1 if name in self.outlive else min(readers, default=-1)
        elif name in self.outlive or not readers:
            return False
        if name in self.fixed or maker < first or max(readers, default=maker) > last:
            return False
        return self.is_read_by_rows(name)

    def is_read_by_rows(self, name: str) -> bool:
        """Return True when no layer reads a tensor as a whole for each row of its output."""
        return all(self._reads_rows(n, name) for n in self.readers[name])

    def has_reader_by_rows(self, name: str, last: int) -> bool:
        """Return True when a layer up to one reads rows of a tensor as soon as they are made."""
        return any(self._reads_rows(n, name) for n in self.readers[name] if n <= last)

    def _reads_rows(self, n: int, name: str) -> bool:
        """Return True when a layer reads no more of a tensor than the rows that its own need."""
        layer, axis = self.layers[n], (stripe_axis(self.layers[n]) or 0) + 1
        operands = (k for k, read in enumerate(self.flow.reads[n]) if read == name)
        return not any(layer.whole_axes(k)[axis] for k in operands)

    def taken_from(self, n: int) -> tuple[str, ...]:
        """Return the network inputs that come by rows, and that a layer is the first to read."""
        names = (name for name in self.by_rows if self.makers[name] < 0)
        return tuple(name for name in names if min(self.readers[name], default=-1) == n)

    def touches(self, name: str, first: int, last: int) -> bool:
        """Return True when some layers make or read a tensor."""
        return any(first <= n <= last for n in (self.makers[name], *self.readers[name]))

    def _find_shared(self, first: int, splits: tuple[Split, ...]) -> dict[int, SharedRows]:
        """Return the buffers of the outputs of a chain, by the number of the layer in it."""
        names = self.flow.writes[first : first + len(splits)]
        tensors = [
            Rolling(
                at,
                self.ranges_of(first + at, None, splits[at]),
                readers := self.readings(name, first, splits),
                [key for key in readers if (first + key[0], key[1]) in self.over],
            )
            for at, name in enumerate(names)
            if self.rolls(name, first + at, first + len(splits) - 1)
        ]
        return shared_rows(self.rolling(first, splits).order, tensors)

    def _find_taken_buffer(self, first: int, splits: tuple[Split, ...], name: str) -> RollingBuffer:
        """Return the rolling buffer of an input that comes by rows; arguments as before."""
        chain = self.rolling(first, splits)
        return rolling_buffer(chain.order, self._taken(first, splits, name))

    def _taken(self, first: int, splits: tuple[Split, ...], name: str) -> Rolling:
        """Return an input that comes by rows, made by the caller; arguments as before."""
        k = (chain := self.rolling(first, splits)).taken.index(name)
        return Rolling(-1 - k, chain.pieces[k], self.readings(name, first, splits))

    def _find_rolling_rows(self, first: int, splits: tuple[Split, ...]) -> RollingRows:
        """Return the live rows of the rolling buffers of a chain, also of those in others."""
        chain, names = self.rolling(first, splits), self.flow.writes[first:]
        found = {names[n]: one for n, one in self.shared(first, splits).items()}
        for name in chain.taken:
            tensor = self._taken(first, splits, name)
            found[name] = SharedRows((tensor,), (0,), (self.taken_buffer(first, splits, name),))
        return RollingRows(chain.order, found, self.alignment)

    def turns_of(self, decision: Decision, n: int) -> Sequence[int]:
        """Return the positions of the parts of a layer in a fused chain."""
        first, _ = self.positions(decision)
        positions = self.chain_of(decision, n).positions[decision.splits[n].place]
        return [first[n] - positions[0] + position for position in positions]

    def buffer_of(self, decision: Decision, n: int) -> RollingBuffer | None:
        """Return the rolling buffer of the output of a layer; None for an output without one."""
        if not decision.splits[n].starts or self.flow.writes[n] not in decision.fused:
            return None
        return self.buffers(*_chain(decision, n))[decision.splits[n].place]

    def chain_of(self, decision: Decision, n: int) -> RollingChain:
        """Return the turns of the chain that a layer is part of."""
        return self.rolling(*_chain(decision, n))

    def chain_rows(self, decision: Decision, n: int) -> ChainRows | None:
        """Return the block of the rolling buffers of a chain; None where each has its own."""
        first, splits = _chain(decision, n)
        taken = {one.taken for one in self.shared(first, splits).values()}
        within = {self.flow.writes[first + maker] for maker in taken if maker >= 0}
        rows = self.rolling_rows(first, splits)
        return rows.together(tuple(sorted(rows.live.keys() - within)))

    def read_buffer(self, decision: Decision, n: int, name: str) -> RollingBuffer:
        """Return the rolling buffer of a tensor that a layer of a chain reads."""
        maker, (first, splits) = self.makers[name], _chain(decision, n)
        if maker < 0:
            return self.taken_buffer(first, splits, name)
        return self.buffers(first, splits)[maker - first]

    def gap(self, decision: Decision, name: str) -> tuple[int, int] | None:
        """Return the widest gap between the readers of a tensor; see :func:`widest_gap`."""
        first, last = self.positions(decision)
        return widest_gap(
            self.made(decision, name), [(r, first[r], last[r]) for r in self.readers[name]]
        )

    def made(self, decision: Decision, name: str) -> int:
        """Return the position after which a tensor is complete."""
        n = self.makers[name]
        if n < 0:
            return -1
        first, last = self.positions(decision)
        return first[n] if name in self.converted else last[n]


def _chain(decision: Decision, n: int) -> tuple[int, tuple[Split, ...]]:
    """Return the first layer and the splits of the chain that a layer is part of."""
    first = n - decision.splits[n].place
    return first, decision.splits[first : first + decision.splits[n].chain]
