"""The text form of ``dory compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dory_core.report.charts import column_label
from dory_core.report.table import new_table
from dory_core.report.units import budget_text, bytes_text, count_text, share_text

#: More columns than this are compared by their totals only.
MOST_SIDE_BY_SIDE = 4


def print_comparison(document: Mapping[str, Any], out: Console) -> None:
    """Print a table of totals, a row for each column of the document, and one of the layers.

    Layers are shown when there are few columns. Reasons stand below the tables.
    """
    columns = document["columns"]
    out.print(
        Text(f"{document['network']} ({document['frontend']}): {len(columns)} plans"), style="bold"
    )
    if len(columns) <= MOST_SIDE_BY_SIDE and any(column["layers"] for column in columns):
        out.print(_layers(columns))
    out.print(_totals(document))
    for line in (*engine_lines(columns), *reasons(columns), *estimated_at(columns)):
        out.print(Text(line))


def engine_lines(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the engines of each column compute, where any has more than one."""
    shown = [c for c in columns if c["totals"] is not None and len(c["totals"]["engines"]) > 1]
    return [
        f"{column_label(column)}: "
        + "; ".join(
            f"{name} {count_text(one['macs'])} MAC, {count_text(one['cycles'])} cycles"
            for name, one in column["totals"]["engines"].items()
        )
        for column in shown
    ]


def verdict(column: Mapping[str, Any]) -> str:
    """Return whether a column can run, in a word or two."""
    if not column["supported"]:
        return "not supported"
    if not column["fits"]:
        return "does not fit"
    return "fits" if column["deployable"] else "not deployable"


def level_names(columns: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the memory levels of all columns."""
    return tuple(sorted({name for column in columns for name in column["memory"]}))


def _totals(document: Mapping[str, Any]) -> Table:
    columns = document["columns"]
    levels = level_names(columns)
    numbers = ("cycles", "MAC/cy", "ms", "mJ", *levels)
    head = ("target", *document["varied"])
    table = new_table(*head, "fits", *numbers, right=(*document["varied"], *numbers))
    for column in columns:
        totals = column["totals"]
        row = [column["target"], *variation_texts(column, document["varied"]), verdict(column)]
        if totals is None:
            row += ["-"] * len(numbers)
        else:
            row += [
                count_text(totals["cycles"]),
                number_text(totals["macs_per_cycle"], 2),
                number_text(totals["latency_ms"], 2),
                number_text(totals["energy_mj"], 3),
                *(use_text(column["memory"].get(name)) for name in levels),
            ]
        table.add_row(*map(Text, row))
    return table


def _layers(columns: Sequence[Mapping[str, Any]]) -> Table:
    heads = [column_label(column) for column in columns if column["layers"]]
    shown = [{n["index"]: n for n in c["layers"]} for c in columns if c["layers"]]
    names = [f"{head} {what}" for head in heads for what in ("cycles", "MAC/cy", "L1")]
    table = new_table("layer", "kind", "MAC", *names, right=("MAC", *names))
    for index in sorted(set().union(*shown)):
        first = next(layers[index] for layers in shown if index in layers)
        row = [
            f"{index:02d} {first['name']}",
            first["kind"],
            count_text(first["macs"]) if first["macs"] else "-",
        ]
        for layers in shown:
            row += _cells(layers.get(index))
        table.add_row(*map(Text, row))
    return table


def _cells(layer: Mapping[str, Any] | None) -> list[str]:
    if layer is None:
        return ["-", "-", "-"]
    estimate = layer["estimate"]
    return [
        count_text(estimate["cycles"]),
        number_text(estimate["macs_per_cycle"] or None, 2),
        bytes_text(layer["bytes"]["l1"]),
    ]


def number_text(value: float | None, digits: int) -> str:
    """Return a number with so many digits, or a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"


def use_text(level: Mapping[str, int] | None) -> str:
    """Return the bytes used of a memory level and their share of the budget."""
    if level is None:
        return "-"
    return f"{bytes_text(level['used'])} {share_text(level['used'], level['budget']):>4}"


def reasons(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each distinct reason and what to do, with the columns that it holds for.

    Of many plans that cannot be deployed one says why.
    """
    known: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        if column["reason"]:
            known.setdefault((column["reason"], column["hint"]), []).append(column_label(column))
    found = [
        f"{', '.join(labels)}: {reason}" + (f"; hint: {hint}" if hint else "")
        for (reason, hint), labels in known.items()
    ]
    kept = [column for column in columns if column["deployable_reason"]]
    told = kept if len(kept) <= MOST_SIDE_BY_SIDE else kept[:1]
    found += [f"{column_label(column)}: {column['deployable_reason']}" for column in told]
    if len(kept) > len(told):
        found.append(f"{len(kept) - len(told)} more plans are not deployable for such reasons")
    return found


def estimated_at(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each target at which clocks and by which sources time and energy are estimated."""
    known: dict[str, str] = {}
    for column in columns:
        point = column["operating_point"]
        if point is not None:
            where = f"{column['target']}: cycles, ms and mJ are estimates at {point_text(point)}"
            known.setdefault(where, point["source"])
    return [f"{where}; source: {source}" for where, source in known.items()]


def point_text(point: Mapping[str, Any]) -> str:
    """Return name and clocks of an operating point."""
    cores, io = point["cluster_hz"] / 1e6, point["io_hz"] / 1e6
    return f"{point['name']} (cores {cores:g} MHz, I/O {io:g} MHz)"


def variation_texts(column: Mapping[str, Any], varied: Sequence[str]) -> list[str]:
    """Return what varies in a column, budgets as they are given: ``36k``."""
    return [budget_text(name, column["variation"][name]) for name in varied]
