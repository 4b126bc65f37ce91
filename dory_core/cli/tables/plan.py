"""The tables of a plan, as the end of ``dory compile`` and ``dory report`` show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from dory_core.cli.tables.fitted import FittedTable
from dory_core.cli.tables.texts import (
    alone_text,
    conversions_text,
    cycle_parts,
    cycles_text,
    engine_names,
    engines_text,
    state_text,
    sum_of,
)
from dory_core.cli.tables.units import bytes_text, count_text, share_text, tile_text
from dory_core.quoting import visible_document

# Columns that narrow terminals omit, the least important first.
_DROPPED = (
    "bound", "tiles", "tile CxHxW", "L3 tiles", "kind", "MAC", "engine", "convert", "wait L3",
)  # fmt: skip


def new_table(
    *columns: str, right: tuple[str, ...] = (), drop: tuple[str, ...] = (), wrap: str = ""
) -> FittedTable:
    """Return an empty table for ``console().print``; ``add_row(*cells)`` adds rows.

    Args:
        *columns: Titles of the columns.
        right: Titles of columns of numbers.
        drop: Titles of columns that a narrow terminal omits, the least important first.
        wrap: Title of the column of sentences.
    """
    return FittedTable(columns, right, drop, wrap)


def print_plan(plan: Mapping[str, Any], out: Console, details: int = 0) -> None:
    """Print layers, memory, totals and notes of a plan.json document.

    details: 1 adds rejections by kernels for this kind of layer; 2 adds all kernels.
    """
    plan = visible_document(plan)
    network = plan["network"]
    out.print(
        Text(
            f"{network['name']} for {plan['target']}: {len(plan['layers'])} layers, "
            f"{count_text(network['macs'])} MAC, {count_text(network['parameters'])} parameters"
            + (f", exact to {network['reference']}" if network.get("reference") else "")
        ),
        style="bold",
    )
    out.print(_layer_table(plan))
    out.print(memory_table(plan["memory"].items()))
    out.print(Text(_totals(plan)))
    texts = (cycles_text(plan), engines_text(plan), alone_text(plan["layers"]))
    for line in (*texts, conversions_text(plan), state_text(plan)):
        if line:
            out.print(Text(line))
    for line in _rejections(plan["layers"], details):
        out.print(Text(line))
    for note in plan.get("notes", ()):
        out.print(Text(f"note: {note}"))
    if plan["deployable"]:
        out.print(Text(f"deployable: yes, within the memory of {plan['target']}"))
    else:
        reason = plan.get("reason") or "the budgets are not those of the chip"
        out.print(Text(f"deployable: no, {reason}"), style="yellow")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table of layers.

    text: function that returns the cell of a layer. end, total: cells of the last two rows.
    """

    title: str
    text: Callable[[Mapping[str, Any]], str]
    end: str = ""
    total: str = ""
    number: bool = True


def _layer_table(plan: Mapping[str, Any]) -> FittedTable:
    """Return a row for each layer; the cycles and the columns after it add up to the network's."""
    layers, parts = plan["layers"], cycle_parts(plan)
    after = {name: parts[name] - sum_of(layers, key) for name, key in _OUTSIDE.items()}
    end = {name: count if count > len(layers) else 0 for name, count in after.items()}
    columns = [
        _Column("layer", lambda n: f"{n['index']:02d} {n['name']}", "end", "total", number=False),
        _Column("kind", lambda n: str(n["kind"]), number=False),
        _Column("kernel", lambda n: str(n["kernel"]), number=False),
        _Column("tile CxHxW", lambda n: tile_text(n["tiles"]), number=False),
        _Column("tiles", lambda n: str(n["tiles"]["count"])),
        _Column("L1", lambda n: _use(n["bytes"]["l1"], n["bytes"]["l1_budget"])),
        _Column("MAC", lambda n: _count(n["macs"]), total=_count(plan["network"]["macs"])),
        _Column("cycles", _cycles("cycles"), "-", _count(parts["layers"])),
        *(
            _Column(name, _cycles(key), _count(end[name]), _count(parts[name]))
            for name, key in _OUTSIDE.items()
            if parts[name] > len(layers)
        ),
        _Column("MAC/cy", _rate, total=f"{plan['totals']['macs_per_cycle'] or 0:.2f}"),
        _Column("bound", lambda n: str(n["estimate"]["bound"]), number=False),
    ]
    if any(layer["l3_tiles"] > 1 for layer in layers):
        columns.insert(3, _Column("L3 tiles", lambda n: str(n["l3_tiles"])))
    if len(engine_names(layers)) > 1:
        columns.insert(2, _Column("engine", lambda n: str(n["engine"]), number=False))
    right = tuple(column.title for column in columns if column.number)
    table = new_table(*(column.title for column in columns), right=right, drop=_DROPPED)
    for layer in layers:
        table.add_row(*(Text(column.text(layer)) for column in columns))
    if any(end.values()):
        table.add_row(*(column.end for column in columns))
    table.add_row(*(column.total for column in columns), style="bold")
    return table


#: Cycles of a layer in addition to its own, by activity of the cores.
_OUTSIDE = {"wait L3": "l3_stall_cycles", "convert": "conversion_cycles"}


def _cycles(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda layer: _count(layer["estimate"][key])


def _count(count: int) -> str:
    return count_text(count) if count else "-"


def _rate(layer: Mapping[str, Any]) -> str:
    rate = layer["estimate"]["macs_per_cycle"]
    return f"{rate:.2f}" if rate else "-"


def _use(used: int, budget: int) -> str:
    return f"{bytes_text(used)} {share_text(used, budget):>4}"


def memory_table(levels: Iterable[tuple[str, Mapping[str, Any]]]) -> FittedTable:
    """Return the table of memories.

    levels: for each level its name, with ``used``, ``budget`` and ``dominant``; if known also
    ``code``, the bytes of the layers' functions in addition to ``used``.
    """
    rows = list(levels)
    code = ("code",) if any(level.get("code") for _, level in rows) else ()
    numbers = ("used", "budget", "", *code)
    table = new_table("memory", *numbers, "largest block", right=numbers)
    for name, level in rows:
        used, budget = level["used"], level["budget"]
        sizes = [bytes_text(used), bytes_text(budget), share_text(used, budget)]
        sizes += [bytes_text(level.get(one, 0)) for one in code]
        table.add_row(name, *sizes, Text(level["dominant"] or "-"))
    return table


def _totals(plan: Mapping[str, Any]) -> str:
    totals = plan["totals"]
    parts = [f"estimate: {count_text(totals['cycles'])} cycles"]
    if totals.get("macs_per_cycle"):
        parts.append(f"{totals['macs_per_cycle']:.2f} MAC/cycle")
    if totals.get("latency_ms") is not None:
        parts.append(f"{totals['latency_ms']:.2f} ms")
    if totals.get("energy_mj") is not None:
        parts.append(f"{totals['energy_mj']:.3f} mJ")
    point = totals.get("operating_point")
    return ", ".join(parts) + (f" (at {point})" if point else "")


def _rejections(layers: Iterable[Mapping[str, Any]], details: int) -> Iterator[str]:
    """Yield rejections of layers by kernels; equal reasons are joined."""
    found: dict[tuple[str, str], list[str]] = {}
    for layer in layers:
        for rejection in layer.get("rejections", ()):
            if details > (1 if rejection["other_kind"] else 0):
                key = (rejection["kernel"], rejection["reason"])
                found.setdefault(key, []).append(f"{layer['index']:02d}")
    for (kernel, reason), numbers in found.items():
        many = f"layer{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
        yield f"not {kernel} for {many}: {reason}"
