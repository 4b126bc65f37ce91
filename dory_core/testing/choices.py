"""The kernels of a target that are chosen for layers, and why others never are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dory_core.driver.pipeline import BOUND, IMPORTED, TILED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.ir import Graph
from dory_core.ir.ranges import infer_types
from dory_core.kernels.binding import BoundGraph, BoundLayer
from dory_core.plugins.manager import Plugins
from dory_core.testing.cases import Case
from dory_core.testing.draws import Draws, kernels_of_target, names_of
from dory_core.tiling.network import TiledGraph

__all__ = ["Choice", "Choices", "choices_of"]

_LEAST_L1 = 1024  # bytes; few kernels have tiles that fit less
_OFFERED = 4  # cases that are tiled first for each kernel, with each budget
_DRAWN = 6  # layers that are drawn for a kernel that no case chose
_SHOWN = 3  # layers that are named for each reason


@dataclass(frozen=True, slots=True)
class Choice:
    """A network in which a kernel was chosen.

    Attributes:
        graph: The network.
        l1_bytes: Budget of L1.
        drawn: True for a random network, False for a case.
    """

    graph: Graph
    l1_bytes: int
    drawn: bool


@dataclass(slots=True)
class Choices:
    """The kernels of a target that were chosen, and the reasons for the others.

    Attributes:
        chosen: The choice of each kernel by its name, in the order of preference.
        reasons: For each kernel that was never chosen, reasons with the layers that they concern.
    """

    chosen: dict[str, Choice] = field(default_factory=dict)
    reasons: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def text(self, names: Iterable[str]) -> str:
        """Return why kernels were never chosen, a line for each reason, the commonest first."""
        lines = []
        for name in names:
            lines.append(f"{name}:")
            known = sorted(self.reasons.get(name, {}).items(), key=lambda pair: -len(pair[1]))
            for reason, layers in known:
                some = ", ".join(dict.fromkeys(layers[:_SHOWN]))
                more = ", ..." if len(layers) > _SHOWN else ""
                lines.append(f"  {len(layers)} x {reason} ({some}{more})")
            if not known:
                lines.append("  every layer that it was offered is of another kind")
        return "\n".join(lines)


def choices_of(
    plugins: Plugins,
    target: str,
    settings: Iterable[tuple[str, str]],
    l1_budgets: Sequence[int],
    cases: Sequence[Case],
) -> tuple[tuple[str, ...], Choices]:
    """Return the choices of a target's own kernels.

    The layers of the cases are tiled with each budget of L1 and with halves of the last one. For a
    kernel that is not chosen, random layers that it accepts follow.
    """
    candidates = kernels_of_target(target, settings, plugins)
    names = names_of(candidates)
    search = _Search(plugins, target, dict(settings), names)
    budgets = (*l1_budgets, *_halves(min(l1_budgets)))
    offered = [one for case in cases for one in search.bound(str(case), case.build())]
    for name in names:
        # A kernel with few preferred kernels before it is most likely chosen.
        mine = sorted(
            (one for one in offered if name in one.ranks), key=lambda one: one.ranks[name]
        )
        for some in (mine[:_OFFERED], mine):
            for l1_bytes in budgets:
                for one in some:
                    search.tile(name, one, l1_bytes)
    for name in names:
        if name not in search.found.chosen:
            for graph in _drawn(Draws(candidates, name)):
                drawn = _Offered(f"drawn for {name}", graph, {name: 0}, drawn=True)
                for l1_bytes in budgets:
                    search.tile(name, drawn, l1_bytes)
    return names, search.found


def _halves(l1_bytes: int) -> Iterator[int]:
    while l1_bytes // 2 >= _LEAST_L1:
        l1_bytes //= 2
        yield l1_bytes


def _drawn(draws: Draws) -> Iterator[Graph]:
    """Yield networks of one layer that a kernel accepts."""
    if draws.recipes or draws.makers or draws.fixed:
        for layer in draws.layers(0, _DRAWN, np.random.default_rng(0)):
            op = layer.op
            yield infer_types("drawn", layer.inputs, (op,), (op.output,))


@dataclass(frozen=True, slots=True)
class _Offered:
    """A network that is offered to kernels.

    ranks: number of accepting kernels before each accepting kernel.
    """

    title: str
    graph: Graph
    ranks: dict[str, int]
    drawn: bool = False


@dataclass(slots=True)
class _Search:
    """Search that offers layers until every kernel was chosen; ``names`` are the kernels."""

    plugins: Plugins
    target: str
    settings: dict[str, str]
    names: tuple[str, ...]
    found: Choices = field(default_factory=Choices)
    tiled: set[tuple[str, int]] = field(default_factory=set)

    def bound(self, title: str, graph: Graph) -> Iterator[_Offered]:
        """Yield a network with the kernels that accept its layers; note the rejections."""
        setup = setup_for(self.plugins, self.target, self.settings)
        try:
            bound: BoundGraph = run(graph, setup, after=IMPORTED, until=BOUND)
        except (NotSupported, DoesNotFit):
            return
        ranks: dict[str, int] = {}
        for layer in bound.layers:
            for rejection in layer.rejections:
                if not rejection.other_kind:
                    self._note(rejection.kernel, rejection.reason, title)
            for rank, one in enumerate(layer.kernels):
                ranks[one.kernel.name] = min(rank, ranks.get(one.kernel.name, rank))
        yield _Offered(title, graph, ranks)

    def tile(self, name: str, offered: _Offered, l1_bytes: int) -> None:
        """Tile a network and note the kernels that are chosen for the first time."""
        done = not offered.drawn and (offered.title, l1_bytes) in self.tiled
        if name in self.found.chosen or done:
            return
        self.tiled.add((offered.title, l1_bytes))
        setup = setup_for(self.plugins, self.target, self.settings, {1: l1_bytes})
        try:
            tiled: TiledGraph = run(offered.graph, setup, after=IMPORTED, until=TILED)
            best = tiled.best
        except (NotSupported, DoesNotFit) as error:
            self._note(name, error.message, offered.title)
            return
        for bound, layer in zip(tiled.bound.layers, best, strict=True):
            winner = layer.kernel.name
            if winner in self.names and not layer.view:
                choice = Choice(offered.graph, l1_bytes, offered.drawn)
                self.found.chosen.setdefault(winner, choice)
            order = [kernel for kernel, _ in bound.order]
            if name in order[order.index(winner) + 1 :] and not _rejects(bound, name):
                self._note(name, f"{winner} goes before it", offered.title)

    def _note(self, kernel: str, reason: str, title: str) -> None:
        # Reasons that differ only in numbers are the same.
        reasons = self.found.reasons.setdefault(kernel, {})
        key = re.sub(r"[0-9]+", "N", reason)
        same = next((known for known in reasons if re.sub(r"[0-9]+", "N", known) == key), reason)
        titles = reasons.setdefault(same, [])
        if title not in titles:
            titles.append(title)


def _rejects(bound: BoundLayer, name: str) -> bool:
    return any(rejection.kernel == name for rejection in bound.rejections)
