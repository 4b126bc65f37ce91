"""The report of an application as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_core.tools import cli
from dory_report.application.cards import cards
from dory_report.application.charts import cycles, layer_cycles
from dory_report.application.charts import timeline as timeline_chart
from dory_report.application.memory import local_memory, memory_map
from dory_report.application.roofline import roofline
from dory_report.comparison.columns import point_text
from dory_report.page import Page, render
from dory_report.svg import Figure
from dory_report.tables import Cell, Row, Table, count_cell, label_cell, layer_cell, number_cell


def figures(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the charts of an application; each is in the page and can be an image."""
    found = [cycles(plan), timeline_chart(timeline, plan)]
    for level in plan["memory"]:
        if level == "L2" or level.startswith("L1 "):
            memories = sorted({block["memory"] for block in plan["memory"][level]["blocks"]})
            found += [memory_map(plan, level, memory) for memory in memories]
    if any(layer["l1_blocks"] or layer["kept"] for layer in plan["layers"]):
        found.append(local_memory(plan))
    roof = roofline(plan)
    return (*found, roof) if roof is not None else tuple(found)


def pictures(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> dict[str, str]:
    """Return the charts of an application by name, as SVG.

    Args:
        plan, timeline: Documents plan.json and timeline.json of the application.
    """
    from dory_report.drawing import svg

    return {figure.name: svg(figure) for figure in figures(plan, timeline)}


def report_page(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> str:
    """Return the page of an application.

    Args:
        plan, timeline: Documents plan.json and timeline.json of the application.
    """
    network = plan["network"]
    first, *others = figures(plan, timeline)
    page = Page(
        title=f"{network['name']} for {plan['target']}",
        subtitle=f"{cli.count_text(network['macs'])} MAC, "
        f"{cli.count_text(network['parameters'])} parameters, {len(plan['layers'])} layers, "
        f"exact to {network.get('reference') or plan['frontend']}",
        cards=cards(plan),
        problems=() if plan["deployable"] else (plan["reason"],),
        first=(first,),
        tables=(_layers(plan), _memory(plan)),
        figures=tuple(others),
        facts=_facts(plan),
        notes=tuple(plan.get("notes", ())),
    )
    return render(page)


def _state(network: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    states = network.get("states", ())
    if not states:
        return ()
    size = sum(state["bytes"] for state in states)
    names = ", ".join(state["name"] for state in states)
    return (("state between inferences", f"{size:,} B: {names}"),)


def _facts(plan: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    network, totals = plan["network"], plan["totals"]
    facts = [
        ("target", plan["target"]),
        ("frontend", plan["frontend"]),
        ("exact to", network.get("reference") or "-"),
        ("options", ", ".join(f"{k}={v}" for k, v in plan["options"].items()) or "-"),
        ("deployable", "yes" if plan["deployable"] else f"no: {plan['reason']}"),
        ("MAC", f"{network['macs']:,}"),
        ("parameters", f"{network['parameters']:,}"),
        *_state(network),
        ("estimated cycles", f"{totals['cycles']:,}"),
    ]
    for key, title, digits in (
        ("macs_per_cycle", "estimated MAC/cycle", 2),
        ("latency_ms", "estimated latency in ms", 2),
        ("energy_mj", "estimated energy in mJ", 3),
    ):
        if totals[key] is not None:
            facts.append((title, f"{totals[key]:,.{digits}f}"))
    point = plan["operating_point"]
    if point is not None:
        facts.append(("operating point", f"{point_text(point)}; source: {point['source']}"))
    for line in (cli.cycles_text(plan), cli.engines_text(plan), cli.conversions_text(plan)):
        if line:
            title, _, text = line.partition(": ")
            facts.append((title, text))
    return tuple(facts)


def _layers(plan: Mapping[str, Any]) -> Table:
    total = sum(sum(layer_cycles(layer).values()) for layer in plan["layers"]) or 1
    rows = [(_cells(layer, total), layer) for layer in plan["layers"]]
    shown = [
        title
        for title in (rows[0][0] if rows else ())
        if title not in _RARE or any(cells[title].key not in _RARE[title] for cells, _ in rows)
    ]
    return Table(
        "layers",
        "Layers",
        tuple(shown),
        tuple(
            Row(tuple(cells[n] for n in shown), _explanation(layer), str(layer["index"]))
            for cells, layer in rows
        ),
        _HINTS,
    )


_HINTS = {
    "share": "of all cycles",
    "wait L2": "part of its cycles: waiting for L2",
    "wait L3": "cycles of waiting for L3, before the layer",
    "convert": "cycles of conversions, before the layer",
    "L1": "bytes used, and their share of the budget",
}


#: Columns that are shown where a layer has another value than these.
_RARE: Mapping[str, tuple[float | str, ...]] = {
    "wait L3": (0,),
    "convert": (0,),
    "L3 tiles": (1,),
    "engine": ("cores",),
}


def _cells(layer: Mapping[str, Any], total: int) -> dict[str, Cell]:
    """Return the cells of a layer by their column, the important ones first."""
    estimate, l1, tiles = layer["estimate"], layer["bytes"], layer["tiles"]
    share, spent = cli.share_text(l1["l1"], l1["l1_budget"]), sum(layer_cycles(layer).values())
    tile_size = tiles["c_out"] * tiles["h"] * tiles["w"]
    return {
        "layer": layer_cell(layer),
        "kind": label_cell(layer["kind"]),
        "cycles": count_cell(estimate["cycles"]),
        "share": Cell(f"{100 * spent / total:.1f} %", spent, share=spent / total),
        "MAC/cycle": number_cell(estimate["macs_per_cycle"] or None),
        "bound": label_cell(str(estimate["bound"])),
        "kernel": label_cell(layer["kernel"], layer["symbol"]),
        "tile CxHxW": Cell(cli.tile_text(tiles), tile_size),
        "tiles": Cell(str(tiles["count"]), tiles["count"]),
        "L1": Cell(f"{cli.bytes_text(l1['l1'])} {share}", l1["l1"]),
        "wait L2": count_cell(estimate["stall_cycles"]),
        "wait L3": count_cell(estimate["l3_stall_cycles"]),
        "convert": count_cell(estimate["conversion_cycles"]),
        "MAC": count_cell(layer["macs"] or None),
        "L3 tiles": Cell(str(layer["l3_tiles"]), layer["l3_tiles"]),
        "engine": label_cell(layer["engine"]),
    }


def _explanation(layer: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return why a layer has this kernel and this tile."""
    tiles, buffering = layer["tiles"], layer["buffering"]
    copies = ", ".join(f"{name} x{count}" for name, count in buffering.items())
    tile = (
        f"{tiles['c_out']} output channels x {tiles['h']} rows x {tiles['w']} columns, "
        f"{tiles['c_in']} input channels; loops {', '.join(layer['order'])}; buffers {copies}"
    )
    blocks = tuple(
        f"{block['name']}: {block['bytes']:,} bytes at {', '.join(map(str, block['offsets']))}"
        for block in layer["l1_blocks"]
    )
    kept = tuple(
        f"{tensor['name']}: {tensor['bytes']:,} bytes at {tensor['offset']}"
        for tensor in layer["kept"]
    )
    terms = tuple(
        f"{term['name']}: {term['value']:,} x {term['weight']:,.12g} = "
        f"{term['value'] * term['weight']:,.0f}; value: {term['text']}"
        for term in layer["terms"]
    )
    asked = [r for r in layer["rejections"] if not r["other_kind"]]
    rejections = tuple(f"not {r['kernel']}: {r['reason']}" for r in asked)
    if len(layer["rejections"]) > len(asked):
        rest = len(layer["rejections"]) - len(asked)
        rejections = (*rejections, f"{rest} more compute other kinds of layers")
    engines = tuple(f"not {p['engine']}: {p['reason']}" for p in layer["passed_over"])
    changes = tuple(
        f"{c['tensor']}: {c['source']['layout']['name']} to {c['target']['layout']['name']}, "
        f"{c['cycles']:,} cycles"
        for c in layer["conversions"]
    )
    tensors = tuple(
        f"{tensor['name']}: {tensor['layout']['name']}, L{tensor['level']}, {tensor['transfer']}"
        for tensor in (*layer["inputs"], layer["output"])
    )
    requant = layer["requant"]
    ranges = (
        f"accumulator in [{requant['acc'][0]:,}, {requant['acc'][1]:,}]",
        f"mul * acc + add in [{requant['value'][0]:,}, {requant['value'][1]:,}]",
        f"{requant['bits']}-bit arithmetic" if requant["bits"] else "no requantisation",
    )
    sections = (
        ("tile", (tile, layer["proof"])),
        ("terms of the objective: value x weight", terms),
        ("buffers in L1", blocks),
        ("kept in L1 for later layers", kept),
        ("ranges", ranges),
        ("tensors", tensors),
        ("conversions before it", changes),
        ("engines that were passed over", engines),
        ("kernels that were passed over", rejections),
    )
    return tuple((title, lines) for title, lines in sections if lines)


def _memory(plan: Mapping[str, Any]) -> Table:
    rows = []
    for name, level in plan["memory"].items():
        used, budget = level["used"], level["budget"]
        share = used / budget if budget else 0.0
        cells = (
            Cell(name, name, head=True),
            Cell(cli.bytes_text(used), used, f"{used:,} bytes"),
            Cell(cli.bytes_text(budget), budget, f"{budget:,} bytes"),
            Cell(cli.share_text(used, budget), share, share=share),
            label_cell(level["dominant"] or "-"),
        )
        rows.append(Row(cells))
    return Table(
        "memory", "Memory", ("memory", "used", "budget", "share", "largest block"), tuple(rows)
    )
