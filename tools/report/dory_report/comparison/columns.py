"""What a comparison says about its columns, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dory_core.tools import cli

#: More columns than this are compared by their totals only.
MOST_SIDE_BY_SIDE = 4


def plans_text(columns: Sequence[Mapping[str, Any]]) -> str:
    """Return how many plans are compared."""
    return "1 plan" if len(columns) == 1 else f"{len(columns)} plans"


def column_label(column: Mapping[str, Any]) -> str:
    """Return the name of a column: the target and what varies."""
    variation = (f"{k}={budget_text(k, v)}" for k, v in column["variation"].items())
    return " ".join([column["target"], *variation])


def budget_text(name: str, value: str) -> str:
    """Return the value of something that varies; budgets as ``--vary`` takes them: ``36k``."""
    if name in cli.BUDGET_NAMES and value.isdecimal() and int(value) % 1024 == 0:
        return f"{int(value) // 1024}k"
    return value


def variation_texts(column: Mapping[str, Any], varied: Sequence[str]) -> list[str]:
    """Return the varied values of a column, budgets as the user gave them: ``36k``."""
    return [budget_text(name, column["variation"][name]) for name in varied]


def verdict(column: Mapping[str, Any]) -> str:
    """Return a text on whether a column can run."""
    if not column["supported"]:
        return "not supported"
    if not column["fits"]:
        return "does not fit"
    return "fits" if column["deployable"] else "not deployable"


def engine_lines(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the share of each engine in each column, if any column has several engines."""
    shown = [c for c in columns if c["totals"] is not None and len(c["totals"]["engines"]) > 1]
    return [
        f"{column_label(column)}: "
        + "; ".join(
            f"{name} {cli.count_text(one['macs'])} MAC, {cli.count_text(one['cycles'])} cycles"
            for name, one in column["totals"]["engines"].items()
        )
        for column in shown
    ]


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
            where = f"{column['target']}: all estimates are at {point_text(point)}"
            known.setdefault(where, point["source"])
    return [f"{where}; source: {source}" for where, source in known.items()]


def point_text(point: Mapping[str, Any]) -> str:
    """Return name and clocks of an operating point."""
    cores, io = point["core_hz"] / 1e6, point["io_hz"] / 1e6
    return f"{point['name']} (cores {cores:g} MHz, I/O {io:g} MHz)"
