"""The four large figures of an application: does it fit, time, energy, rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_core.tools import cli
from dory_report.page import Card, Meter


def cards(plan: Mapping[str, Any]) -> tuple[Card, ...]:
    """Return the figures that stand first on the page of an application."""
    return (_fits(plan), _latency(plan), _energy(plan), _rate(plan))


def large(value: float) -> str:
    """Return a figure in three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.1f}"


def memory_meter(label: str, use: Mapping[str, int]) -> Meter:
    """Return the bar of a memory level: used of its budget."""
    used, budget = use["used"], use["budget"]
    text = f"{cli.bytes_text(used)} of {cli.bytes_text(budget)}"
    return Meter(label, text, used / budget if budget else 0.0)


def _fits(plan: Mapping[str, Any]) -> Card:
    meters = tuple(memory_meter(name, use) for name, use in plan["memory"].items())
    if plan["deployable"]:
        return Card("Memory", "fits", meters=meters, state="good")
    return Card("Memory", "not deployable", meters=meters, state="bad")


def _latency(plan: Mapping[str, Any]) -> Card:
    totals, point = plan["totals"], plan["operating_point"]
    spent = f"{totals['cycles']:,} cycles"
    if totals["latency_ms"] is None:
        value = cli.count_text(totals["cycles"])
        return Card("Latency (estimate)", value, "cycles", ("the target names no clock",))
    notes = (spent, f"at {point['core_hz'] / 1e6:g} MHz") if point else (spent,)
    return Card("Latency (estimate)", large(totals["latency_ms"]), "ms", notes)


def _energy(plan: Mapping[str, Any]) -> Card:
    totals, point = plan["totals"], plan["operating_point"]
    if totals["energy_mj"] is None:
        return Card("Energy (estimate)", "\u2013", notes=("not known for this target and plan",))
    notes = ("per inference", f"operating point {point['name']}" if point else "")
    return Card("Energy (estimate)", large(totals["energy_mj"]), "mJ", tuple(filter(None, notes)))


def _rate(plan: Mapping[str, Any]) -> Card:
    rate, peak = plan["totals"]["macs_per_cycle"], plan["roofline"]["peak_macs_per_cycle"]
    count = f"{cli.count_text(plan['network']['macs'])} MAC per inference"
    if rate is None:
        return Card("Rate (estimate)", "\u2013", notes=(count,))
    meters = (_peak(rate, peak),) if peak else ()
    return Card("Rate (estimate)", large(rate), "MAC/cycle", (count,), meters)


def _peak(rate: float, peak: float) -> Meter:
    share = rate / peak
    shown = f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"
    full = f"{peak:,.0f}" if peak >= 1000 else f"{peak:g}"
    return Meter("peak", f"{shown} of {full}", share)
