"""Streaming: what passes through L2 in parts, until the network fits.

The cascade of the TC 2021 paper, section 4.2.1, over the whole network: starting from everything
in L2 except the constants, the position that needs most is relieved by the cheapest step that
helps. In the paper's order constants are cut into chunks first; then activations: stripes of what
is in L3 already get smaller, a residual that waits is spilled, or the output or input of the layer
moves to L3, whichever moves the fewest bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from dory_core.errors import DoesNotFit
from dory_core.plan.blocks import WEIGHTS
from dory_core.plan.budgets import for_simulation
from dory_core.planning.cutting import ChunkBytes, groups_of_all, least_groups, with_split
from dory_core.planning.decision import Decision
from dory_core.planning.moves import l1_residency
from dory_core.planning.moves.l1_residency import with_residents
from dory_core.planning.packing.one_memory import peak_within
from dory_core.planning.problem import Problem
from dory_core.planning.sequence.peaks import LiveBytes, Peak
from dory_core.tiling.outer import group_spans

# Steps of the cascade per layer, far beyond what any network needed.
_MOST_STEPS = 100


def streamed(problem: Problem, residents: bool = True) -> tuple[Decision, ...]:
    """Return decisions with which a network fits, found by the cascade.

    Groups of layers that keep channels apart move slices of pixels instead of rows, but other
    layers may need fewer transfers where their constants are fetched in groups. So there is a
    decision without such groups, and one that has them.

    Args:
        problem: The network.
        residents: Whether tensors that stay in L1 between layers take no room of L2.

    Raises:
        DoesNotFit: Names the layer, what is live there and its bytes.
        NotSupported: A part of a layer has no tiles.
    """
    found: list[Decision] = []
    refusals: list[DoesNotFit] = []
    most = tuple(cuts.groups for cuts in problem.network.cuts)
    for groups in dict.fromkeys((groups_of_all(problem), most)):
        try:
            decision = _cut(problem, groups, residents)
        except DoesNotFit as error:
            refusals.append(error)
        else:
            found += [decision] if decision not in found else []
    if not found:
        raise min(refusals, key=lambda one: one.needed_bytes or inf)
    return tuple(found)


def in_smallest_parts(problem: Problem) -> Decision:
    """Return the decision of the cascade with groups of all layers. Raises: as :func:`streamed`."""
    return _cut(problem, tuple(cuts.groups for cuts in problem.network.cuts))


def _cut(problem: Problem, groups: Sequence[int], residents: bool = True) -> Decision:
    """Return the decision of the cascade, with resident tensors if it fits so.

    Near the least L2 it may fit only without: openmv_fomo_face in 16,926 B.

    Args:
        problem: The network.
        groups: The most groups of channels of each layer.
        residents: As for :func:`streamed`.

    Raises:
        DoesNotFit: As :func:`streamed`.
    """
    cascade = _Cascade(problem, groups)
    in_l1 = cascade.residents() if residents else frozenset()
    if in_l1:
        try:
            return cascade.run(in_l1)
        except DoesNotFit:
            cascade = _Cascade(problem, groups)
    return cascade.run()


class _Cascade:
    """The search for a decision that fits."""

    def __init__(self, problem: Problem, groups: Sequence[int]) -> None:
        """Prepare the search.

        Args:
            problem: The network.
            groups: The most groups of channels of each layer.
        """
        assert problem.link is not None
        self.most_groups = groups
        self.problem = problem
        self.network = problem.network
        self.layers = problem.network.layers
        self.flow = problem.network.flow
        self.forms = problem.network.flow.forms
        self.budget = problem.room
        self.limit = self.budget  # lowered when blocks fit in sum but not in place
        self.peak: int | None = None  # least bytes in which blocks that fit in sum fit in place
        self.alignment = problem.alignment
        self.chunk_bytes = ChunkBytes.of(problem.link)
        self.fixed = problem.network.fixed
        self.live = LiveBytes(problem)

        least = least_groups(problem, self.chunk_bytes.large, groups)
        pairs = zip(self.network.cuts, least, strict=True)
        self.start = Decision(tuple(c.whole._replace(groups=n) for c, n in pairs), streamed=True)

    def residents(self) -> frozenset[str]:
        """Return the tensors that may stay in L1 where only constants are cut."""
        off = l1_residency.NAME in self.problem.switched_off
        if off or not self.problem.ctx.memory.resident_l1:
            return frozenset()
        return with_residents(self.problem, self.start, 0).resident

    def run(self, in_l1: frozenset[str] = frozenset()) -> Decision:
        """Return the decision that fits.

        Args:
            in_l1: Tensors that stay in L1 between layers as long as these are not cut.

        Raises:
            DoesNotFit: As :func:`streamed`.
        """
        counted = self.live.counted(replace(self.start, in_l1=in_l1))
        for _ in range(_MOST_STEPS * len(self.layers)):
            peak = Peak(counted)
            if peak.bytes <= self.limit:
                found = counted.decision if self._fits(counted.decision) else None
                if in_l1 and found is not None:
                    found = with_residents(self.problem, found, 0)
                    found = found if self._fits(found) else None
                if found is not None:
                    return found
                lost = 0 if self.peak is None else max(0, self.peak - self.budget) // 2
                self.limit = min(self.limit, peak.bytes) - max(self.alignment, lost)
            decision = self._relieve(counted.decision, peak, peak.bytes - self.limit)
            counted = self.live.counted(decision, counted)
        raise self._too_large(peak)

    def _fits(self, decision: Decision) -> bool:
        """Return True when the blocks find places within the budget; else note their peak."""
        requests = tuple(self.live.sequence(decision).requests.values())
        peak = peak_within(requests, self.alignment, self.budget)
        if peak > self.budget:
            self.peak = peak if self.peak is None else min(self.peak, peak)
        return peak <= self.budget

    def _relieve(self, decision: Decision, peak: Peak, excess: int) -> Decision:
        spare = sum(max(0, r.size_bytes - self.chunk_bytes.small) for r in peak.chunks)
        if spare >= excess:
            finer = self._finer_chunks(decision, peak)
            if finer is not None:
                return finer
        steps = list(self._activation_steps(decision, peak, excess))
        (moved, _), best = min(steps, key=lambda step: step[0], default=((0, 0), None))
        if best is not None:
            out = sum(self.forms[name].size_bytes for name in decision.in_l1 - best.in_l1)
            if not out or 2 * out <= moved:
                return best
        finer = self._finer_chunks(decision, peak)
        if finer is not None:
            return finer
        if best is not None:
            return best
        # They do not suffice, but the refusal states the bytes of the smallest parts.
        striped = next(self._striped(decision, peak, excess), None)
        if striped is not None:
            return striped[1]
        raise self._too_large(peak)

    def _finer_chunks(self, decision: Decision, peak: Peak) -> Decision | None:
        """Cut the constants of the layer with the largest live chunk that can be cut further."""
        rest = self.limit - sum(r.size_bytes for r in peak.live if r.role != WEIGHTS)
        target = max(self.chunk_bytes.small, rest // max(1, len(peak.chunks)))
        for chunk in sorted(peak.chunks, key=lambda r: (-r.size_bytes, r.id)):
            n = peak.program.chunks[chunk.id]
            split = decision.splits[n]
            most = self.most_groups[n]
            if split.groups >= most:
                continue
            whole = chunk.size_bytes * split.groups
            groups = min(most, max(split.groups + 1, -(-whole // target)))
            before = group_spans(self.layers[n], split.groups, split.group_step)
            while groups < most and group_spans(self.layers[n], groups, split.group_step) == before:
                groups += 1
            return with_split(self.problem, decision, n, split._replace(groups=groups))
        return None

    def _activation_steps(
        self, decision: Decision, peak: Peak, excess: int
    ) -> Iterator[tuple[tuple[int, int], Decision]]:
        """Return ((bytes moved, order), decision) of every step that relieves a peak."""
        live = (r.size_bytes for r in peak.live if r.id in peak.program.stripes)
        if sum(live) > excess:
            for size, found in self._striped(decision, peak, excess):
                yield (-size, 0), found
        here = peak.layer
        for name in sorted({r.id.tensor for r in peak.live if r.id.is_whole}):
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

    def _striped(
        self, decision: Decision, peak: Peak, excess: int
    ) -> Iterator[tuple[int, Decision]]:
        """Yield (bytes of stripes that are live at a peak, decision with more of them)."""
        striped: dict[int, int] = {}
        for request in peak.live:
            if request.id in peak.program.stripes:
                n = peak.program.stripes[request.id]
                striped[n] = striped.get(n, 0) + request.size_bytes
        for n, size in striped.items():
            split = decision.splits[n]
            most = self.network.cuts[n].stripes
            if split.stripes < most:
                left = max(size - excess, size // 8, 1)
                stripes = min(most, max(split.stripes + 1, -(-split.stripes * size // left)))
                more = with_split(self.problem, decision, n, split._replace(stripes=stripes))
                yield size, more

    def _waits(self, decision: Decision, peak: Peak, name: str) -> bool:
        """Return True when a peak lies where a tensor could have left L2."""
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
            splits = (*splits[:n], splits[n]._replace(stripes=stripes), *splits[n + 1 :])
        moved = replace(
            decision,
            splits=splits,
            in_l3=decision.in_l3 | {name},
            spilled=decision.spilled - {name},
        )
        for n in layers:
            moved = with_split(self.problem, moved, n, moved.splits[n])
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

    def _too_large(self, peak: Peak) -> DoesNotFit:
        live = sorted(peak.live, key=lambda r: (-r.size_bytes, r.id))
        needed = max(self.budget + 1, peak.bytes) if self.peak is None else self.peak
        layer = self.layers[peak.layer].op
        texts = ", ".join(f"{r.id} {r.size_bytes} B" for r in live[:6])
        return DoesNotFit(
            f"layer {layer.index} {layer.kind} '{layer.name}' needs {needed} B of L2 in its "
            f"smallest parts, {self.budget} B are available; {live[0].id} is the largest of what "
            f"is live there: {texts}",
            f"raise --l2 to at least {needed} if the chip has it, or make the layer smaller;"
            f" {for_simulation(2, needed)}",
            needed,
        )
