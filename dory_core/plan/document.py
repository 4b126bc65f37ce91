"""The JSON documents of a plan: plan.json and timeline.json, as docs/json.md describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dory_core.ir.channels import removed_text
from dory_core.kernels.binding import CORES

if TYPE_CHECKING:
    from dory_core.hardware.target import OperatingPoint
    from dory_core.ir import Tensor
    from dory_core.plan import (
        Ahead,
        Conversion,
        ExtTransfer,
        LayerStep,
        LevelUse,
        Place,
        Plan,
        StatePlan,
    )

#: Raised whenever a key comes, goes or changes: this dory reads only its own documents.
PLAN_VERSION = 13
GENERATOR = "dory"


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return plan.json: every decision but the constants themselves."""
    cycles = plan.cycles
    point = plan.operating_point
    return {
        "version": PLAN_VERSION,
        "generator": GENERATOR,
        "target": plan.target,
        "frontend": plan.frontend,
        "prefix": plan.prefix,
        "options": dict(plan.options),
        "deployable": plan.deployable,
        "reason": plan.obstacle,
        "network": {
            "name": plan.network,
            "reference": plan.reference,
            "inputs": [_border_json(p) for p in plan.inputs],
            "outputs": [_border_json(p) for p in plan.outputs],
            "states": [_state_json(state) for state in plan.states],
            "float_io": plan.float_io,
            "ties_even": plan.ties_even,
            "macs": plan.macs,
            "parameters": plan.parameters,
        },
        "cores": plan.cores,
        "layers": [
            {**_step_json(step, plan.levels, stall), "code": code}
            for step, stall, code in zip(
                plan.steps, plan.timeline.stalls, _code_json(plan), strict=False
            )
        ],
        "memory": {level.name: _level_json(level) for level in plan.levels},
        "transfers": [_transfer_json(t) for t in plan.transfers],
        "final_conversions": [_conversion_json(c) for c in plan.final_conversions],
        "totals": {
            "cycles": cycles,
            "macs_per_cycle": round(plan.macs / cycles, 3) if cycles else None,
            "latency_ms": round(cycles / point.core_hz * 1e3, 4) if point else None,
            "energy_mj": _energy_mj(plan),
            "operating_point": point.name if point else None,
            "conversion_cycles": sum(c.cycles for c in plan.conversions),
            "engines": plan.engines,
        },
        "operating_point": None if point is None else _point_json(point),
        "roofline": {
            "peak_macs_per_cycle": plan.roofline.peak_macs_per_cycle,
            "links": dict(plan.roofline.links),
            "engines": dict(plan.roofline.engines),
        },
        "notes": list(plan.notes),
    }


def timeline_json(plan: Plan) -> dict[str, Any]:
    """Return timeline.json: what cores and links do, in cycles from the start.

    An event is [lane, name, layer, tile, start, duration], the first three as positions in the
    lists of their names; -1 for a layer where it belongs to none.
    """
    events = sorted(plan.timeline.events, key=lambda e: (e.start, e.end))
    lanes = list(dict.fromkeys(e.lane for e in events))
    names = list(dict.fromkeys(e.name for e in events))
    return {
        "version": PLAN_VERSION,
        "cycles": plan.cycles,
        "lanes": lanes,
        "names": names,
        "layers": [f"{s.index:02d} {s.layer.op.kind} {s.layer.op.name}" for s in plan.steps],
        "events": [
            [
                lanes.index(e.lane),
                names.index(e.name),
                -1 if e.step is None else e.step,
                e.tile,
                round(e.start, 1),
                round(e.end - e.start, 1),
            ]
            for e in events
        ],
    }


def _energy_mj(plan: Plan) -> float | None:
    """Return the energy of one inference, None where that of its cycles is not known."""
    point = plan.operating_point
    if point is None or not point.energy_j_per_cycle:
        return None
    cycles = plan.cycles
    if point.engines:
        cycles = sum(plan.engines[name]["cycles"] for name in point.engines if name in plan.engines)
    working = min(plan.cores, point.cores) / point.cores if point.cores else 1.0
    return round(cycles * working * point.energy_j_per_cycle * 1e3, 5) if cycles else None


def _point_json(point: OperatingPoint) -> dict[str, Any]:
    return {
        "name": point.name,
        "core_hz": point.core_hz,
        "io_hz": point.io_hz,
        "energy_j_per_cycle": point.energy_j_per_cycle,
        "source": point.source,
    }


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "type": tensor.type_name,
        "range": [tensor.lo, tensor.hi],
        "scale": tensor.scale,
        "channel_scales": list(tensor.channel_scales),
        "zero_point": tensor.zero_point,
        "value_offset": tensor.offset,
        "removed": removed_text(tensor.removed),
    }


def _place_json(place: Place) -> dict[str, Any]:
    return {
        **_tensor_json(place.tensor),
        "level": place.level,
        "memory": place.memory,
        "offset": place.offset,
        "passing": place.passing,
        "layout": place.layout.to_json(),
    }


def _border_json(place: Place) -> dict[str, Any]:
    """Return an input or output of the network."""
    rows = {"count": place.rows, "bytes": place.row_bytes} if place.passing else None
    return {**_place_json(place), "rows": rows}


def _state_json(state: StatePlan) -> dict[str, Any]:
    return {
        "name": state.name,
        "bytes": state.place.size_bytes,
        "place": _place_json(state.place),
        "left": _place_json(state.left),
        "copied": state.copied,
        "table_bytes": state.table_bytes,
    }


def _conversion_json(conversion: Conversion) -> dict[str, Any]:
    return {
        "tensor": conversion.tensor.name,
        "source": _place_json(conversion.source),
        "target": _place_json(conversion.target),
        "cycles": conversion.cycles,
    }


def _transfer_json(transfer: ExtTransfer) -> dict[str, Any]:
    return {
        "name": transfer.block.text,
        "direction": "in" if transfer.incoming else "out",
        "bytes": transfer.size,
        "l2_offset": transfer.l2_offset,
        "l3_offset": transfer.l3_offset,
        "start": transfer.start,
        "wait": transfer.wait,
    }


def _level_json(level: LevelUse) -> dict[str, Any]:
    return {
        "used": level.used,
        "budget": level.budget,
        "dominant": level.dominant,
        "stack_bytes": level.stack_bytes,
        "packed_bytes": level.packed_bytes,
        "blocks": [
            {
                "name": b.id.text,
                "memory": b.memory,
                "offset": b.offset,
                "size": b.size,
                "first": b.first,
                "last": b.last,
            }
            for b in level.blocks
        ],
    }


def _code_json(plan: Plan) -> Iterator[dict[str, Any] | None]:
    """Yield the function that runs each step, null for a view."""
    functions = plan.program.by_step
    for number in range(len(plan.steps)):
        function, row = functions.get(number, (None, 0))
        if function is None:
            yield None
        else:
            first = plan.steps[function.steps[0]].index
            yield {"layer": first, "row": row, "rows": len(function.steps)}


def _step_json(
    step: LayerStep, levels: tuple[LevelUse, ...], l3_stall_cycles: int
) -> dict[str, Any]:
    typed, schedule, tile = step.layer, step.schedule, step.tiling.tile
    return {
        "index": step.index,
        "name": typed.op.name,
        "tensor": typed.op.tensor,
        "kind": typed.op.kind,
        "macs": typed.macs,
        "engine": step.kernel.engine or CORES,
        "passed_over": [{"engine": p.engine, "reason": p.reason} for p in step.passed_over],
        "kernel": step.kernel.name,
        "symbol": step.kernel.symbol,
        "rejections": [
            {
                "kernel": r.kernel,
                "engine": r.engine or CORES,
                "reason": r.reason,
                "other_kind": r.other_kind,
            }
            for r in step.rejections
        ],
        "conversions": [_conversion_json(c) for c in step.conversions],
        "inputs": [{**_place_json(t.place), "transfer": t.form} for t in step.inputs],
        "output": {**_place_json(step.output.place), "transfer": step.output.form},
        "tiles": {
            "c_out": tile.c_out,
            "h": tile.h,
            "w": tile.w,
            "c_in": tile.c_in,
            "count": step.tile_count,
        },
        "order": list(schedule.order.axes),
        "buffering": {
            "x": schedule.buffering.x,
            "w": schedule.buffering.w,
            "y": schedule.buffering.y,
        },
        **_tiling_json(step),
        "bytes": {"l1": step.l1_bytes, "l1_budget": levels[0].budget},
        **_memory_json(step),
        "weights": _weights_json(step),
        "requant": {
            "bits": typed.ranges.bits,
            "acc": [typed.ranges.acc_lo, typed.ranges.acc_hi],
            "value": [typed.ranges.value_lo, typed.ranges.value_hi],
        },
        "estimate": _estimate_json(step, l3_stall_cycles),
    }


def _tiling_json(step: LayerStep) -> dict[str, Any]:
    """Return how the tile of a step was found, and its parts."""
    return {
        "terms": [
            {"name": t.name, "weight": t.weight, "value": t.value, "text": t.text}
            for t in step.tiling.terms
        ],
        "proof": step.tiling.proof,
        "l3_tiles": len(step.parts),
        "turns": step.chain,
        "positions": [part.position for part in step.parts],
    }


def _memory_json(step: LayerStep) -> dict[str, Any]:
    """Return the buffers in L1 and the copies that fill them."""
    return {
        "l1_blocks": [
            {"name": b.name, "bytes": b.bytes, "offsets": list(b.offsets)} for b in step.l1
        ],
        "kept": [
            {"name": p.tensor.name, "bytes": p.size_bytes, "offset": p.offset} for p in step.kept
        ],
        "ahead": None if step.ahead is None else _ahead_json(step.ahead),
        "loaded_ahead": step.loaded_ahead,
        "found_inputs": sum(part.finds_inputs for part in step.parts),
        "copies": {
            operand: {"by": c.by, "multiple": c.multiple, "reason": c.reason}
            for operand, c in step.carriages.items()
        },
    }


def _ahead_json(ahead: Ahead) -> dict[str, Any]:
    return {
        "step": ahead.step,
        "tile": ahead.tile,
        "by_words": ahead.by_words,
    }


def _weights_json(step: LayerStep) -> dict[str, Any] | None:
    """Return where the constants of a step come from."""
    if step.weights is None:
        return None
    return {
        "level": step.weights.level,
        "linked": step.weights.linked,
        "fetched": step.kernel.fetches,
        "offset": step.weights.offset,
        "bytes": step.weights.size,
        "chunks": len(step.weights.chunks),
    }


def _estimate_json(step: LayerStep, l3_stall_cycles: int) -> dict[str, Any]:
    """Return the cycles and the transfers of a step."""
    estimate, traffic = step.estimate, step.traffic
    return {
        "cycles": estimate.cycles,
        "compute_cycles": estimate.compute_cycles,
        "dma_cycles": estimate.dma_cycles,
        "stall_cycles": estimate.stall_cycles,
        "l3_stall_cycles": l3_stall_cycles,
        "conversion_cycles": step.conversion_cycles,
        "macs_per_cycle": estimate.macs_per_cycle,
        "bound": "L3-L2" if l3_stall_cycles > estimate.cycles else estimate.bound,
        "calls": traffic.calls,
        "transfers": traffic.transfers,
        "transfer_bytes": traffic.bytes,
    }
