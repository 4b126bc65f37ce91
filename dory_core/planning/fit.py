"""Deciding what is streamed and what lies in L3, until the network fits into L2.

The cascade of the TC 2021 paper, section 4.2.1, over the whole network: starting from everything
in L2 but the constants, the position that needs most is relieved by the cheapest step that helps.
In the paper's order constants are cut into chunks first; then activations: stripes of what is in L3
already get smaller, a residual that waits is spilled, or the output or input of the layer moves to
L3, whichever moves the fewest bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dory_core.errors import DoesNotFit
from dory_core.ir import Graph
from dory_core.planning.blocks import WEIGHTS, Packing, Request, align_up
from dory_core.planning.coarsen import coarsen
from dory_core.planning.packing import MemoryPlan, plan_memory
from dory_core.planning.sequence import Decision, PartSequence, build_sequence, widest_gap
from dory_core.tiling.outer import Split, group_spans, max_groups, max_stripes
from dory_core.tiling.tiled import TiledLayer

# Constants are not cut into smaller pieces than this while anything else helps: a transfer costs
# as much as some hundred bytes before its first byte arrives.
SMALL_CHUNK = 4096

# A chunk larger than this gains nothing: its transfer costs as much per byte as that of half of it,
# which finds a place in L2 earlier. On MobileNetV1-1.0-128 the estimate is best at about this size.
LARGE_CHUNK = 65536

_MOST_STEPS = 1000

TileFunction = Callable[[int, Split], TiledLayer]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A network that fits. chunk_bytes: of each layer's groups of constants."""

    decision: Decision
    program: PartSequence
    memory: MemoryPlan
    tiled: tuple[TiledLayer, ...]
    chunk_bytes: tuple[tuple[int, ...], ...]

    @property
    def packing(self) -> Packing:
        """Where the blocks of L2 lie."""
        return self.memory.chosen


def chunk_sizes(tiled: TiledLayer, channels: int, groups: int) -> tuple[int, ...]:
    """Return the bytes of each group's constants; empty for a layer without constants."""
    schedule, kernel, layer = tiled.schedule, tiled.kernel, tiled.layer
    if not schedule.has_weights:
        return ()
    tile = tiled.tiling.tile
    sizes = []
    for _, count in group_spans_of(tiled, channels, groups):
        total = 0
        for at in range(0, count, tile.c_out):
            c_out = min(tile.c_out, count - at)
            for source in schedule.c_in:
                total += int(
                    kernel.weight_bytes(layer, replace(tile, c_out=c_out, c_in=source.size))
                )
        sizes.append(total)
    return tuple(sizes)


def group_spans_of(tiled: TiledLayer, channels: int, groups: int) -> tuple[tuple[int, int], ...]:
    """Return the groups of the whole layer whose largest part was tiled."""
    whole = replace(tiled.layer, output=replace(tiled.layer.output, channels=channels))
    return group_spans(whole, groups)


def fit_network(graph: Graph, tile: TileFunction, budget: int, alignment: int) -> Fitted:
    """Return the network cut so that it fits ``budget`` bytes of L2.

    tile: tiles the largest part of a layer. Raises: DoesNotFit, naming the layer, what is live
    there and its bytes; the errors of ``tile``.
    """
    return _Fitter(graph, tile, budget, alignment).run()


class _Fitter:
    def __init__(self, graph: Graph, tile: TileFunction, budget: int, alignment: int) -> None:
        self.graph = graph
        self.layers = graph.layers
        self.tile = tile
        self.budget = budget
        self.limit = budget  # lowered when blocks fit in sum but not in place
        self.peak: int | None = None  # least bytes in which blocks that fit in sum fit in place
        self.alignment = alignment
        self.uses = {
            name: tuple(n for n, layer in enumerate(graph.ops) if name in layer.inputs)
            for name in graph.tensors
        }
        self.makers = {layer.output: n for n, layer in enumerate(graph.ops)}
        self.least_groups = self._least_groups()

    def run(self) -> Fitted:
        decision = Decision(tuple(Split(groups=groups) for groups in self.least_groups))
        for _ in range(_MOST_STEPS):
            tiled = self._tiled(decision)
            program = build_sequence(self.graph, decision, self._chunks(decision, tiled))
            position, needed = self._fullest(program)
            if needed <= self.limit:
                fitted = self._packed(decision)
                if fitted is not None:
                    return self._coarse(fitted)
                lost = 0 if self.peak is None else max(0, self.peak - self.budget) // 2
                self.limit = min(self.limit, needed) - max(self.alignment, lost)
            decision = self._relieve(decision, program, position, needed - self.limit)
        raise self._too_large(program, position, needed)

    def _least_groups(self) -> tuple[int, ...]:
        """Return the groups of each layer from which on no chunk is needlessly large."""
        least = []
        for n, layer in enumerate(self.layers):
            size = sum(chunk_sizes(self.tile(n, Split()), layer.output.channels, 1))
            least.append(max(1, min(max_groups(layer), -(-size // LARGE_CHUNK))))
        return tuple(least)

    def _coarse(self, fitted: Fitted) -> Fitted:
        """Return the network with as little moved and cut as still fits."""
        for margin in (0, self.budget // 16):
            limit = self.limit - margin

            def fits(decision: Decision, limit: int = limit) -> bool:
                # The tiles of similar parts do for a trial; what is kept is tiled anew.
                chunks = self._chunks(decision, fitted.tiled)
                return self._fullest(build_sequence(self.graph, decision, chunks))[1] <= limit

            decision = coarsen(
                self.graph, fitted.decision, fits, self._with_split, self.least_groups
            )
            if decision == fitted.decision:
                break
            coarse = self._packed(decision)
            if coarse is not None:
                return coarse
        return fitted

    def _tiled(self, decision: Decision) -> tuple[TiledLayer, ...]:
        return tuple(self.tile(n, split) for n, split in enumerate(decision.splits))

    def _chunks(
        self, decision: Decision, tiled: Sequence[TiledLayer]
    ) -> tuple[tuple[int, ...], ...]:
        return tuple(
            chunk_sizes(t, layer.output.channels, split.groups)
            for t, layer, split in zip(tiled, self.layers, decision.splits, strict=True)
        )

    def _packed(self, decision: Decision) -> Fitted | None:
        """Return the network with its blocks placed, None when they exceed the budget."""
        tiled = self._tiled(decision)
        chunks = self._chunks(decision, tiled)
        program = build_sequence(self.graph, decision, chunks)
        if self._fullest(program)[1] > self.budget:
            return None
        memory = plan_memory(tuple(program.requests.values()), self.alignment)
        peak = memory.chosen.peak_bytes
        if peak > self.budget:
            self.peak = peak if self.peak is None else min(self.peak, peak)
            return None
        return Fitted(decision, program, memory, tiled, chunks)

    def _fullest(self, program: PartSequence) -> tuple[int, int]:
        """Return (position, bytes) where most is live; the earliest of equals."""
        change = [0] * (program.end + 3)
        for request in program.requests.values():
            size = align_up(request.size_bytes, self.alignment)
            change[request.first + 1] += size
            change[request.last + 2] -= size
        best = (-1, 0)
        live = 0
        for index, delta in enumerate(change):
            live += delta
            if live > best[1]:
                best = (index - 1, live)
        return best

    # -- steps of the cascade -----------------------------------------------------------------

    def _relieve(
        self, decision: Decision, program: PartSequence, position: int, excess: int
    ) -> Decision:
        live = [r for r in program.requests.values() if r.first <= position <= r.last]
        chunks = [r for r in live if r.role == WEIGHTS]
        spare = sum(max(0, r.size_bytes - SMALL_CHUNK) for r in chunks)
        if spare >= excess:
            finer = self._finer_chunks(decision, program, chunks, live)
            if finer is not None:
                return finer
        steps = list(self._activation_steps(decision, program, position, live, excess))
        if steps:
            return min(steps, key=lambda step: step[0])[1]
        finer = self._finer_chunks(decision, program, chunks, live)
        if finer is not None:
            return finer
        needed = sum(align_up(r.size_bytes, self.alignment) for r in live)
        raise self._too_large(program, position, needed)

    def _finer_chunks(
        self, decision: Decision, program: PartSequence, chunks: list[Request], live: list[Request]
    ) -> Decision | None:
        """Cut the constants of the layer with the largest live chunk that can be cut further."""
        fetches = {f.block: f for f in program.fetches if f.layer >= 0}
        rest = self.limit - sum(r.size_bytes for r in live if r.role != WEIGHTS)
        target = max(SMALL_CHUNK, rest // max(1, len(chunks)))
        for chunk in sorted(chunks, key=lambda r: (-r.size_bytes, r.name)):
            n = fetches[chunk.name].layer
            split = decision.splits[n]
            most = max_groups(self.layers[n])
            if split.groups >= most:
                continue
            whole = chunk.size_bytes * split.groups
            groups = min(most, max(split.groups + 1, -(-whole // target)))
            while groups < most and group_spans(self.layers[n], groups) == group_spans(
                self.layers[n], split.groups
            ):
                groups += 1
            return self._with_split(decision, n, replace(split, groups=groups))
        return None

    def _activation_steps(
        self,
        decision: Decision,
        program: PartSequence,
        position: int,
        live: list[Request],
        excess: int,
    ) -> Iterator[tuple[tuple[int, int], Decision]]:
        """Return ((bytes moved, order), decision) of every step that relieves ``position``."""
        striped: dict[int, int] = {}
        for request in live:
            if request.name in program.stripes:
                n = program.stripes[request.name]
                striped[n] = striped.get(n, 0) + request.size_bytes
        if sum(striped.values()) > excess:
            for n, size in striped.items():
                split = decision.splits[n]
                most = max_stripes(self.layers[n])
                if split.stripes < most:
                    left = max(size - excess, size // 8, 1)
                    stripes = min(most, max(split.stripes + 1, -(-split.stripes * size // left)))
                    yield (-size, 0), self._with_split(decision, n, replace(split, stripes=stripes))
        here = {program.layer_at(position)}
        names = {request.name.removesuffix(".back") for request in live}
        for name in sorted(names & self.graph.tensors.keys()):
            if name in decision.in_l3:
                continue
            size = self.graph.tensors[name].size_bytes
            touched = {*self.uses[name], self.makers.get(name, -1)}
            if (
                name not in decision.spilled
                and not touched & here
                and self._waits(program, name, position)
            ):
                spilled = replace(decision, spilled=decision.spilled | {name})
                yield (2 * size, 1), spilled
            moved = self._all_in_l3(decision, name)
            if moved is not None:
                order = 2 if self.makers.get(name) in here else 3
                if not touched & here:
                    order = 4  # it waits here; its other layers get stripes for nothing else
                size = sum(self.graph.tensors[t].size_bytes for t in self._together(name))
                yield (size if name in self.graph.inputs else 2 * size, order), moved

    def _waits(self, program: PartSequence, name: str, position: int) -> bool:
        """Return True when ``position`` lies in the gap in which nobody reads the tensor."""
        made = program.last[self.makers[name]] if name in self.makers else -1
        readers = [(n, program.first[n], program.last[n]) for n in self.uses[name]]
        gap = widest_gap(made, readers)
        return gap is not None and gap[0] + 1 < position < program.first[gap[1]] - 1

    def _in_l3(self, decision: Decision, name: str) -> Decision | None:
        """Return the decision with the tensor in L3, its producer and consumers in stripes.

        None when one of them cannot work in stripes while it holds the tensor.
        """
        layers = [*self.uses[name], *([self.makers[name]] if name in self.makers else [])]
        maker = self.makers.get(name)
        if name in self.graph.outputs and name in self.graph.inputs:
            return None
        if maker is not None and max_stripes(self.layers[maker]) == 1:
            return None
        splits = list(decision.splits)
        for n in layers:
            most = max_stripes(self.layers[n])
            splits[n] = replace(splits[n], stripes=min(most, max(2, splits[n].stripes)))
        moved = replace(
            decision,
            splits=tuple(splits),
            in_l3=decision.in_l3 | {name},
            spilled=decision.spilled - {name},
        )
        for n in layers:
            moved = self._with_split(moved, n, moved.splits[n])
        return moved

    def _all_in_l3(self, decision: Decision, name: str) -> Decision | None:
        """Return the decision with the tensor in L3, and all network inputs (outputs) with it.

        The caller hands them over as one block of memory, so they have one level.
        """
        moved: Decision | None = decision
        for other in self._together(name):
            if moved is not None and other not in moved.in_l3:
                moved = self._in_l3(moved, other)
        return moved

    def _together(self, name: str) -> tuple[str, ...]:
        for group in (self.graph.inputs, self.graph.outputs):
            if name in group:
                return tuple(group)
        return (name,)

    def _with_split(self, decision: Decision, n: int, split: Split) -> Decision:
        """Return the decision with another split of a layer, its outer loop chosen anew."""
        splits = list(decision.splits)
        splits[n] = replace(split, stripes_outer=self._stripes_outer(decision, n, split))
        return replace(decision, splits=tuple(splits))

    def _stripes_outer(self, decision: Decision, n: int, split: Split) -> bool:
        layer = self.graph.ops[n]
        if layer.output in decision.in_l3 or split.stripes == 1 or split.groups == 1:
            return True  # a stripe of the output in L3 is completed before the next one
        # The output stays in L2, so either loop may be the outer one: fetch fewer bytes twice.
        inputs = sum(
            self.graph.tensors[name].size_bytes for name in layer.inputs if name in decision.in_l3
        )
        constants = sum(chunk_sizes(self.tile(n, Split()), self.layers[n].output.channels, 1))
        return constants * (split.stripes - 1) <= inputs * (split.groups - 1)

    def _too_large(self, program: PartSequence, position: int, needed: int) -> DoesNotFit:
        live = [r for r in program.requests.values() if r.first <= position <= r.last]
        live.sort(key=lambda r: (-r.size_bytes, r.name))
        needed = max(self.budget + 1, needed) if self.peak is None else self.peak
        n = program.layer_at(position)
        layer = self.graph.ops[n]
        texts = ", ".join(f"{r.name} {r.size_bytes} B" for r in live[:6])
        return DoesNotFit(
            f"layer {layer.index} {layer.kind} '{layer.name}' needs {needed} B of L2 in its "
            f"smallest parts, {self.budget} B are available; {live[0].name} is the largest of what "
            f"is live there: {texts}",
            f"raise --l2 to at least {needed}, or make the layer smaller",
            needed,
        )
