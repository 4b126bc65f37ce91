"""The MLPerf Tiny models on every target that computes them well: writes docs/mlperf_tiny.md.

python benchmarks/bench_mlperf.py [--check]

Plans each reference model and prints cycles, latency, energy and memory, as the plan estimates
them, beside published results of other tools. --check: compare with the page, status 1 when it
differs. The models lie in nets_tflite beside the folder of the collection.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from collection import folder_of

from dory_core.compiler import CompileOptions, compile_network
from dory_core.plugins import Plugins, load_plugins

PAGE = Path(__file__).resolve().parents[1] / "docs" / "mlperf_tiny.md"
TARGETS = ("gap8", "stm32h7")


@dataclass(frozen=True)
class Model:
    """A reference model. published: results of other tools, as they state them."""

    task: str
    name: str
    published: str


MODELS = (
    Model(
        "visual wake words",
        "mlperf_vww_96_int8",
        "STM32H7A3, 280 MHz: X-CUBE-AI 42.0 inf/s (6.7 M cycles), Plumerai 37.3 (7.5 M), Bosch 12.2"
        " M cycles; GAP9, 370 MHz: 889 inf/s",
    ),
    Model(
        "image classification",
        "mlperf_pretrainedResnet_quant",
        "STM32H7A3: X-CUBE-AI 24.5 inf/s (11.4 M cycles), Plumerai 19.6 (14.3 M), Bosch 13.1 M"
        " cycles; GAP9: 1623 inf/s",
    ),
    Model(
        "keyword spotting",
        "mlperf_kws_ref_model",
        "STM32H7A3: X-CUBE-AI 88.4 inf/s (3.2 M cycles), Plumerai 72.1 (3.9 M), Bosch 4.1 M cycles;"
        " GAP9: 2103 inf/s",
    ),
    Model(
        "anomaly detection",
        "mlperf_ad01_int8",
        "STM32H7A3: X-CUBE-AI 816 inf/s (0.34 M cycles); GAP9: 5692 inf/s",
    ),
)

_HEAD = """\
# MLPerf Tiny

Written by `python benchmarks/bench_mlperf.py`. The four reference models of MLPerf Tiny as int8
`.tflite` files; every layer of the applications equals TensorFlow Lite Micro. Cycles, latency and
energy are the plan's estimates at the default operating point of the target; those of stm32h7
follow a model of its pipeline, no chip has confirmed them. MAC are those that are computed:
channels that cannot change are removed. "below" is the level below L2: RAM beside the chip for
gap8, flash for stm32h7. Published results are those of MLPerf Tiny v1.0 (GAP9), v1.1 (Plumerai,
Bosch) and v1.2 (X-CUBE-AI), measured on chips; cycles are the clock divided by inferences per
second.

| model | target | MAC computed | cycles | MAC/cycle | latency | energy | L1 | L2 | below |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def row(model: Model, target: str, file: Path, plugins: Plugins) -> str:
    """Return the line of the table for a model on a target."""
    plan = compile_network(
        CompileOptions(file, target, "tflite", plan_only=True), plugins
    ).plan.to_json()
    totals, memory = plan["totals"], plan["memory"]
    macs = plan["network"]["macs"]
    cells = (
        model.task,
        f"{target}, {totals['operating_point']}",
        f"{macs / 1e6:.2f} M",
        f"{totals['cycles'] / 1e6:.2f} M",
        f"{macs / totals['cycles']:.2f}",
        f"{totals['latency_ms']:.2f} ms",
        f"{totals['energy_mj']:.2f} mJ",
        *(f"{memory[level]['used'] / 1024:.1f} kB" for level in ("L1", "L2", "L3")),
    )
    return f"| {' | '.join(cells)} |\n"


def page(nets: Path) -> str:
    """Return the page."""
    plugins = load_plugins()
    rows = [
        row(model, target, nets / model.name / "net.tflite", plugins)
        for model in MODELS
        for target in TARGETS
    ]
    published = [f"- {model.task}: {model.published}.\n" for model in MODELS]
    return f"{_HEAD}{''.join(rows)}\nPublished:\n\n{''.join(published)}"


def main() -> int:
    """Write or check the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    nets = folder_of("").parent / "nets_tflite"
    text = page(nets)
    if arguments.check:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
