"""How many bytes of L2 a decision needs at once, without its steps and its timeline.

A change of a decision shows in the layers that it touches and in those next to them: only these
are counted again.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import NamedTuple

from dory_core.plan.blocks import WEIGHTS, align_up, fullest_step, owners
from dory_core.planning.decision import Decision
from dory_core.planning.packing.one_memory import MemoryPlan, plan_memory
from dory_core.planning.problem import Problem
from dory_core.planning.sequence.build import build_sequence
from dory_core.planning.sequence.part_sequence import PartSequence

#: A change shows in as many positions before and after it.
_NEAR = 2


class LayerPeak(NamedTuple):
    """Where most is live while a layer runs.

    The moments before the first part and after the last one of a network belong to the first and
    the last layer.

    Attributes:
        bytes: The bytes that are live.
        part: Number of the part: one before or after those of the layer at the ends.
        program: A sequence that is true in this layer. Its other layers may have been others.
    """

    bytes: int
    part: int
    program: PartSequence


class Counted(NamedTuple):
    """A decision without fused chains, and what it needs.

    Attributes:
        decision: The decision.
        peaks: Those of its layers.
    """

    decision: Decision
    peaks: tuple[LayerPeak, ...]

    @property
    def bytes(self) -> int:
        """The most bytes that are live at once."""
        return max(peak.bytes for peak in self.peaks)


class LiveBytes:
    """Tells of decisions about one problem what is live in L2."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._network = problem.network
        self._chunks = cache(lambda n, split: problem.fetched(n, problem.part(n, split), split))
        self._like_wholes = cache(lambda n, split: problem.fetched(n, problem.tiled[n], split))

    def sequence(self, decision: Decision) -> PartSequence:
        """Return the sequence of a decision.

        Raises:
            DoesNotFit: When a part has no tiles.
        """
        splits = decision.splits
        return build_sequence(self._network, decision, lambda n: self._chunks(n, splits[n]))

    def about(self, decision: Decision, layers: range | None = None) -> PartSequence:
        """Return about the sequence of a decision: parts have the tiles of whole layers.

        In tiles of its own a part may have some bytes more or fewer of constants; to find them
        takes longer than all else.

        Args:
            decision: The decision.
            layers: As for :func:`build_sequence`.
        """
        splits = decision.splits
        return build_sequence(
            self._network, decision, lambda n: self._like_wholes(n, splits[n]), layers
        )

    def counted(self, decision: Decision, before: Counted | None = None) -> Counted:
        """Return about the live bytes of a decision, see :meth:`about`.

        Args:
            decision: The decision.
            before: Another decision; what both need is not counted again.
        """
        if before is None:
            layers = range(len(self._network.layers))
            return Counted(decision, self._peaks(decision, layers))
        layers = self._changed(before.decision, decision)
        found = self._peaks(decision, layers) if layers else ()
        kept = before.peaks
        return Counted(decision, (*kept[: layers.start], *found, *kept[layers.stop :]))

    def packed(self, program: PartSequence, enough: int) -> MemoryPlan:
        """Return the packing of the blocks; any one within ``enough`` bytes will do."""
        return plan_memory(tuple(program.requests.values()), self.problem.alignment, enough)

    def fullest(self, program: PartSequence) -> int:
        """Return the most bytes that are live at once in a sequence of all layers."""
        return fullest_step(owners(tuple(program.requests.values())), self.problem.alignment)[1]

    def _near(self, decision: Decision, layers: range) -> range:
        """Return layers with the ones before and after them in which changes show."""
        first, last, sums = layers.start, layers.stop - 1, [0, 0]
        while first > 0 and sums[0] < _NEAR:
            first -= 1
            sums[0] += len(self._network.parts_of(first, decision.splits[first]))
        while last < len(self._network.layers) - 1 and sums[1] < _NEAR:
            last += 1
            sums[1] += len(self._network.parts_of(last, decision.splits[last]))
        return range(first, last + 1)

    def _changed(self, before: Decision, after: Decision) -> range:
        """Return the layers beyond which two decisions need the same."""
        pairs = zip(before.splits, after.splits, strict=True)
        changed = [n for n, (one, other) in enumerate(pairs) if one != other]
        names = (before.in_l3 ^ after.in_l3) | (before.spilled ^ after.spilled)
        names |= before.resident ^ after.resident
        # Which layers a spilled tensor waits for depends on the positions of all of them.
        alive = {name for n in changed for name in self._network.alive[n]} & after.spilled
        names |= {name for name in alive if self._waits(before, name) != self._waits(after, name)}
        changed += [n for name in names for n in self._network.layers_of(name)]
        if not changed:
            return range(0)
        return self._near(after, range(min(changed), max(changed) + 1))

    def _waits(self, decision: Decision, name: str) -> int:
        """Return the first layer that needs a spilled tensor after it has waited; -1 for none."""
        gap = self._network.gap(decision, name)
        return -1 if gap is None else gap[1]

    def _peaks(self, decision: Decision, layers: range) -> tuple[LayerPeak, ...]:
        """Return where most is live in each of some layers."""
        program = self.about(decision, self._near(decision, layers))
        ends = layers.start == 0, layers.stop == len(self._network.layers)
        start = program.first[layers.start] - ends[0]
        end = program.last[layers.stop - 1] + ends[1]
        change, unit = [0] * (end - start + 2), self.problem.alignment
        for one in owners(tuple(program.requests.values())):
            if one.first <= end and one.last >= start:
                size = align_up(one.size_bytes, unit)
                change[max(one.first, start) - start] += size
                change[min(one.last, end) + 1 - start] -= size
        live, found = list(accumulate(change)), list[LayerPeak]()
        for n in layers:
            first = program.first[n] - (n == 0)
            last = program.last[n] + (n == len(self._network.layers) - 1)
            here = live[first - start : last + 1 - start]
            most = max(here)
            found.append(LayerPeak(most, here.index(most) + first - program.first[n], program))
        return tuple(found)


class Peak:
    """What is live where a decision needs most.

    Attributes:
        layer: The layer that runs then.
        part: The number of its part, as in :class:`LayerPeak`.
        program: A sequence that is true in this layer.
        bytes: The bytes that are live.
        live, chunks: The blocks, and those of constants among them.
    """

    def __init__(self, counted: Counted) -> None:
        self.bytes = counted.bytes
        self.layer = next(n for n, one in enumerate(counted.peaks) if one.bytes == self.bytes)
        _, self.part, self.program = counted.peaks[self.layer]
        position = self.program.first[self.layer] + self.part
        requests = self.program.requests.values()
        self.live = [r for r in requests if r.first <= position <= r.last and not r.within]
        self.chunks = [r for r in self.live if r.role == WEIGHTS]
