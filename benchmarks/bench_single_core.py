"""Single layers on one core of GAP8 and on the STM32H743: figure 12 of the IEEE TC 2021 paper.

python benchmarks/bench_single_core.py [--kernels NAME] [--image FILE] [--markdown FILE]

44 layers, half of them depthwise, on one core of GAP8's cluster, and on the STM32H743 with tiles in
DTCM, in place through the D-cache, and in place with the D-cache off. Numbers of both chips are
estimates; nobody has run those of the STM32H743 on one. With --kernels cmsis-nn=PATH the STM32H743
computes with CMSIS-NN, as in the paper.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dory_stm32h7 import calibration
from dory_stm32h7.hardware import D_CACHE, DTCM, UNCACHED
from figures import Row, parser, publish

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.ir import Window
from dory_core.ir.geometry import extent, make_tile
from dory_core.plan import Plan
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.graphs import GraphBuilder

GAP8 = "GAP8, one core"
STM32H7 = {"STM32H7, DTCM": DTCM, "STM32H7, D-cache": D_CACHE, "STM32H7, no cache": UNCACHED}
BASELINE = "STM32H7, D-cache"
# Seven bits, which CMSIS-NN takes as they are.
VALUES = (0, 127)
# Below so many multiplications the set-up of transfers is much of a layer.
LARGE_MACS = 100_000
CHIPS = (GAP8, *STM32H7)

# Input channels, rows and columns; output channels; size of the filter; stride. From 150 to
# 85 million multiplications.
CONVOLUTIONS = (
    (4, 2, 2, 8, 1, 1),
    (4, 3, 3, 4, 3, 1),
    (8, 4, 4, 8, 1, 1),
    (8, 4, 4, 8, 3, 1),
    (16, 6, 6, 16, 1, 1),
    (16, 6, 6, 16, 3, 1),
    (32, 8, 8, 32, 1, 1),
    (3, 32, 32, 16, 3, 2),
    (16, 16, 16, 16, 3, 1),
    (64, 8, 8, 128, 1, 1),
    (32, 16, 16, 64, 1, 1),
    (32, 8, 8, 32, 3, 1),
    (3, 96, 96, 16, 3, 2),
    (32, 16, 16, 32, 3, 1),
    (128, 16, 16, 128, 1, 1),
    (64, 8, 8, 64, 3, 1),
    (64, 32, 32, 128, 1, 1),
    (256, 8, 8, 512, 1, 1),
    (64, 16, 16, 64, 3, 1),
    (512, 8, 8, 512, 1, 1),
    (32, 48, 48, 64, 3, 1),
    (96, 32, 32, 96, 3, 1),
)
# Channels, rows and columns, size of the filter, stride.
DEPTHWISE = (
    (4, 2, 2, 3, 1),
    (8, 3, 3, 3, 1),
    (8, 4, 4, 3, 1),
    (16, 4, 4, 3, 1),
    (16, 6, 6, 3, 1),
    (16, 8, 8, 3, 1),
    (32, 8, 8, 3, 1),
    (32, 12, 12, 3, 1),
    (64, 8, 8, 3, 1),
    (64, 12, 12, 3, 2),
    (64, 16, 16, 3, 1),
    (256, 8, 8, 3, 1),
    (128, 16, 16, 3, 1),
    (512, 8, 8, 3, 1),
    (32, 32, 32, 3, 1),
    (32, 32, 32, 5, 1),
    (64, 32, 32, 3, 1),
    (128, 32, 32, 3, 2),
    (128, 32, 32, 3, 1),
    (64, 64, 64, 3, 1),
    (64, 64, 64, 5, 1),
    (96, 48, 48, 7, 1),
)


@dataclass(frozen=True)
class Case:
    """A layer. kind: ``conv`` or ``depthwise``."""

    kind: str
    name: str
    network: GraphBuilder


def window(size: int, stride: int) -> Window:
    """Return a square window that keeps the size of the image but for its stride."""
    pad = size // 2
    return Window(kernel=(size, size), strides=(stride, stride), pads=(pad, pad, pad, pad))


def cases() -> list[Case]:
    """Return the 44 layers."""
    found = []
    for c, h, w, c_out, size, stride in CONVOLUTIONS:
        net = GraphBuilder((c, h, w), VALUES, seed=1)
        net.conv(c_out, window(size, stride), output=VALUES)
        found.append(Case("conv", f"{c}x{h}x{w} > {c_out}, {size}x{size} /{stride}", net))
    for c, h, w, size, stride in DEPTHWISE:
        net = GraphBuilder((c, h, w), VALUES, seed=1)
        net.conv(c, window(size, stride), groups=c, output=VALUES)
        found.append(Case("depthwise", f"{c}x{h}x{w}, {size}x{size} /{stride}", net))
    return found


def planned(case: Case, plugins: Plugins, target: str, settings: dict[str, str]) -> Plan:
    """Return the plan of a layer with the default budgets."""
    return run(case.network.graph(), setup_for(plugins, target, settings), after=IMPORTED)


def scratch_accesses(plan: Plan, plugins: Plugins, settings: dict[str, str]) -> int:
    """Return the accesses to scratch memory of the layer, which lies in DTCM."""
    step = plan.steps[0]
    ctx = plugins.context(plan.target, settings)
    kernel = next(k for k in plugins.kernels(ctx, step.layer) if k.name == step.kernel.name)
    full = extent(step.layer)
    tile = make_tile(step.layer, full.c_out, full.h, full.w, full.c_in)
    found = kernel.accesses(step.layer, tile, 1)
    return sum(access.count for access in found if access.operand == "scratch")


def measure(case: Case, plugins: Plugins, kernels: str) -> Row:
    """Return a row of the table."""
    rates = {GAP8: planned(case, plugins, "gap8", {"cores": "1"})}
    settings = {name: {"memory": m, "kernels": kernels} for name, m in STM32H7.items()}
    rates |= {name: planned(case, plugins, "stm32h7", s) for name, s in settings.items()}
    macs = rates[GAP8].macs
    row: dict[str, Any] = {"kind": case.kind, "layer": case.name, "MAC": macs}
    row |= {name: macs / plan.cycles for name, plan in rates.items()}
    bare = rates["STM32H7, no cache"]
    accesses = scratch_accesses(bare, plugins, settings["STM32H7, no cache"])
    row["no cache, scratch in SRAM"] = macs / (bare.cycles + accesses * 2 * calibration.AXI_ACCESS)
    return row


def spread(values: Sequence[float], scale: float = 1.0) -> str:
    """Return mean and standard deviation."""
    mean, deviation = statistics.mean(values) * scale, statistics.stdev(values) * scale
    return f"{mean:.1f} ± {deviation:.1f}"


def gains(rows: Sequence[Row], name: str) -> list[float]:
    """Return the rate of each row relative to the baseline, less one."""
    return [row[name] / row[BASELINE] - 1 for row in rows]


def findings(rows: Sequence[Row], kernels: str) -> str:
    """Return what the paper found beside what the estimates say."""
    dtcm, bare = "STM32H7, DTCM", "STM32H7, no cache"
    large = [row for row in rows if row["MAC"] >= LARGE_MACS]
    found = {"all": rows, f"{LARGE_MACS:,} MAC and more": large}
    lines = [
        f"MAC per cycle, estimated, STM32H7 with kernels `{kernels}`. Those of the STM32H7 are "
        "counted instructions and a model of the D-cache ([memories.md](memories.md)), from L2 to "
        "L2 with constants in flash; no chip has confirmed them. `scratch in SRAM` is what the "
        "columns of convolutions would cost if they lay in SRAM, too, instead of DTCM.",
        "",
        "| relative to the D-cache | paper, measured | "
        + " | ".join(f"here, {n}" for n in found)
        + " |",
        "|---|---|" + "---|" * len(found),
    ]
    for name, paper, chip, kind in (
        ("DTCM, depthwise", "+9.1 ± 2.1 %", dtcm, "depthwise"),
        ("DTCM, other convolutions", "+3.9 ± 3.8 %", dtcm, "conv"),
        ("no cache", "-58.5 ± 5.5 %", bare, ""),
        ("no cache, scratch in SRAM", "-", "no cache, scratch in SRAM", ""),
    ):
        chosen = ([r for r in group if kind in r["kind"]] for group in found.values())
        cells = [f"{spread(gains(group, chip), 100)} %" for group in chosen]
        lines.append(f"| {name} | {paper} | {' | '.join(cells)} |")
    times = (spread([r[GAP8] / r[BASELINE] for r in group]) for group in found.values())
    lines.append(
        "| GAP8, one core | 2.5 ± 0.9 times | " + " | ".join(f"{t} times" for t in times) + " |"
    )
    slower = sum(row[dtcm] < 0.99 * row[BASELINE] for row in rows)
    slower_large = sum(row[dtcm] < 0.99 * row[BASELINE] for row in large)
    lines += [
        "",
        f"DTCM is slower than the D-cache by more than 1 % in {slower} layers, "
        f"{slower_large or 'none'} of "
        f"them with {LARGE_MACS:,} MAC and more: a layer whose data stays in the cache has nothing "
        "to gain from transfers, and pays for setting them up.",
    ]
    return "\n".join(lines)


def panel(title: str, rows: Sequence[Row], y: str, axis: str) -> dict[str, Any]:
    """Return a chart of a point for each layer and chip."""
    return {
        "title": title,
        "width": 420,
        "height": 320,
        "data": {"values": list(rows)},
        "mark": {"type": "point", "filled": True, "size": 45, "opacity": 0.8},
        "encoding": {
            "x": {"field": "MAC", "type": "quantitative", "scale": {"type": "log"},
                  "axis": {"tickCount": 7, "format": "~s", "grid": False}},
            "y": {"field": y, "type": "quantitative", "title": axis},
            "color": {"field": "chip", "type": "nominal", "sort": list(CHIPS), "title": None},
            "shape": {"field": "kind", "type": "nominal", "title": None},
        },
    }  # fmt: skip


def spec(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figure: rates on the left, rates relative to the baseline on the right."""
    rates = [
        {"chip": name, "kind": row["kind"], "layer": row["layer"], "MAC": row["MAC"],
         "rate": row[name], "gain": row[name] / row[BASELINE]}
        for row in rows
        for name in CHIPS
    ]  # fmt: skip
    others = [row for row in rates if row["chip"] != BASELINE]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "hconcat": [
            panel("MAC per cycle (estimates)", rates, "rate", "MAC per cycle"),
            panel("Relative to the D-cache (estimates)", others, "gain", "times the D-cache"),
        ],
    }


def main() -> int:
    """Print the tables."""
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--kernels", default="builtin", help="of the STM32H7")
    options = arguments.parse_args()
    plugins = load_plugins()
    rows = [measure(case, plugins, options.kernels) for case in cases()]
    rows.sort(key=lambda row: (row["kind"], row["MAC"]))
    name = options.kernels.partition("=")[0]
    publish(options, "One core of GAP8 and the STM32H743", findings(rows, name), rows, spec(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
