"""What the templates of a layer print: one C file per layer."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.codegen.axes import TileAxes
from dory_core.codegen.cexpr import comment, string
from dory_core.codegen.describe import describe_layer, describe_step
from dory_core.codegen.loop import TileLoop, tile_loop
from dory_core.codegen.names import layer_parameters, layer_symbol
from dory_core.codegen.tile import TileText, tile_text
from dory_core.plan import LayerStep, Plan


@dataclass(frozen=True, slots=True)
class LayerView:
    """What the templates print of a layer.

    header: lines of the comment on top. headers: that the kernel's call needs. parameters: of the
    function. tile: what happens with each tile. loop: None for a layer in place, which is one tile.
    """

    index: int
    title: str
    c_name: str
    symbol: str
    header: tuple[str, ...]
    headers: tuple[str, ...]
    parameters: str
    tile: TileText
    loop: TileLoop | None


def layer_view(plan: Plan, step: LayerStep) -> LayerView:
    """Return everything that the template prints for one layer."""
    axes = TileAxes.of(step)
    tile = tile_text(step, axes)
    return LayerView(
        index=step.index,
        title=f"{comment(step.layer.op.name)}: {describe_layer(step.layer)}",
        c_name=string(step.layer.op.name),
        symbol=layer_symbol(step),
        header=tuple(comment(line) for line in describe_step(plan, step)),
        headers=step.kernel.headers,
        parameters=layer_parameters(step),
        tile=tile,
        loop=None if step.in_place else tile_loop(plan, step, axes, tile),
    )
