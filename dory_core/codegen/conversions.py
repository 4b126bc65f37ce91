"""Changes of layout between layers, as text for the network's templates."""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.codegen.cexpr import comment, wrapped
from dory_core.codegen.names import address, arena
from dory_core.ir.layout import Layout
from dory_core.plan import Conversion, Place, Plan


def converted_layouts(plan: Plan) -> tuple[Layout, ...]:
    """Return the layouts between which tensors are converted, each place of elements once."""
    found: list[Layout] = []
    for conversion in plan.conversions:
        for place in (conversion.source, conversion.target):
            if not any(_same(place.layout, known) for known in found):
                found.append(place.layout)
    return tuple(found)


def _same(one: Layout, other: Layout) -> bool:
    return layout_definition(one) == layout_definition(other)


def layout_symbol(plan: Plan, layout: Layout) -> str:
    """Return the C name of a layout of :func:`converted_layouts`."""
    known = converted_layouts(plan)
    return f"layout_{next(n for n, one in enumerate(known) if _same(one, layout))}"


def layout_definition(layout: Layout) -> str:
    """Return the C initialiser of a layout."""
    return (
        f"{{{layout.channel_block}, {layout.channel_multiple}, {layout.width_multiple}, "
        f"{layout.reversed_bytes}}}"
    )


def conversion_lines(plan: Plan, conversion: Conversion) -> Iterator[str]:
    """Yield the statements of one conversion."""
    source, target = conversion.source, conversion.target
    c, h, w = conversion.tensor.shape
    marks = (
        f"DORY_SIM_READ({_address(source)}, {source.size_bytes});",
        f"DORY_SIM_WRITE({_address(target)}, {target.size_bytes});",
    )
    if plan.cores > 1:
        yield "dory_barrier(); /* what is converted has been stored */"
        yield "if (dory_core_id() == 0) {"
        yield from (f"  {mark}" for mark in marks)
        yield "}"
        yield "dory_barrier();"
    else:
        yield from marks
    layouts = (comment(place.layout.name) for place in (source, target))
    yield f"/* {comment(conversion.tensor.name)}: {' to '.join(layouts)} */"
    yield from wrapped(
        f"dory_convert_layout({_address(target)}, &{layout_symbol(plan, target.layout)}, "
        f"{_address(source)}, &{layout_symbol(plan, source.layout)}, {c}, {h}, {w});",
        0,
        96,
    )


def _address(place: Place) -> str:
    return address(arena(place.memory), place.offset)


def layer_layouts(plan: Plan) -> tuple[str, ...]:
    """Return the rows of the table of layers whose output has another layout than HWC."""
    rows = []
    for step in sorted(plan.steps, key=lambda s: s.index):
        layout = step.output.place.layout
        if not layout.is_hwc:
            c, h, w = step.layer.output.shape
            name = comment(layout.name)
            rows.append(
                f"{{{step.index}, {layout_definition(layout)}, {c}, {h}, {w}}}, /* {name} */"
            )
    return tuple(rows)
