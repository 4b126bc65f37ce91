"""Kernel, tile, buffering and loop order of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dory_core.errors import DoesNotFit, NotSupported
from dory_core.expr import ceil_div
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Array, Layer, Requant
from dory_core.ir.geometry import Tile, is_channelwise
from dory_core.kernels.binding import BoundLayer, KernelRejection
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.kernel import Kernel, Term
from dory_core.schedule.boxes import fetch_constraints
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import Buffering, Schedule, l1_buffers
from dory_core.schedule.tiling import Tiling
from dory_core.tiling.aligned import copy_terms
from dory_core.tiling.enumeration import whole_size
from dory_core.tiling.in_place import whole_layer
from dory_core.tiling.latency import fastest, promising
from dory_core.tiling.problem import (
    Formulation,
    TilingProblem,
    formulate,
    make_tiling,
)
from dory_core.tiling.solve import does_not_fit, proof, solve
from dory_core.tiling.tiled import TiledLayer
from dory_core.tiling.variants import Variant, bufferings, cheapest, fits, is_legal

# Objective terms for a layer, kernel and tile; the tile's sizes are expressions.
TermsHook = Callable[[Layer, Kernel, Tile], Sequence[Term]]

OBJECTIVES = ("heuristic", "latency")

#: Cycles that a byte of constants counts as: kernels pad the constants of every tile, and a network
#: has room for few more bytes. The latency objective counts no bytes.
_BYTE_CYCLES = 1.5

#: Timelines of likely fast tiles that are compared with those of the best tiles by the objective.
_WALKS = 16

#: Most tiles of whole rows of a layer whose tensors are resident.
_MOST_PARTS = 8

#: Tiles of a layer from which the best one by the objective is taken: a timeline is a walk over all
#: of them. Networks of the collection have at most 256 in a third of L1.
_MANY_TILES = 1000

#: ``Tiling.proof`` of a layer that is faster in other tiles than in the best by the objective.
LIKELY = "fewer estimated cycles than the tile with the highest objective"

#: ``Tiling.proof`` of a layer whose tiles are not the best for the layer by itself.
WHOLE_INPUT = (
    "tiles of the whole input, which stays in L1: fewer estimated cycles of the layers together"
)
IN_ONE_TILE = "one tile, so that tensors stay in L1: fewer estimated cycles of the layers together"
IN_ROWS = "tiles of whole rows of tensors in L1: fewer estimated cycles of the layers together"
SMALLER = "tiles within fewer bytes of L1: fewer estimated cycles of the layers together"


class Tiler:
    """Tiles layers for one target; equal problems are solved once."""

    def __init__(
        self,
        hierarchy: MemoryHierarchy,
        terms_hook: TermsHook,
        objective: str = "heuristic",
    ) -> None:
        """Tile layers for a target.

        Args:
            hierarchy: Its memories and links.
            terms_hook: Its objective terms.
            objective: ``heuristic`` maximises the terms for every buffering, and keeps of these
                tiles and of likely fast ones that with the fewest estimated cycles; ``latency``
                minimises estimated cycles over all kernels and tiles.
        """
        if objective not in OBJECTIVES:
            raise ValueError(f"objective {objective!r} is none of {OBJECTIVES}")
        self._hierarchy = hierarchy
        self._terms_hook = terms_hook
        self._objective = objective
        self._memo: dict[tuple[Any, ...], tuple[Variant, Tiling]] = {}
        #: Finds tiles of few cycles in less time, this tiler itself where none does.
        self.quick = self
        if objective != OBJECTIVES[0]:
            self.quick = Tiler(hierarchy, terms_hook)

    def tile(self, bound: BoundLayer, budget_bytes: int, tiles_before: int = 0) -> TiledLayer:
        """Return the layer on the first kernel that has a tile in the budget.

        With the latency objective it is the kernel with the fewest estimated cycles.

        Args:
            bound: The layer, or a part of one, with its kernels.
            budget_bytes: The budget of L1.
            tiles_before: Tiles at least that other parts of it run right before.

        Raises:
            NotSupported: Every kernel rejects the layer.
            DoesNotFit: No tile fits; the message is about the kernel that needs the least memory.
        """
        if not bound.kernels:
            raise bound.not_supported()
        rejections = list(bound.rejections)
        failures: list[DoesNotFit] = []  # those that more memory would help
        best: TiledLayer | None = None
        for candidate in bound.kernels:
            rival = best.estimate.cycles if best is not None else None
            try:
                found = self._on(bound.layer, candidate, budget_bytes, rival, tiles_before)
            except (NotSupported, DoesNotFit) as error:
                rejections.append(KernelRejection.of(candidate.kernel, error.message))
                failures += [error] if isinstance(error, DoesNotFit) else []
                continue
            if best is None or found.estimate.cycles < best.estimate.cycles:
                if best is not None:
                    rejections.append(_slower(best, found))
                best = found
            else:
                rejections.append(_slower(found, best))
            if self._objective == "heuristic":
                break
        if best is None and failures:
            raise min(failures, key=_needed_bytes)
        if best is None:
            raise replace(bound, rejections=bound.sorted(rejections)).not_supported()
        return best.explained(bound, rejections)

    def in_one_tile(self, tiled: TiledLayer, budget_bytes: int) -> TiledLayer | None:
        """Return a layer of several tiles in one tile on the same kernel.

        None when it does not fit, or the constraints of the kernel exclude it.
        """
        if tiled.schedule.count == 1:
            return None
        layer, bound = tiled.layer, tiled.bound
        formulation = self._formulation(layer, bound)
        values = {variable.name: variable.bounds[1] for variable in formulation.variables}
        problem = TilingProblem(formulation, budget_bytes)
        if not is_legal(formulation, values) or not fits(problem, values):
            return None
        only = cheapest(formulation, [(problem.buffering, values)], tiled.costs)
        assert only is not None  # it is the cheapest of one
        return _in_tiles(tiled, problem, only, IN_ONE_TILE)

    def with_whole_input(self, tiled: TiledLayer, budget_bytes: int) -> TiledLayer | None:
        """Return a tiled layer in the likely best tiles that read its whole input.

        None when its own do so, when only one tile would, or when none fits.
        """
        layer, bound = tiled.layer, tiled.bound
        if is_channelwise(layer) or tiled.schedule.counts[1:] == (1, 1, 1):
            return None
        whole = self._formulation(layer, bound)
        variables = (v if v.name == "c_out" else whole_size(v) for v in whole.variables)
        only = replace(whole, variables=tuple(variables))
        best = cheapest(only, promising(only, budget_bytes, tiled.costs, _WALKS), tiled.costs)
        if best is None or best.schedule.count == 1:
            return None
        problem = TilingProblem(whole, budget_bytes, best.buffering)
        return _in_tiles(tiled, problem, best, WHOLE_INPUT)

    def in_rows(self, tiled: TiledLayer, budget_bytes: int) -> tuple[TiledLayer, ...]:
        """Return a layer in tiles of whole rows, which may be parts of resident tensors.

        They are the fastest ones with the output in L1, with the input there, and with both.
        """
        layer, bound = tiled.layer, tiled.bound
        if len(layer.inputs) != 1 or layer.op.reads_vector:
            return ()
        whole = self._formulation(layer, bound)
        most, found = 2 if whole.double_buffers else 1, list[TiledLayer]()
        for resident in ({"y"}, {"x"}, {"x", "y"}):
            copies = Buffering(x=1 if "x" in resident else most, y=1 if "y" in resident else most)
            fitting = []
            for values in filter(partial(is_legal, whole), _row_tiles(whole)):
                sizes = l1_buffers(layer, bound, whole.concrete(values), copies, resident)
                if sum(int(one.total) for one in sizes) <= budget_bytes:
                    fitting.append((copies, values))
            best = cheapest(whole, fitting, tiled.costs, resident=resident)
            if best is not None:
                problem = TilingProblem(whole, budget_bytes, copies)
                found.append(_in_tiles(tiled, problem, best, IN_ROWS))
        return tuple(found)

    def smaller(self, tiled: TiledLayer, budget_bytes: int) -> TiledLayer | None:
        """Return a tiled layer in the best tiles within fewer bytes of L1, on the same kernel.

        None when nothing fits.
        """
        try:
            found = self._on(tiled.layer, tiled.bound, budget_bytes, None)
        except (NotSupported, DoesNotFit):
            return None
        tiling = replace(found.tiling, proof=SMALLER)
        return replace(tiled, tiling=tiling, schedule=found.schedule, estimate=found.estimate)

    def _on(
        self,
        layer: Layer,
        candidate: BoundKernel,
        budget_bytes: int,
        rival: int | None,
        tiles_before: int = 0,
    ) -> TiledLayer:
        """Return the layer on one kernel; raises NotSupported or DoesNotFit."""
        if self._hierarchy.in_place or candidate.traits.in_place:
            return whole_layer(layer, candidate, budget_bytes, self._hierarchy)
        # Names are unique within a target, and hooks may make new objects for every layer.
        names = (type(candidate.kernel), candidate.kernel.name, candidate.symbol)
        memory = candidate.far_constants
        sizes = (budget_bytes, rival, signature(layer), signature(candidate.layer))
        key = (*names, memory, *sizes, tiles_before)
        costs = LayerCosts.of(layer, candidate, self._hierarchy).after(tiles_before)
        if key not in self._memo:
            self._memo[key] = self._solve(costs, budget_bytes, rival)
        best, tiling = self._memo[key]
        return TiledLayer(layer, candidate, tiling, best.schedule, best.estimate, costs)

    def _solve(
        self, costs: LayerCosts, budget_bytes: int, rival: int | None
    ) -> tuple[Variant, Tiling]:
        whole = self._formulation(costs.layer, costs.bound)
        solved = solve(whole, budget_bytes, bufferings(whole))
        if not solved:
            raise does_not_fit(TilingProblem(whole, budget_bytes))
        by_bytes = _BYTE_CYCLES if self._objective == "heuristic" else 0.0
        best = cheapest(whole, solved.items(), costs, byte_cycles=by_bytes)
        assert best is not None  # every solved buffering has a schedule
        proven = proof(whole)
        if self._objective == "latency":
            best, proven = fastest(whole, budget_bytes, costs, best, rival)
        elif self._may_be_split(costs.layer, best.schedule):
            likely = promising(whole, budget_bytes, costs, _WALKS)
            faster = cheapest(whole, likely, costs, best, byte_cycles=by_bytes) or best
            proven = proven if faster is best else LIKELY
            best = faster
        problem = TilingProblem(whole, budget_bytes, best.buffering)
        return best, make_tiling(problem, best.values, proven)

    def _may_be_split(self, layer: Layer, schedule: Schedule) -> bool:
        """Return True when likely faster tiles than the best by the objective are looked for.

        Several tiles are also tried where one is the best by the objective: their loads and stores
        overlap with work. Fully connected layers wait for constants, which others load: by
        themselves they say little.
        """
        return schedule.count < _MANY_TILES and not layer.op.reads_vector

    def _formulation(self, layer: Layer, bound: BoundKernel) -> Formulation:
        link = self._hierarchy.link(1)

        def terms(tile: Tile) -> tuple[Term, ...]:
            own = bound.terms(layer, tile)  # first: hooks rely on kernels that answer
            target = self._terms_hook(layer, bound.kernel, tile)
            return (*target, *own, *copy_terms(layer, bound.traits, tile, link))

        return formulate(
            layer,
            bound,
            terms,
            lambda tile: fetch_constraints(layer, bound, tile, self._hierarchy),
            double_buffers=not link.blocking,  # where the cores wait, a second copy gains nothing
        )


def _row_tiles(formulation: Formulation) -> Iterator[dict[str, int]]:
    """Yield the sizes of tiles that split the rows of a layer in 2 to :data:`_MOST_PARTS` parts."""
    values = {variable.name: variable.bounds[1] for variable in formulation.variables}
    rows = next((v for v in formulation.variables if v.name == "h"), None)
    if rows is not None:
        parts = range(2, _MOST_PARTS + 1)
        for size in dict.fromkeys(ceil_div(rows.bounds[1], n) for n in parts):
            if size in rows.domain and size < rows.bounds[1]:
                yield {**values, "h": size}


def _in_tiles(tiled: TiledLayer, problem: TilingProblem, one: Variant, proof: str) -> TiledLayer:
    """Return a tiled layer in other tiles.

    Args:
        tiled: The layer.
        problem: The problem of the tiles, with their buffering.
        one: The tiles.
        proof: What is said about them.
    """
    tiling = make_tiling(problem, one.values, proof)
    return replace(tiled, tiling=tiling, schedule=one.schedule, estimate=one.estimate)


def _slower(one: TiledLayer, other: TiledLayer) -> KernelRejection:
    reason = f"{one.estimate.cycles} estimated cycles, {other.kernel.name} needs less"
    return KernelRejection.of(one.kernel, reason)


def _needed_bytes(failure: DoesNotFit) -> float:
    return float("inf") if failure.needed_bytes is None else failure.needed_bytes


def signature(layer: Layer) -> tuple[Any, ...]:
    """Return everything that the tiling of a layer depends on: not its names and values.

    Of weights and biases the shape counts, of multipliers and ranges the number of bits.
    """
    kind = layer.op
    fields = (
        _shape_of(getattr(kind, name))
        for name in type(kind).__dataclass_fields__
        if name not in ("index", "name", "inputs", "output")
    )
    tensors = ((t.shape, t.type_name, t.lo, t.hi) for t in (*layer.inputs, layer.output))
    ranges = layer.ranges
    bits = (ranges.acc_lo, ranges.acc_hi, ranges.value_lo, ranges.value_hi)
    return (
        type(kind).__name__,
        *fields,
        *tensors,
        ranges.bits,
        *((b < 0, b.bit_length()) for b in bits),
    )


def _shape_of(value: Any) -> Any:
    if isinstance(value, Array):
        return value.shape
    if isinstance(value, tuple):
        return tuple(_shape_of(v) for v in value)
    if isinstance(value, Requant):
        return (
            (len(value.mul), min(value.mul) < 0, max(abs(m) for m in value.mul).bit_length()),
            (len(value.add), min(value.add) < 0, max(abs(a) for a in value.add).bit_length()),
            (value.div, value.lo, value.hi, value.float32),
        )
    return value
