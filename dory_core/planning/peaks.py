"""How many bytes of L2 each layer of a streamed network needs at most, and what is live then.

A change of a decision shows in the layers that it touches and in those next to them: only these
are counted again.
"""

from __future__ import annotations

from itertools import accumulate, compress
from operator import is_not

from dory_core.plan.blocks import WEIGHTS
from dory_core.planning.decision import Decision
from dory_core.planning.part_sequence import PartSequence
from dory_core.planning.problem import Problem
from dory_core.planning.sequence import build_sequence

# A change shows in this many positions before and after it.
_NEAR = 2


class LiveBytes:
    """Counts live bytes of L2 of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.network = problem.network
        self.layers = problem.network.layers
        self.alignment = problem.alignment
        self.chunks = problem.chunks()

    def build(
        self, decision: Decision, layers: range | None = None, tiles: Decision | None = None
    ) -> PartSequence:
        """Return the sequence of a decision.

        Args:
            decision: The decision.
            layers: The layers whose needs are wanted; None for all.
            tiles: Another decision, with the tiles of the layers; None: the same one.
        """
        splits = (tiles or decision).splits
        return build_sequence(
            self.network, decision, lambda n: self.chunks(n, splits[n], decision.splits[n]), layers
        )

    def _near(self, decision: Decision, first: int, last: int) -> range:
        """Return the layers with the ones before and after them in which changes show."""
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
        changed = _differing(before.splits, after.splits)
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
        peaks: Peaks,
        decision: Decision,
        layers: range,
        tiles: Decision | None = None,
    ) -> None:
        """Find again where in each of some layers most is live.

        The moments before the first part and after the last one belong to
        the first and the last layer.

        Args:
            peaks: What is written.
            decision: The decision.
            layers: The layers.
            tiles: As for :meth:`build`.
        """
        if not layers:
            return
        program = self.build(decision, self._near(decision, layers[0], layers[-1]), tiles)
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

    def trials(self, decision: Decision, limit: int) -> Trials:
        """Return the trials of whether decisions fit ``limit`` bytes.

        Each is compared with the last one that did.
        """
        return Trials(self, decision, limit)


def _differing(before: tuple[object, ...], after: tuple[object, ...]) -> list[int]:
    """Return the positions of different objects."""
    return list(compress(range(len(after)), map(is_not, before, after)))


def _others(before: frozenset[str], after: frozenset[str]) -> frozenset[str]:
    """Return the names that are in only one of two sets; at once for the same set."""
    return before ^ after if before is not after else frozenset()


class Peaks:
    """The most bytes that each layer needs at once, and at which of its parts first.

    The sequence that tells so is true in that layer, at positions of the time when it was made.
    """

    def __init__(self, layers: int) -> None:
        self.bytes = [0] * layers
        self.part = [0] * layers
        self.program = [PartSequence()] * layers


class Peak:
    """What is live where a layer needs most.

    The number of the part is that in the layer; one before or after it at the ends of the network.
    """

    def __init__(self, peaks: Peaks, layer: int) -> None:
        self.layer, self.part, self.program = layer, peaks.part[layer], peaks.program[layer]
        position = self.program.first[layer] + self.part
        requests = self.program.requests.values()
        self.live = [r for r in requests if r.first <= position <= r.last and not r.within]
        self.chunks = [r for r in self.live if r.role == WEIGHTS]


class Trials:
    """Whether decisions fit, each compared with the last one that did."""

    def __init__(self, live: LiveBytes, decision: Decision, limit: int) -> None:
        self._live = live
        self._tiles = self._fitting = decision
        self._limit = limit
        self._peaks = Peaks(len(live.layers))
        live.update(self._peaks, decision, range(len(live.layers)), decision)
        self._over = {n for n, most in enumerate(self._peaks.bytes) if most > limit}

    def __call__(self, decision: Decision) -> bool:
        """Return True when a decision fits; the next one is compared with it then."""
        layers = self._live.changed(self._fitting, decision)
        if not self._over <= set(layers):
            return False
        here = slice(layers.start, layers.stop)
        before = self._peaks.bytes[here]
        self._live.update(self._peaks, decision, layers, self._tiles)
        if max(self._peaks.bytes[here], default=0) > self._limit:
            self._peaks.bytes[here] = before
            return False
        self._fitting, self._over = decision, set()
        return True
