"""Marks for the simulation of an application, in files of their own.

A file in ``hal/host/marks`` includes the source of the same name and stands in its place in the
host build. Its macros take the place of calls in the source: they tell the simulation what happens,
and then make the call. So shipped sources know nothing of the simulation, and it runs those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dory_core.codegen.body import NetworkBody, packed
from dory_core.codegen.cexpr import INDENT, wrapped
from dory_core.codegen.names import function_parameters
from dory_core.codegen.network import given
from dory_core.codegen.printer import LayerText
from dory_core.kernels.call import FunctionCall
from dory_core.plan import LayerStep, Plan
from dory_core.plan.operations import Call, LayerFunction, all_operations
from dory_core.quoting import c_string
from dory_core.simulate.build import MARKS_FOLDER

_SOURCE = "../" * len(MARKS_FOLDER.split("/")) + "src/"
#: What follows the name of a function to which marks are added.
_SHIPPED = "_shipped"


def layer_marks(
    symbol: str,
    steps: Sequence[LayerStep],
    function: LayerFunction,
    text: LayerText,
    headers: Iterable[str],
) -> str:
    """Return the C file with the marks of a layer's function.

    Args:
        symbol: Name of the function.
        steps: The steps that run it.
        function: The function.
        text: Its C.
        headers: Headers that its source includes.
    """
    call = next(op for op in all_operations(function.program) if isinstance(op, Call)).call
    kernel, parameters = _first_function(call), function_parameters(steps[0], function)
    mark, names = _layer(steps, function)
    macro = "LAYER_FINDS" if text.found else "LAYER"
    variables = _read([mark, *text.found], text.variables)
    body = (
        *variables,
        f"DORY_SIM_{macro}({', '.join([mark, *text.found])});",
        f"{symbol}{_SHIPPED}({', '.join(_names(parameters))});",
    )
    lines = [
        f"/* {symbol}.c for the simulation: what it finds in L1, what tiles read and write. */",
        *(f'#include "{header}"' for header in headers),
        "",
        *_macro(kernel, text.tile),
        *_include(symbol, symbol, kernel),
        *names,
        "",
        f"void {symbol}({parameters}) {{",
        *(line for one in body for line in wrapped(one, len(INDENT))),
        "}",
    ]
    return "\n".join(lines) + "\n"


def network_marks(plan: Plan, body: NetworkBody) -> str:
    """Return the C file with the marks of the network. body: its program in C."""
    symbol = f"{plan.prefix}_network_run"
    sizes = ((c.source.size_bytes, c.target.size_bytes) for c in plan.conversions)
    tables = {
        "ranges": [f"{{{p.memory + 1}, {p.offset}, {p.size_bytes}}}" for p in given(plan)],
        "conversions": [f"{{{source}, {target}}}" for source, target in sizes],
        "dead": body.dead,
    }
    ranges, conversions, dead = (name if rows else "NULL" for name, rows in tables.items())
    members = {
        "given": ranges,
        "given_count": len(tables["ranges"]),
        "given_at": body.given_at,
        "conversions": conversions,
        "dead": dead,
        "dead_count": len(body.dead),
        "has_events": int(bool(body.events)),
    }
    lines = [
        "/* network.c for the simulation: what lies in L2, and which bytes die when. */",
        '#include "dory_marks.h"',
        "",
        *_table("dory_sim_range_t", "ranges", tables["ranges"]),
        *_table("dory_sim_conversion_t", "conversions", tables["conversions"]),
        *_table("dory_sim_dead_t", "dead", body.dead),
        "static const dory_sim_network_t network = {",
        *(f"{INDENT}.{name} = {value}," for name, value in members.items()),
        "};",
        "",
        *_include("network", symbol),
        "",
        f"int {symbol}(const dory_network_io_t *io) {{",
        f"{INDENT}dory_sim_network(&network);",
        f"{INDENT}return {symbol}{_SHIPPED}(io);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _table(type_: str, name: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield f"static const {type_} {name}[] = {{"
        yield from packed(rows)
        yield "};"


def _include(source: str, symbol: str, *macros: str) -> Iterator[str]:
    """Yield the lines that include a source, with another name for one of its functions.

    macros: names of those that take the place of calls in it.
    """
    yield f"#define {symbol} {symbol}{_SHIPPED}"
    yield f'#include "{_SOURCE}{source}.c"'
    yield from (f"#undef {name}" for name in (symbol, *macros))


def _layer(steps: Sequence[LayerStep], function: LayerFunction) -> tuple[str, list[str]]:
    """Return number and name of the layer that runs, and the table that they need."""
    rows = [f"{step.index}, {c_string(step.layer.op.name)}" for step in steps]
    if not function.is_shared:
        return rows[0], []
    table = [
        "",
        f"static const dory_sim_name_t names[{len(rows)}] = {{",
        *(f"{INDENT}{{{row}}}," for row in rows),
        "};",
    ]
    return "names[row].layer, names[row].name", table


def _read(texts: Sequence[str], variables: Sequence[str]) -> Iterator[str]:
    """Yield the variables that texts read; the last may read those before it."""
    needed: list[str] = []
    for variable in reversed(variables):
        name = variable.rpartition(" = ")[0].rpartition("const ")[2]
        if any(f"{name}->" in text for text in (*texts, *needed)):
            needed.append(variable)
    yield from reversed(needed)


def _first_function(call: FunctionCall) -> str:
    """Return the first function that the cores call in a tile."""
    return next(
        (one.function for one in call.before if isinstance(one, FunctionCall)), call.function
    )


def _macro(function: str, tile: Sequence[str]) -> list[str]:
    """Return the macro that declares a tile before its kernel is called."""
    lines = [
        f"#define {function}(...)",
        f"{INDENT}do {{",
        *wrapped(f"DORY_SIM_TILE({', '.join(tile)});", 4, 98),
        f"{INDENT}{INDENT}{function}(__VA_ARGS__);",
    ]
    return [*(f"{line} \\" for line in lines), f"{INDENT}}} while (0)"]


def _names(parameters: str) -> list[str]:
    """Return the names of parameters."""
    return [one.rpartition(" ")[2].lstrip("*") for one in parameters.split(", ") if one]
