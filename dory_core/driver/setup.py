"""What all stages of the compiler share: target, budgets, plugins, objective."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dory_core.errors import UsageError
from dory_core.hardware.options import MOVES, STORAGE
from dory_core.hardware.target import TargetContext
from dory_core.ir import Layer
from dory_core.ir.geometry import Tile
from dory_core.kernels.kernel import Kernel, Term
from dory_core.plan import DEFAULT_PREFIX
from dory_core.plan.budgets import Budgets, resolve_budgets
from dory_core.planning.moves import check_moves
from dory_core.plugins.manager import Plugins
from dory_core.tiling.network import Progress, TiledGraph
from dory_core.tiling.parts import Tilings
from dory_core.tiling.tiler import Tiler

#: Function that receives the result of every stage and every pass with its name, in order.
Watch = Callable[[str, Any], None]
#: What a plan makes best: ``heuristic`` and ``cycles`` are the fastest plan in the tiles with the
#: best terms or in likely faster ones, ``latency`` that in the tiles with the fewest cycles,
#: ``ram`` the plan with the least L2 in the former tiles.
OBJECTIVES = ("heuristic", "latency", "cycles", "ram")
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True)
class Setup:
    """The data that all stages share.

    Attributes:
        frontend: Name of the frontend, for the plan.
        objective: What is made best, one of ``OBJECTIVES``.
        progress: Function that is told about the progress; it changes no result.
        watch: Function that receives the result of each stage; it changes no result.
        prefix: Prefix of the names in C.
        joins: Whether passes may compute a layer inside of another one.
    """

    ctx: TargetContext
    budgets: Budgets
    plugins: Plugins
    frontend: str = ""
    objective: str = "heuristic"
    progress: Progress | None = None
    watch: Watch | None = None
    prefix: str = DEFAULT_PREFIX
    joins: bool = True

    def kernels(self, layer: Layer) -> Sequence[Kernel]:
        """Return the candidate kernels of a layer, best first."""
        return self.plugins.kernels(self.ctx, layer)

    def terms(self, layer: Layer, kernel: Kernel, tile: Tile) -> Sequence[Term]:
        """Return the objective terms of the target for tiles in L1."""
        return self.plugins.objective_terms(self.ctx, layer, kernel, tile)

    @property
    def tiler(self) -> Tiler:
        """What tiles a layer; each one remembers the problems that it has solved."""
        rated = "latency" if self.objective == "latency" else "heuristic"
        return Tiler(self.ctx.memory, self.terms, rated)

    def tilings(self, tiled: TiledGraph) -> Tilings:
        """Return the tilings that the planner chooses from."""
        return Tilings(tiled, self.tiler, self.budgets.bytes[1])

    @property
    def packed(self) -> Setup:
        """The setup with which activations of less than a byte are always packed."""
        options = {**self.ctx.options, STORAGE.name: "packed"}
        return replace(self, ctx=replace(self.ctx, options=options))

    def show(self, name: str, value: Any) -> None:
        """Hand a result to ``watch``."""
        if self.watch is not None:
            self.watch(name, value)


def setup_for(
    plugins: Plugins,
    target: str,
    settings: Mapping[str, str] | None = None,
    budgets: Mapping[int, int] | None = None,
    *,
    frontend: str = "",
    objective: str = "heuristic",
    progress: Progress | None = None,
    watch: Watch | None = None,
    prefix: str = DEFAULT_PREFIX,
    l2_reserve: int = 0,
) -> Setup:
    """Return the setup for a target by name.

    Args:
        plugins: Plugins that provide the target.
        target: Name of the target.
        settings: Options of the target as text.
        budgets: Bytes by level number.
        frontend: Name of the frontend, for the plan.
        objective: One of ``OBJECTIVES``.
        progress: Function that is told about the progress.
        watch: Function that receives the result of each stage.
        prefix: Prefix of the names in C.
        l2_reserve: Bytes of L2 that the surrounding program needs.

    Raises:
        UsageError: For unknown names and sizes.
    """
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(
            f"--prefix {prefix!r} is no beginning of names in C",
            "take a small letter, then at most 30 small letters, digits and underscores",
        )
    if objective not in OBJECTIVES:
        raise UsageError(
            f"there is no objective {objective!r}", f"choose one of: {', '.join(OBJECTIVES)}"
        )
    ctx = plugins.context(target, settings or {})
    check_moves(str(ctx.options.get(MOVES.name, "")))
    resolved = resolve_budgets(ctx.memory, budgets or {}, l2_reserve)
    return Setup(ctx, resolved, plugins, frontend, objective, progress, watch, prefix)
