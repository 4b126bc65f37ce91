"""Deciding what is streamed and what lies in L3, until the network fits into L2.

The cascade of the TC 2021 paper, section 4.2.1, over the whole network: starting from everything
in L2 but the constants, the position that needs most is relieved by the cheapest step that helps.
In the paper's order constants are cut into chunks first; then activations: stripes of what is in L3
already get smaller, a residual that waits is spilled, or the output or input of the layer moves to
L3, whichever moves the fewest bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from math import log2

from dory_core.errors import DoesNotFit
from dory_core.hardware.memories import Link
from dory_core.plan.blocks import WEIGHTS, Request, align_up, fullest_step, owners
from dory_core.plan.budgets import for_simulation
from dory_core.planning.coarsen import coarsen
from dory_core.planning.heuristics import best_fit, peak_of
from dory_core.planning.packing import MemoryPlan, plan_memory
from dory_core.planning.sequence import Decision, PartSequence, Sequencer
from dory_core.planning.splits import Splits
from dory_core.tiling.outer import Split, group_spans
from dory_core.tiling.tiled import TiledLayer

TileFunction = Callable[[int, Split], TiledLayer]
# Returns the bytes of each group of constants of a layer, tiled so and cut so; none when they are
# not fetched.
Chunks = Callable[[int, TiledLayer, Split], tuple[int, ...]]

# What a step of the cascade changes shows in so many positions before and behind it.
_NEAR = 2
# Steps of the cascade per layer, far beyond what any network needed.
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class ChunkBytes:
    """Bounds of the bytes that are fetched at once.

    small: constants are not cut into smaller pieces while anything else helps: setting a transfer
    up costs about an eighth of it. large: a larger chunk gains nothing: setting it up costs
    less than a hundredth of it, and half of it finds a place in L2 earlier.
    """

    small: int
    large: int

    @classmethod
    def of(cls, link: Link) -> ChunkBytes:
        """Return the bounds for a link, powers of two."""
        setup_bytes = max(1, int(link.setup_cycles * link.bytes_per_cycle))
        return cls(_power_of_two(8 * setup_bytes), _power_of_two(128 * setup_bytes))

    @property
    def finer(self) -> ChunkBytes:
        """Bounds of half the size: free memory that is in pieces takes more of such chunks."""
        return replace(self, large=max(self.small, self.large // 2))


def _power_of_two(number: int) -> int:
    """Return the power of two that is nearest to ``number`` by ratio."""
    return 1 << round(log2(number))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A network that fits. chunks: bytes of each layer's groups of constants that are fetched."""

    decision: Decision
    memory: MemoryPlan
    tiled: tuple[TiledLayer, ...]
    chunks: tuple[tuple[int, ...], ...]


def fit_network(
    network: Sequencer,
    tile: TileFunction,
    chunks: Chunks,
    budget: int,
    alignment: int,
    bounds: ChunkBytes,
) -> Fitted:
    """Return the network cut so that it fits ``budget`` bytes of L2.

    tile: tiles the largest part of a layer. chunks: what is fetched of a layer's constants. bounds:
    of what is fetched at once.

    Raises: DoesNotFit, naming the layer, what is live there and its bytes; the errors of ``tile``.
    """
    return _Fitter(network, tile, chunks, budget, alignment, bounds).run()


def fixed_tensors(network: Sequencer) -> set[str]:
    """Return the tensors that lie in L2 as a whole."""
    # Forms that are converted and what is made of them, and views.
    fixed = {name for pairs in network.flow.before for pair in pairs for name in pair}
    fixed |= network.views.groups.keys()
    # State is read and left where it stays.
    return fixed | {name for pair in network.flow.states for name in pair}


class _Fitter:
    def __init__(
        self,
        network: Sequencer,
        tile: TileFunction,
        chunks: Chunks,
        budget: int,
        alignment: int,
        bounds: ChunkBytes,
    ) -> None:
        self.network = network
        self.layers = network.layers
        self.flow = network.flow
        self.forms = network.flow.forms
        self.tile = tile
        self.budget = budget
        self.limit = budget  # lowered when blocks fit in sum but not in place
        self.peak: int | None = None  # least bytes in which blocks that fit in sum fit in place
        self.alignment = alignment
        self.chunk_bytes = bounds
        self.fixed = fixed_tensors(network)
        self.chunks = cache(lambda n, tiles, split: chunks(n, tile(n, tiles), split))
        self.least_groups = self._least_groups()

    def run(self) -> Fitted:
        cuts = zip(self.least_groups, self.network.cuts, strict=True)
        decision = Decision(Splits.of(cut.whole._replace(groups=groups) for groups, cut in cuts))
        peaks = _Peaks(len(self.layers))
        self.update(peaks, decision, range(len(self.layers)))
        for _ in range(_MOST_STEPS * len(self.layers)):
            needed = max(peaks.bytes)
            n = peaks.bytes.index(needed)
            if needed <= self.limit:
                if self._fits(decision):
                    return self._coarse(decision)
                lost = 0 if self.peak is None else max(0, self.peak - self.budget) // 2
                self.limit = min(self.limit, needed) - max(self.alignment, lost)
            changed = self._relieve(decision, _Peak(peaks, n), needed - self.limit)
            self.update(peaks, changed, self.changed(decision, changed))
            decision = changed
        raise self._too_large(_Peak(peaks, n), needed)

    def _least_groups(self) -> tuple[int, ...]:
        """Return the minimum number of groups so that chunks are no larger than they need be."""
        least = []
        for n in range(len(self.layers)):
            size = self._constants(n)
            least.append(
                max(1, min(self.network.cuts[n].groups, -(-size // self.chunk_bytes.large)))
            )
        return tuple(least)

    def _constants(self, n: int) -> int:
        """Return the bytes of the constants of a layer in one chunk."""
        whole = self.network.cuts[n].whole
        return sum(self.chunks(n, whole, whole))

    def _build(
        self, decision: Decision, layers: range | None = None, tiles: Decision | None = None
    ) -> PartSequence:
        """Return the sequence of a decision; tiles: another one with the tiles of the layers."""
        splits = (tiles or decision).splits
        return self.network.build(
            decision, lambda n: self.chunks(n, splits[n], decision.splits[n]), layers
        )

    # -- what is needed where -----------------------------------------------------------------

    def _near(self, decision: Decision, first: int, last: int) -> range:
        """Return the layers with the ones before and behind them in which changes show."""
        before = behind = 0
        while first > 0 and before < _NEAR:
            first -= 1
            before += len(self.network.parts_of(first, decision.splits[first]))
        while last < len(self.layers) - 1 and behind < _NEAR:
            last += 1
            behind += len(self.network.parts_of(last, decision.splits[last]))
        return range(max(0, first), last + 1)

    def changed(self, before: Decision, after: Decision) -> range:
        """Return layers beyond which two decisions need the same."""
        changed = before.splits.differing(after.splits)
        first, last = min(changed, default=len(self.layers)), max(changed, default=-1)
        names = _others(before.in_l3, after.in_l3) | _others(before.spilled, after.spilled)
        # When a tensor is spilled depends on the positions of all layers that it waits for.
        alive = {name for n in changed for name in self.network.alive[n]}
        for name in names | (alive & after.spilled):
            layers = self.network.layers_of(name)
            first, last = min(first, layers[0]), max(last, layers[-1])
        return self._near(after, first, last) if changed or names else range(0)

    def update(
        self,
        peaks: _Peaks,
        decision: Decision,
        layers: range,
        tiles: Decision | None = None,
    ) -> None:
        """Find anew where in each of some layers most is live.

        The moments before the first part and behind the last one belong to
        the first and the last layer.
        """
        if not layers:
            return
        program = self._build(decision, self._near(decision, layers[0], layers[-1]), tiles)
        start = program.first[layers[0]] if layers[0] else -1
        end = program.last[layers[-1]] + (layers[-1] == len(self.layers) - 1)
        change, unit = [0] * (end - start + 2), self.alignment
        for _, size, begin, until, _, within, _, _ in program.requests.values():
            if begin <= end and until >= start and not within:
                size = -(-size // unit) * unit  # as of ``align_up``
                change[begin - start if begin > start else 0] += size
                change[(until if until < end else end) + 1 - start] -= size
        live = list(accumulate(change))
        for n in layers:
            first = program.first[n] - (n == 0)
            last = program.last[n] + (n == len(self.layers) - 1)
            here = live[first - start : last + 1 - start]
            peaks.bytes[n] = max(here)
            peaks.part[n] = here.index(peaks.bytes[n]) + first - program.first[n]
            peaks.program[n] = program

    def _coarse(self, fitting: Decision) -> Fitted:
        """Return the network with as little moved and cut as still fits."""
        for margin in (0, self.budget // 16):
            # The tiles of similar parts do for a trial; what is kept is tiled anew.
            fits = _Trials(self, fitting, self.limit - margin)
            decision = coarsen(self.network, fitting, fits, self._with_split, self.least_groups)
            if decision == fitting:
                break
            if self._fits(decision):
                return self._packed(decision)
        return self._packed(fitting)

    def _requests(self, decision: Decision) -> tuple[Request, ...]:
        return tuple(self._build(decision).requests.values())

    def _fits(self, decision: Decision) -> bool:
        """Return whether the blocks find places within the budget; else note what they need."""
        requests = owners(requested := self._requests(decision))
        if fullest_step(requests, self.alignment)[1] > self.budget:
            return False
        # Any packing that fits will do: the best one is searched when the decision is final.
        offsets = best_fit(requests, self.alignment, self.budget)
        if peak_of(requests, offsets, self.alignment) <= self.budget:
            return True
        peak = plan_memory(requested, self.alignment).chosen.peak_bytes
        if peak > self.budget:
            self.peak = peak if self.peak is None else min(self.peak, peak)
        return peak <= self.budget

    def _packed(self, decision: Decision) -> Fitted:
        """Return the network with its blocks placed."""
        memory = plan_memory(self._requests(decision), self.alignment)
        tiled = tuple(self.tile(n, split) for n, split in enumerate(decision.splits))
        chunks = tuple(self.chunks(n, split, split) for n, split in enumerate(decision.splits))
        return Fitted(decision, memory, tiled, chunks)

    # -- steps of the cascade -----------------------------------------------------------------

    def _relieve(self, decision: Decision, peak: _Peak, excess: int) -> Decision:
        spare = sum(max(0, r.size_bytes - self.chunk_bytes.small) for r in peak.chunks)
        if spare >= excess:
            finer = self._finer_chunks(decision, peak)
            if finer is not None:
                return finer
        steps = list(self._activation_steps(decision, peak, excess))
        if steps:
            return min(steps, key=lambda step: step[0])[1]
        finer = self._finer_chunks(decision, peak)
        if finer is not None:
            return finer
        needed = sum(align_up(r.size_bytes, self.alignment) for r in peak.live)
        raise self._too_large(peak, needed)

    def _finer_chunks(self, decision: Decision, peak: _Peak) -> Decision | None:
        """Cut the constants of the layer with the largest live chunk that can be cut further."""
        rest = self.limit - sum(r.size_bytes for r in peak.live if r.role != WEIGHTS)
        target = max(self.chunk_bytes.small, rest // max(1, len(peak.chunks)))
        for chunk in sorted(peak.chunks, key=lambda r: (-r.size_bytes, r.name)):
            n = peak.program.chunks[chunk.name]
            split = decision.splits[n]
            most = self.network.cuts[n].groups
            if split.groups >= most:
                continue
            whole = chunk.size_bytes * split.groups
            groups = min(most, max(split.groups + 1, -(-whole // target)))
            before = group_spans(self.layers[n], split.groups, split.group_step)
            while groups < most and group_spans(self.layers[n], groups, split.group_step) == before:
                groups += 1
            return self._with_split(decision, n, split._replace(groups=groups))
        return None

    def _activation_steps(
        self, decision: Decision, peak: _Peak, excess: int
    ) -> Iterator[tuple[tuple[int, int], Decision]]:
        """Return ((bytes moved, order), decision) of every step that relieves a peak."""
        striped: dict[int, int] = {}
        for request in peak.live:
            if request.name in peak.program.stripes:
                n = peak.program.stripes[request.name]
                striped[n] = striped.get(n, 0) + request.size_bytes
        if sum(striped.values()) > excess:
            for n, size in striped.items():
                split = decision.splits[n]
                most = self.network.cuts[n].stripes
                if split.stripes < most:
                    left = max(size - excess, size // 8, 1)
                    stripes = min(most, max(split.stripes + 1, -(-split.stripes * size // left)))
                    yield (-size, 0), self._with_split(decision, n, split._replace(stripes=stripes))
        here = peak.layer
        for name in sorted({r.name.removesuffix(".back") for r in peak.live} & self.forms.keys()):
            if name in decision.in_l3 or name in self.fixed:
                continue
            size = self.forms[name].size_bytes
            maker = self.network.makers[name]
            touches = here == maker or here in self.network.readers[name]
            if not touches and name not in decision.spilled and self._waits(decision, peak, name):
                spilled = replace(decision, spilled=decision.spilled | {name})
                yield (2 * size, 1), spilled
            moved = self._all_in_l3(decision, name)
            if moved is not None:
                order = 2 if maker == here else 3
                if not touches:
                    order = 4  # it waits here; its other layers get stripes for nothing else
                size = sum(self.forms[t].size_bytes for t in self._together(name))
                yield (size if name in self.flow.inputs else 2 * size, order), moved

    def _waits(self, decision: Decision, peak: _Peak, name: str) -> bool:
        """Return whether a peak lies where a tensor could have left L2."""
        gap = self.network.gap(decision, name)
        if gap is None:
            return False
        first, _ = self.network.positions(decision)
        return gap[0] + 1 < first[peak.layer] + peak.part < first[gap[1]] - 1

    def _in_l3(self, decision: Decision, name: str) -> Decision | None:
        """Return the decision with the tensor in L3, its producer and consumers in stripes.

        None when one of them cannot work in stripes while it holds the tensor.
        """
        maker = self.network.makers[name]
        layers = [*self.network.readers[name], *([maker] if maker >= 0 else [])]
        if name in self.fixed or (name in self.flow.outputs and name in self.flow.inputs):
            return None
        if maker >= 0 and self.network.cuts[maker].stripes == 1:
            return None
        splits = decision.splits
        for n in layers:
            most = self.network.cuts[n].stripes
            stripes = min(most, max(2, splits[n].stripes))
            splits = splits.having(n, splits[n]._replace(stripes=stripes))
        moved = replace(
            decision,
            splits=splits,
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
        for group in (self.flow.inputs, self.flow.outputs):
            if name in group:
                return tuple(group)
        return (name,)

    def _with_split(self, decision: Decision, n: int, split: Split) -> Decision:
        """Return the decision with another split of a layer, its outer loop chosen anew."""
        split = split._replace(stripes_outer=self._stripes_outer(decision, n, split))
        return replace(decision, splits=decision.splits.having(n, split))

    def _stripes_outer(self, decision: Decision, n: int, split: Split) -> bool:
        if self.flow.writes[n] in decision.in_l3 or split.stripes == 1 or split.groups == 1:
            return True  # a stripe of the output in L3 is completed before the next one
        # The output stays in L2, so either loop may be the outer one: fetch fewer bytes twice.
        reads = self.flow.reads[n]
        inputs = sum(self.forms[name].size_bytes for name in reads if name in decision.in_l3)
        return self._constants(n) * (split.stripes - 1) <= inputs * (split.groups - 1)

    def _too_large(self, peak: _Peak, needed: int) -> DoesNotFit:
        live = sorted(peak.live, key=lambda r: (-r.size_bytes, r.name))
        needed = max(self.budget + 1, needed) if self.peak is None else self.peak
        layer = self.layers[peak.layer].op
        texts = ", ".join(f"{r.name} {r.size_bytes} B" for r in live[:6])
        return DoesNotFit(
            f"layer {layer.index} {layer.kind} '{layer.name}' needs {needed} B of L2 in its "
            f"smallest parts, {self.budget} B are available; {live[0].name} is the largest of what "
            f"is live there: {texts}",
            f"raise --l2 to at least {needed} if the chip has it, or make the layer smaller;"
            f" {for_simulation(2, needed)}",
            needed,
        )


def _others(before: frozenset[str], after: frozenset[str]) -> frozenset[str]:
    """Return the names that are in one set alone; at once when nothing has changed them."""
    return before ^ after if before is not after else frozenset()


class _Peaks:
    """The most bytes that each layer needs at once, at which of its parts first, and the sequence
    that tells so: true in that layer, at positions of the time when it was made."""

    def __init__(self, layers: int) -> None:
        self.bytes = [0] * layers
        self.part = [0] * layers
        self.program = [PartSequence()] * layers


class _Peak:
    """What is live where a layer needs most. part: of the layer; one before or behind at the ends
    of the network."""

    def __init__(self, peaks: _Peaks, layer: int) -> None:
        self.layer, self.part, self.program = layer, peaks.part[layer], peaks.program[layer]
        position = self.program.first[layer] + self.part
        requests = self.program.requests.values()
        self.live = [r for r in requests if r.first <= position <= r.last and not r.within]
        self.chunks = [r for r in self.live if r.role == WEIGHTS]


class _Trials:
    """Whether decisions fit, each compared with the last one that did."""

    def __init__(self, fitter: _Fitter, decision: Decision, limit: int) -> None:
        self._fitter = fitter
        self._tiles = self._fitting = decision
        self._limit = limit
        self._peaks = _Peaks(len(fitter.layers))
        fitter.update(self._peaks, decision, range(len(fitter.layers)), decision)
        self._over = {n for n, most in enumerate(self._peaks.bytes) if most > limit}

    def __call__(self, decision: Decision) -> bool:
        layers = self._fitter.changed(self._fitting, decision)
        if not self._over <= set(layers):
            return False
        here = slice(layers.start, layers.stop)
        before = self._peaks.bytes[here]
        self._fitter.update(self._peaks, decision, layers, self._tiles)
        if max(self._peaks.bytes[here], default=0) > self._limit:
            self._peaks.bytes[here] = before
            return False
        self._fitting, self._over = decision, set()
        return True
