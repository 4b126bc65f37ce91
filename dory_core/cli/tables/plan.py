"""The tables of a plan, as the end of ``dory compile`` and ``dory report`` show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dory_core.cli.tables.units import bytes_text, count_text, share_text, tile_text

_KERNEL_COLUMN_MINIMUM = 14


def new_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table whose columns of numbers, ``right``, are aligned to the right."""
    table = Table(box=SIMPLE, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def print_plan(plan: Mapping[str, Any], out: Console, details: bool = False) -> None:
    """Print layers, memory, totals and notes of a plan.json document.

    details: also why kernels that were preferred did not take a layer.
    """
    network = plan["network"]
    out.print(
        Text(
            f"{network['name']} for {plan['target']}: {len(plan['layers'])} layers, "
            f"{count_text(network['macs'])} MAC, {count_text(network['parameters'])} parameters"
        ),
        style="bold",
    )
    out.print(_layer_table(plan))
    out.print(_memory_table(plan["memory"]))
    out.print(Text(_totals(plan)))
    for line in (engines_text(plan), conversions_text(plan)):
        if line:
            out.print(Text(line))
    if details:
        for line in _rejections(plan["layers"]):
            out.print(Text(line))
    for note in plan.get("notes", ()):
        out.print(Text(f"note: {note}"))
    if plan["deployable"]:
        out.print(Text(f"deployable: yes, within the memory of {plan['target']}"))
    else:
        reason = plan.get("reason") or "the budgets are not those of the chip"
        out.print(Text(f"deployable: no, {reason}"), style="yellow")


def _layer_table(plan: Mapping[str, Any]) -> Table:
    numbers = ("L3 tiles", "tiles", "L1", "MAC", "cycles", "MAC/cy")
    columns = ["layer", "kind", "kernel", "tile CxHxW", "tiles", "L1", "MAC", "cycles", "MAC/cy"]
    parts = any(layer.get("l3_tiles", 1) > 1 for layer in plan["layers"])
    if parts:
        columns.insert(3, "L3 tiles")
    several = len(engine_names(plan["layers"])) > 1
    if several:
        columns.insert(2, "engine")
    table = new_table(*columns, "bound", right=numbers)
    table.columns[columns.index("kernel")].min_width = _KERNEL_COLUMN_MINIMUM
    for position, layer in enumerate(plan["layers"]):
        estimate = layer.get("estimate") or {}
        l1 = layer["bytes"]
        rate = estimate.get("macs_per_cycle")
        table.add_row(
            Text(f"{layer.get('index', position):02d} {layer['name']}"),
            Text(layer["kind"]),
            *([Text(layer["engine"])] if several else []),
            Text(layer["kernel"]),
            *([str(layer.get("l3_tiles", 1))] if parts else []),
            tile_text(layer["tiles"]),
            str(layer["tiles"]["count"]),
            f"{bytes_text(l1['l1'])} {share_text(l1['l1'], l1['l1_budget']):>4}",
            count_text(layer["macs"]) if layer["macs"] else "-",
            count_text(estimate["cycles"]) if "cycles" in estimate else "-",
            f"{rate:.2f}" if rate else "-",
            Text(str(estimate.get("bound") or "-")),
        )
    return table


def engine_names(layers: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the engines that compute layers or were passed over, in their order."""
    names: dict[str, None] = {}
    for layer in layers:
        asked = (passed["engine"] for passed in layer.get("passed_over", ()))
        names |= dict.fromkeys(name for name in (*asked, layer.get("engine")) if name)
    return tuple(names)


def engines_text(plan: Mapping[str, Any]) -> str:
    """Return what each engine computes in one line, empty where there is one."""
    engines = plan["totals"].get("engines", {})
    if len(engine_names(plan["layers"])) < 2:
        return ""
    macs = plan["network"]["macs"]
    peaks = plan["roofline"].get("engines", {})
    texts = (
        f"{name} {one['layers']} layers, {count_text(one['macs'])} MAC "
        f"({share_text(one['macs'], macs)}), {count_text(one['cycles'])} cycles"
        f"{_of_peak(one, peaks.get(name))}"
        for name, one in engines.items()
    )
    return f"engines: {'; '.join(texts)}"


def _of_peak(engine: Mapping[str, Any], peak: float | None) -> str:
    """Return what an engine reaches of its peak, empty where that is not known."""
    if not peak or not engine["cycles"]:
        return ""
    return f", {engine['macs'] / engine['cycles']:.1f} of {peak:g} MAC/cycle"


def conversions_text(plan: Mapping[str, Any]) -> str:
    """Return how often the layout changes and what it costs in one line, empty without."""
    changes = [c for layer in plan["layers"] for c in layer.get("conversions", ())]
    changes += plan.get("final_conversions", ())
    if not changes:
        return ""
    cycles = plan["totals"]["conversion_cycles"]
    many = f"{len(changes)} conversion{'s' if len(changes) > 1 else ''}"
    return f"layouts: {many}, {count_text(cycles)} cycles"


def _memory_table(memory: Mapping[str, Any]) -> Table:
    table = new_table("memory", "used", "budget", "", "largest block", right=("used", "budget", ""))
    for name, level in memory.items():
        table.add_row(
            name,
            bytes_text(level["used"]),
            bytes_text(level["budget"]),
            share_text(level["used"], level["budget"]),
            Text(dominant(level) or "-"),
        )
    return table


def dominant(level: Mapping[str, Any]) -> str:
    """Return the name of the largest block of a level, empty when it has none."""
    if level.get("dominant"):
        return str(level["dominant"])
    blocks = level.get("blocks") or ()
    return str(max(blocks, key=lambda block: block["size"])["name"]) if blocks else ""


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


def _rejections(layers: list[Mapping[str, Any]]) -> list[str]:
    return [
        f"{layer['name']}: not {rejection['kernel']}: {rejection['reason']}"
        for layer in layers
        for rejection in layer.get("rejections", ())
    ]
