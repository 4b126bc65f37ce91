"""Cutting layers into parts, and bringing tensors back into L2: steps that several moves take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2

from dory_core.hardware.links import Link
from dory_core.ir.geometry import is_channelwise
from dory_core.planning.decision import Decision
from dory_core.planning.problem import Problem
from dory_core.planning.sequence.network_parts import NetworkParts
from dory_core.tiling.outer import Split


@dataclass(frozen=True, slots=True)
class ChunkBytes:
    """Bounds of the bytes of constants that are fetched at once.

    Attributes:
        small: Constants are not cut into smaller chunks while anything else helps: setting up a
            transfer of this size costs about an eighth of it.
        large: A larger chunk gains nothing: setting it up costs less than a hundredth of it, and
            half of it finds a place in L2 earlier.
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


def least_groups(problem: Problem, large: int, most: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the fewest groups of each layer with which no chunk has more than ``large`` bytes.

    Args:
        problem: The network.
        large: Bytes of home above which a layer is cut.
        most: The most groups of each layer; empty: those of :func:`groups_of_all`.
    """
    pairs = zip(problem.constants, most or groups_of_all(problem), strict=True)
    return tuple(max(1, min(groups, -(-size // large))) for size, groups in pairs)


def groups_of_all(problem: Problem) -> tuple[int, ...]:
    """Return the most groups of each layer whose groups read all of the input.

    Layers that keep channels apart have one: their groups move slices of pixels.
    """
    pairs = zip(problem.network.layers, problem.network.cuts, strict=True)
    return tuple(1 if is_channelwise(layer) else cuts.groups for layer, cuts in pairs)


def with_split(problem: Problem, decision: Decision, n: int, split: Split) -> Decision:
    """Return the decision with another split of a layer, and the better outer loop for it.

    Its output is not to be resident any more, nor are inputs of which its parts read a piece.

    Args:
        problem: The network.
        decision: The decision.
        n: Number of the layer.
        split: Its new split; the outer loop is chosen.
    """
    split = split._replace(stripes_outer=_stripes_outer(problem, decision, n, split))
    flow = problem.network.flow
    in_pieces = split.stripes > 1 or is_channelwise(problem.network.layers[n])
    moved = (flow.writes[n], *(flow.reads[n] if in_pieces else ()))
    return replace(decision.with_split(n, split), in_l1=decision.in_l1.difference(moved))


def _stripes_outer(problem: Problem, decision: Decision, n: int, split: Split) -> bool:
    flow = problem.network.flow
    if flow.writes[n] in decision.in_l3 or split.stripes == 1 or split.groups == 1:
        return True  # a stripe of the output in L3 is completed before the next one
    # The output stays in L2, so either loop may be the outer one: fetch fewer bytes twice.
    reads = flow.reads[n]
    inputs = sum(flow.forms[name].size_bytes for name in reads if name in decision.in_l3)
    return problem.constants[n] * (split.stripes - 1) <= inputs * (split.groups - 1)


def moved_groups(network: NetworkParts, decision: Decision) -> Iterator[tuple[str, ...]]:
    """Yield what may come back to L2, the largest first; network inputs (outputs) together.

    A tensor that one layer of a fused chain makes for another one is never whole when it is read.
    """
    flow = network.flow
    names = {
        name
        for name in decision.in_l3 | decision.spilled
        if not _is_made_meanwhile(network, decision, name)
    }
    groups = [
        tuple(name for name in group if name in names) for group in (flow.inputs, flow.outputs)
    ]
    together = {name for group in groups for name in group}
    groups += [(name,) for name in sorted(names - together)]
    sizes = {group: sum(flow.forms[name].size_bytes for name in group) for group in groups}
    yield from sorted((g for g in groups if g), key=lambda g: (-sizes[g], g))


def _is_made_meanwhile(network: NetworkParts, decision: Decision, name: str) -> bool:
    """Return True when a tensor has maker and reader in one fused chain."""
    splits, maker = decision.splits, network.makers[name]
    if maker < 0 or splits[maker].chain == 1:
        return False
    begin = maker - splits[maker].place
    readers = [n for n in network.readers[name] if splits[n].chain > 1]
    return any(n - splits[n].place == begin for n in readers)


def with_in_l2(problem: Problem, decision: Decision, names: tuple[str, ...]) -> Decision:
    """Return the decision with tensors in L2 as a whole."""
    network = problem.network
    back = replace(
        decision, in_l3=decision.in_l3 - set(names), spilled=decision.spilled - set(names)
    )
    makers = {network.makers[name] for name in names} - {-1}
    for n in sorted(makers | {n for name in names for n in network.readers[name]}):
        split = back.splits[n]
        if split.takes_turns:
            continue  # in stripes for the other layers of the chain
        if not touches_l3(network, back, n):
            split = split._replace(stripes=1)
        back = with_split(problem, back, n, split)
    return back


def touches_l3(network: NetworkParts, decision: Decision, n: int) -> bool:
    """Return True when a layer reads or writes a tensor in L3."""
    flow = network.flow
    return not decision.in_l3.isdisjoint({*flow.reads[n], flow.writes[n]})
