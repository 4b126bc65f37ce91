"""The MLPerf Tiny models on every target that computes them well: writes docs/mlperf_tiny.md.

python benchmarks/bench_mlperf.py [--check]

Plans each reference model and prints cycles, latency, energy and memory, as the plan estimates
them. For the STM32H7A3, of which others have published results, their cycles stand beside those of
the executed code by the model of the Cortex-M7 (bench_m7_cycles.py). --check: compare with the
page, status 1 when it differs. The models lie in nets_tflite beside the folder of the collection.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from bench_m7_cycles import figures_of
from collection import folder_of

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import Plugins, load_plugins

PAGE = Path(__file__).resolve().parents[1] / "docs" / "mlperf_tiny.md"
TARGETS = ("gap8", "stm32h7", "cortex_m55")

#: The chip of the published results, and its clock.
CHIP, CHIP_MHZ = "stm32h7a3", 280


@dataclass(frozen=True)
class Model:
    """A reference model, and what others have published.

    cube_ai, plumerai: inferences per second on an STM32H7A3 at 280 MHz (MLPerf Tiny v1.2, v1.1).
    bosch: Mcycles on the same chip (v1.1). gap9: inferences per second of GAP9 at 370 MHz (v1.0).
    gvsoc: Mcycles of the first inference on GAP8's simulator GVSOC, counted by the application
    (`dory run app --runner gvsoc`), with GCC 5.4 with XpulpV2; November 2026.
    cmsis_nn: Mcycles of `bench_m7_cycles.py --set kernels=cmsis-nn=PATH --set part=stm32h7a3` with
    the sources of July 2026 and arm-none-eabi-gcc 12.
    """

    task: str
    name: str
    cube_ai: float
    plumerai: float | None
    bosch: float | None
    gap9: float
    cmsis_nn: float
    gvsoc: float


MODELS = (
    Model("visual wake words", "mlperf_vww_96_int8", 42.0, 37.3, 12.2, 889, 11.86, 0.531),
    Model(
        "image classification",
        "mlperf_pretrainedResnet_quant",
        24.5,
        19.6,
        13.1,
        1623,
        20.57,
        0.763,
    ),
    Model("keyword spotting", "mlperf_kws_ref_model", 88.4, 72.1, 4.1, 2103, 5.53, 0.261),
    Model("anomaly detection", "mlperf_ad01_int8", 816, None, None, 5692, 0.55, 0.095),
)

_HEAD = """\
# MLPerf Tiny

Written by `python benchmarks/bench_mlperf.py`. The four reference models of MLPerf Tiny as int8
`.tflite` files; every layer of the applications equals TensorFlow Lite Micro. Cycles, latency and
energy are the plan's estimates at the default operating point of the target; those of stm32h7 and
cortex_m55 follow models of their pipelines, no chip has confirmed them (energy of cortex_m55 is not
known). "measured" is GVSOC, the simulator of GAP8's makers: the application counts its cycles
there, and every layer was exact. MAC are those that are computed: channels that cannot change are
removed. "below" is the level below L2: RAM beside the chip for gap8, flash for stm32h7, DDR for
cortex_m55.

| model | target | MAC | cycles | measured | MAC/cycle | latency | energy | L1 | L2 | below |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


_SIDE = """
## Beside others

Mcycles per inference on an STM32H7A3 at 280 MHz. dory and CMSIS-NN: the code that the image
executes, weighted by the model of the Cortex-M7 (`benchmarks/bench_m7_cycles.py`), and the plan's
stalls; both exact. CMSIS-NN is `--set kernels=cmsis-nn=PATH` with its sources of July 2026, in
dory's tiles, with the same channels removed. The others were measured on chips:
X-CUBE-AI 9 in MLPerf Tiny v1.2, Plumerai and Bosch in v1.1, clock divided by inferences per second.

| model | dory, plan | dory, executed | CMSIS-NN, executed | X-CUBE-AI | Plumerai | Bosch |
| --- | --- | --- | --- | --- | --- | --- |
"""


def beside(model: Model, file: Path, plugins: Plugins) -> str:
    """Return the line of a model beside published results."""
    settings = {"part": CHIP}
    options = CompileOptions(file, "stm32h7", "tflite", plan_only=True, settings=settings)
    plan = compile_network(options, plugins).plan.to_json()["totals"]["cycles"] / 1e6
    rows = figures_of(model.name, plugins, settings)
    code = sum(row.cycles + row.stalls for row in rows) / 1e6
    cells = (
        *(f"{figure:.2f}" for figure in (plan, code, model.cmsis_nn)),
        f"{CHIP_MHZ / model.cube_ai:.2f}",
        "-" if model.plumerai is None else f"{CHIP_MHZ / model.plumerai:.2f}",
        "-" if model.bosch is None else f"{model.bosch:.1f}",
    )
    return f"| {model.task} | {' | '.join(cells)} |\n"


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
        f"{model.gvsoc:.3f} M" if target == "gap8" else "-",
        f"{macs / totals['cycles']:.2f}",
        f"{totals['latency_ms']:.2f} ms",
        "-" if totals["energy_mj"] is None else f"{totals['energy_mj']:.2f} mJ",
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
    others = [beside(model, nets / model.name / "net.tflite", plugins) for model in MODELS]
    published = [f"{model.task} {model.gap9:g}" for model in MODELS]
    gap9 = f"\nGAP9 at 370 MHz, inferences per second in v1.0: {', '.join(published)}.\n"
    return f"{_HEAD}{''.join(rows)}{_SIDE}{''.join(others)}{gap9}"


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
