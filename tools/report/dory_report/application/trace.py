"""The timeline as trace events, which Perfetto and Chrome's tracing page open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: What every trace begins with.
TRACE_MARK = b'{"otherData":{"generator":"dory"}'
_PROCESS = 1


def trace_bytes(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> bytes:
    """Return the trace file of an application, in the time of its operating point."""
    totals = plan["totals"]
    latency_ms = totals["latency_ms"]
    clock_hz = totals["cycles"] / latency_ms * 1e3 if latency_ms else None
    document = trace_json(timeline, plan["target"], clock_hz)
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def trace_json(timeline: Mapping[str, Any], target: str, clock_hz: float | None) -> dict[str, Any]:
    """Return a trace document. timeline: of ``timeline.json``.

    Time is in microseconds at ``clock_hz``; without a clock a cycle is shown as a microsecond.
    """
    scale = 1e6 / clock_hz if clock_hz else 1.0
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": target}}
    ]
    for lane, name in enumerate(timeline["lanes"]):
        common = {"ph": "M", "pid": _PROCESS, "tid": lane}
        events.append({**common, "name": "thread_name", "args": {"name": name}})
        events.append({**common, "name": "thread_sort_index", "args": {"sort_index": lane}})
    for lane, name, layer, tile, start, duration in timeline["events"]:
        events.append(
            {
                "ph": "X",
                "pid": _PROCESS,
                "tid": lane,
                "name": timeline["names"][name],
                "cat": timeline["lanes"][lane],
                "ts": round(start * scale, 4),
                "dur": round(duration * scale, 4),
                "args": {
                    "layer": timeline["layers"][layer] if layer >= 0 else "after the last layer",
                    "tile": tile,
                    "cycles": duration,
                },
            }
        )
    return {"otherData": {"generator": "dory"}, "traceEvents": events, "displayTimeUnit": "ms"}
