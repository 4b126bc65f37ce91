"""Sentences about a plan.json document, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dory_core.cli.tables.units import bytes_text, count_text, share_text
from dory_core.kernels.binding import CORES


def cycles_text(plan: Mapping[str, Any]) -> str:
    """Return the parts of a network's cycles in one line, empty when all are in layers."""
    parts = cycle_parts(plan)
    texts = ("in layers", "waiting for L3", "converting layouts")
    shown = [
        f"{count_text(count)} {text}"
        for text, count in zip(texts, parts.values(), strict=True)
        if count > len(plan["layers"])
    ]
    return f"cycles: {', '.join(shown)}" if len(shown) > 1 else ""


def cycle_parts(plan: Mapping[str, Any]) -> dict[str, int]:
    """Return the cycles in layers and outside them; at most a cycle per layer is rounding.

    The cores wait for L3 before layers and at the end of the network, and convert layouts before
    layers and after the last one.
    """
    layers, totals = sum_of(plan["layers"], "cycles"), plan["totals"]
    convert = totals["conversion_cycles"]
    wait = max(totals["cycles"] - layers - convert, 0)
    return {"layers": layers, "wait L3": wait, "convert": convert}


def sum_of(layers: Iterable[Mapping[str, Any]], key: str) -> int:
    """Return the sum of an estimate, for example ``cycles``, over layers."""
    return sum(layer["estimate"][key] for layer in layers)


def engine_names(layers: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the engines that compute layers or were passed over, in their order."""
    names: dict[str, None] = {}
    for layer in layers:
        asked = (passed["engine"] for passed in layer.get("passed_over", ()))
        names |= dict.fromkeys(name for name in (*asked, layer.get("engine")) if name)
    return tuple(names)


def engines_text(plan: Mapping[str, Any]) -> str:
    """Return the share of each engine in one line, empty when there is only one."""
    engines = plan["totals"].get("engines", {})
    if len(engine_names(plan["layers"])) < 2:
        return ""
    macs = plan["network"]["macs"]
    peaks = plan["roofline"].get("engines", {})
    idle = {"layers": 0, "macs": 0, "cycles": 0}
    engines = {name: engines.get(name, idle) for name in (*engines, *engine_names(plan["layers"]))}
    texts = (
        f"{name} {one['layers']} layers, {count_text(one['macs'])} MAC "
        f"({share_text(one['macs'], macs)}), {count_text(one['cycles'])} cycles"
        f"{_of_peak(one, peaks.get(name))}"
        for name, one in engines.items()
    )
    return f"engines: {'; '.join(texts)}"


def alone_text(layers: Sequence[Mapping[str, Any]]) -> str:
    """Return a note when no engine computes a layer, empty without engines or with work for one."""
    engines = [name for name in engine_names(layers) if name != CORES]
    if not engines or any(layer["engine"] != CORES for layer in layers):
        return ""
    return (
        f"no layer runs on {' or '.join(engines)}: the cores compute the whole network"
        " (`dory check -v` says why)"
    )


def _of_peak(engine: Mapping[str, Any], peak: float | None) -> str:
    """Return the share of an engine's peak, empty when it is not known."""
    if not peak or not engine["cycles"]:
        return ""
    return f", {engine['macs'] / engine['cycles']:.1f} of {peak:g} MAC/cycle"


def state_text(plan: Mapping[str, Any]) -> str:
    """Return the state between inferences in one line, empty without state."""
    states = plan["network"].get("states", ())
    if not states:
        return ""
    size = sum(state["bytes"] for state in states)
    moved = sum(state["bytes"] for state in states if state["copied"])
    many = f"{len(states)} tensor{'s' if len(states) > 1 else ''}"
    return (
        f"state: {many}, {bytes_text(size)} of L2 that live between inferences,"
        f" {bytes_text(moved)} copied at the end of each"
    )


def conversions_text(plan: Mapping[str, Any]) -> str:
    """Return number and cost of layout conversions in one line, empty without any."""
    changes = [c for layer in plan["layers"] for c in layer.get("conversions", ())]
    changes += plan.get("final_conversions", ())
    if not changes:
        return ""
    cycles = plan["totals"]["conversion_cycles"]
    many = f"{len(changes)} conversion{'s' if len(changes) > 1 else ''}"
    return f"layouts: {many}, {count_text(cycles)} cycles"
