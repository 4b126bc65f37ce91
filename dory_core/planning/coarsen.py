"""Undo unnecessary splits and spills of the cascade.

The cascade relieves one position at a time and never looks back: a step may cut a layer into
stripes of one row where a later step makes room for larger ones. Here every tensor that left L2 is
tried in L2 again, the largest first, then every layer with fewer stripes and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dory_core.planning.sequence import Decision, Sequencer
from dory_core.tiling.outer import Split

# Whether a decision fits.
Fits = Callable[[Decision], bool]
# The decision with another split of a layer.
WithSplit = Callable[[Decision, int, Split], Decision]


def coarsen(
    network: Sequencer,
    decision: Decision,
    fits: Fits,
    with_split: WithSplit,
    least_groups: Sequence[int],
) -> Decision:
    """Return a decision that moves no more than ``decision``, which fits.

    least_groups: of each layer, fewer are not tried.
    """
    for names in moved_groups(network, decision):
        trial = with_in_l2(network, decision, names, with_split)
        if fits(trial):
            decision = trial
    layers = range(len(network.layers))
    for n in sorted(layers, key=lambda n: (-decision.splits[n].stripes, n)):
        decision = _fewest(
            decision, n, "stripes", _least_stripes(network, decision, n), fits, with_split
        )
    for n in sorted(layers, key=lambda n: (-decision.splits[n].groups, n)):
        decision = _fewest(decision, n, "groups", least_groups[n], fits, with_split)
    return decision


def moved_groups(network: Sequencer, decision: Decision) -> Iterator[tuple[str, ...]]:
    """Yield what may come back to L2, the largest first; network inputs (outputs) together."""
    flow = network.flow
    names = decision.in_l3 | decision.spilled
    groups = [
        tuple(name for name in group if name in names) for group in (flow.inputs, flow.outputs)
    ]
    together = {name for group in groups for name in group}
    groups += [(name,) for name in sorted(names - together)]
    sizes = {group: sum(flow.forms[name].size_bytes for name in group) for group in groups}
    yield from sorted((g for g in groups if g), key=lambda g: (-sizes[g], g))


def with_in_l2(
    network: Sequencer, decision: Decision, names: tuple[str, ...], with_split: WithSplit
) -> Decision:
    """Return the decision with tensors in L2 as a whole."""
    back = replace(
        decision, in_l3=decision.in_l3 - set(names), spilled=decision.spilled - set(names)
    )
    makers = {network.makers[name] for name in names} - {-1}
    for n in sorted(makers | {n for name in names for n in network.readers[name]}):
        split = back.splits[n]
        if split.chain > 1:
            continue  # in stripes for the layer next to it
        if not _touches_l3(network, back, n):
            split = split._replace(stripes=1)
        back = with_split(back, n, split)
    return back


def _touches_l3(network: Sequencer, decision: Decision, n: int) -> bool:
    flow = network.flow
    return not decision.in_l3.isdisjoint({*flow.reads[n], flow.writes[n]})


def _least_stripes(network: Sequencer, decision: Decision, n: int) -> int:
    """Return from how many stripes on the loads and stores of a layer overlap with its work."""
    return 2 if _touches_l3(network, decision, n) else 1


def _fewest(
    decision: Decision, n: int, axis: str, least: int, fits: Fits, with_split: WithSplit
) -> Decision:
    """Return the decision with the fewest stripes (groups) of a layer that fit, by bisection."""
    split = decision.splits[n]
    low, high = least, getattr(split, axis)
    while low < high:
        middle = (low + high) // 2
        trial = with_split(decision, n, split._replace(**{axis: middle}))
        if fits(trial):
            high, decision = middle, trial
        else:
            low = middle + 1
    return decision
