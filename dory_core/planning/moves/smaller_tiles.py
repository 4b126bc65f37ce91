"""Smaller tiles that leave room in L1 for weight prefetch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from dory_core.plan.blocks import align_up
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.moves import weight_prefetch
from dory_core.planning.moves.weight_prefetch import (
    Found,
    cheapest_path,
    there_in_time,
    with_prefetches,
)
from dory_core.planning.prefetch_layers import PrefetchLayer, buffer_bytes
from dory_core.planning.problem import Problem
from dory_core.schedule.costs import first_weights
from dory_core.tiling.tiled import TiledLayer

#: A wait for constants is long when it takes more than this fraction of all cycles.
_LONG_WAIT = 100
#: Sizes of L1 within which smaller tiles of a layer are looked for.
_TRIES = 3


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with smaller tiles where weight prefetch gains more by them."""
    if weight_prefetch.NAME in problem.switched_off:
        return
    there = there_in_time(candidate)
    decision = with_prefetches(problem, candidate.decision, there, partial(_search, problem))
    if decision.residency is not None and decision.residency.tiled != candidate.residency.tiled:
        yield decision


def _search(
    problem: Problem, layers: list[PrefetchLayer]
) -> tuple[int, list[PrefetchLayer], list[Found]]:
    """Return the best weight prefetch of layers, in smaller tiles where all are faster by it.

    Only layers are tried beside which a load found no room: that for the next layer, or their own.
    Layers in one tile are tried when they wait long for their own.
    """
    cycles, best = cheapest_path(layers)
    for k in range(len(layers)):
        following = layers[k + 1] if k + 1 < len(layers) else None
        after = following is not None and following.can_be_loaded and best[k].load is None
        own = k > 0 and layers[k].can_be_loaded and best[k - 1].load is None
        if layers[k].tiled.schedule.count == 1:
            own = own and _first_cycles(layers[k]) * _LONG_WAIT > cycles
            after = False
        if not (after or own):
            continue
        for one in _smaller(problem, layers[k], following):
            others = [*layers[:k], one, *layers[k + 1 :]]
            less, found = cheapest_path(others)
            if less < cycles:
                cycles, best, layers = less, found, others
    return cycles, layers, best


def _smaller(
    problem: Problem, layer: PrefetchLayer, following: PrefetchLayer | None
) -> Iterator[PrefetchLayer]:
    """Yield a layer in smaller tiles whose constants take no more bytes.

    First within what the first constants of the following layer leave of L1, then within less.
    """
    first = layer if following is None or not following.can_be_loaded else following
    taken = sum(layer.kept[name] for name in layer.stay.beside)
    room = layer.room - taken - align_up(first.first_bytes, layer.unit)
    if layer.tiled.schedule.count == 1:
        room = min(room, layer.tiled.l1_bytes - 1)
    for _ in range(_TRIES):
        tiled = problem.tiling.smaller(layer.tiled, room)
        if tiled is None:
            return
        room = tiled.l1_bytes - 1
        one = _with_tiles(layer, tiled)
        if one is not None and _constants_bytes(one) <= _constants_bytes(layer):
            yield one


def _first_cycles(layer: PrefetchLayer) -> float:
    """Return the cycles of loading the first block of constants of a layer that has some."""
    return first_weights(layer.costs, layer.tiled.schedule).cycles


def _constants_bytes(layer: PrefetchLayer) -> int:
    """Return the bytes of all blocks of constants."""
    schedule, moves = layer.tiled.schedule, layer.costs.moves
    return sum(moves.weights(a.size, b.size).bytes for a in schedule.c_out for b in schedule.c_in)


def _with_tiles(layer: PrefetchLayer, tiled: TiledLayer) -> PrefetchLayer | None:
    """Return a layer with other tiles; None where its resident tensors do not allow them."""
    schedule, stay = tiled.schedule, layer.stay
    whole_input = schedule.counts[1:] == (1, 1, 1) and not layer.tiled.schedule.is_channelwise
    if stay.leaves or (stay.found and not whole_input):
        return None
    if stay.found:
        once = replace(schedule.buffering, x=1)
        tiled = replace(tiled, schedule=replace(schedule, buffering=once))
    if stay.offsets:
        sizes = buffer_bytes(tiled, layer.unit)
        stay = replace(stay, offsets={b: stay.offsets.get(b, 0) for b in sizes})
        offsets = PrefetchLayer(layer.n, tiled, stay, *layer.others).placed(None, None)
        if offsets is None:
            return None
        stay = replace(stay, offsets=offsets)
    return PrefetchLayer(layer.n, tiled, stay, *layer.others)
