"""Changes of layout between layers, as text for the network's templates."""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.codegen.cexpr import wrapped
from dory_core.codegen.network import place_address
from dory_core.ir.layout import Layout
from dory_core.plan import Conversion, Plan
from dory_core.quoting import c_comment


def layout_symbols(plan: Plan) -> dict[str, str]:
    """Return the C names of the layouts that tensors are converted from or to, by definition."""
    places = (place for c in plan.conversions for place in (c.source, c.target))
    found = dict.fromkeys(layout_definition(place.layout) for place in places)
    return {definition: f"layout_{number}" for number, definition in enumerate(found)}


def layout_definition(layout: Layout) -> str:
    """Return the C initialiser of a layout."""
    return (
        f"{{{layout.channel_block}, {layout.channel_multiple}, {layout.width_multiple}, "
        f"{layout.reversed_bytes}}}"
    )


def conversion_lines(plan: Plan, conversion: Conversion) -> Iterator[str]:
    """Yield the statements of one conversion."""
    source, target = conversion.source, conversion.target
    symbols = layout_symbols(plan)
    if plan.cores > 1:
        yield "dory_barrier(); /* what is converted has been stored */"
    layouts = (c_comment(place.layout.name) for place in (source, target))
    yield f"/* {c_comment(conversion.tensor.name)}: {' to '.join(layouts)} */"
    sides = (
        f"{place_address(place)}, &{symbols[layout_definition(place.layout)]}"
        for place in (target, source)
    )
    shape = ", ".join(map(str, conversion.tensor.shape))
    yield from wrapped(f"dory_convert_layout({', '.join(sides)}, {shape});", 0, 96)


def layer_layouts(plan: Plan) -> tuple[str, ...]:
    """Return the rows of the table of layers whose output has another layout than HWC."""
    rows = []
    for step in sorted(plan.steps, key=lambda s: s.index):
        layout = step.output.place.layout
        if not layout.is_hwc:
            c, h, w = step.layer.output.shape
            name = c_comment(layout.name)
            rows.append(
                f"{{{step.index}, {layout_definition(layout)}, {c}, {h}, {w}}}, /* {name} */"
            )
    return tuple(rows)
