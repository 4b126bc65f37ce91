"""The report of an application as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_core.api import cli
from dory_report.application import charts
from dory_report.comparison.columns import point_text
from dory_report.page import Figure, Page, render
from dory_report.tables import Cell, Row, Table, count_cell, label_cell, number_cell


def figures(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the charts of an application; each is in the page and can be an image."""
    found = [
        Figure("cycles", charts.cycles(plan)),
        Figure("timeline", charts.timeline(timeline)),
        *(Figure("memory-l2", charts.memory_map(plan, n)) for n in ("L2",) if n in plan["memory"]),
        Figure("memory-l1", charts.local_memory(plan)),
    ]
    roof = charts.roofline(plan)
    return (*found, Figure("roofline", roof)) if roof is not None else tuple(found)


def report_page(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> str:
    """Return the page of an application. plan, timeline: its plan.json and timeline.json."""
    network = plan["network"]
    page = Page(
        title=f"{network['name']} for {plan['target']}",
        facts=_facts(plan),
        tables=(_layers(plan), _memory(plan)),
        figures=figures(plan, timeline),
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


_LAYER_COLUMNS = (
    "layer", "node", "kind", "engine", "kernel", "tile CxHxW", "tiles", "L3 tiles", "L1", "MAC",
    "cycles", "wait L3", "convert", "MAC/cycle", "wait L2", "bound",
)  # fmt: skip


def _layers(plan: Mapping[str, Any]) -> Table:
    rows = []
    for layer in plan["layers"]:
        estimate, l1, tiles = layer["estimate"], layer["bytes"], layer["tiles"]
        share = cli.share_text(l1["l1"], l1["l1_budget"])
        cells = (
            Cell(f"{layer['index']:02d}", layer["index"]),
            label_cell(layer["name"]),
            label_cell(layer["kind"]),
            label_cell(layer["engine"]),
            label_cell(layer["kernel"], layer["symbol"]),
            Cell(cli.tile_text(tiles), tiles["c_out"] * tiles["h"] * tiles["w"]),
            Cell(str(tiles["count"]), tiles["count"]),
            Cell(str(layer["l3_tiles"]), layer["l3_tiles"]),
            Cell(f"{cli.bytes_text(l1['l1'])} {share}", l1["l1"], f"{l1['l1']:,} bytes"),
            count_cell(layer["macs"] or None),
            count_cell(estimate["cycles"]),
            count_cell(estimate["l3_stall_cycles"], "cycles of waiting for L3, before the layer"),
            count_cell(estimate["conversion_cycles"], "cycles of conversions, before the layer"),
            number_cell(estimate["macs_per_cycle"] or None),
            count_cell(estimate["stall_cycles"], "of its cycles, waiting for L2"),
            label_cell(str(estimate["bound"])),
        )
        rows.append(Row(cells, _explanation(layer)))
    return Table("layers", _LAYER_COLUMNS, tuple(rows))


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
    rejections = tuple(f"not {r['kernel']}: {r['reason']}" for r in layer["rejections"])
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
        cells = (
            label_cell(name),
            Cell(cli.bytes_text(used), used, f"{used:,} bytes"),
            Cell(cli.bytes_text(budget), budget, f"{budget:,} bytes"),
            Cell(cli.share_text(used, budget), used / budget if budget else 0.0),
            label_cell(level["dominant"] or "-"),
        )
        rows.append(Row(cells))
    return Table("memory", ("memory", "used", "budget", "share", "largest block"), tuple(rows))
