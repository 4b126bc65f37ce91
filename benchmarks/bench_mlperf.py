"""The MLPerf Tiny models on every target that computes them well: writes docs/mlperf_tiny.md.

python benchmarks/bench_mlperf.py [--more DIR] [--check]

Plans each reference model and prints cycles, latency, energy and memory, as the plan estimates
them. For the STM32H7A3, of which others have published results, their cycles stand beside those of
the executed code by the model of the Cortex-M7 (bench_m7_cycles.py); for Cortex-M4 and M33 the
plan's. --check: compare with the page, status 1 when it differs. The models lie in nets_tflite
beside the folder of the collection. --more: a folder with others, as NAME/net.tflite; the lines of
a model that is in neither stay as they are on the page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
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
#: Cores of other published results, and their clocks: STM32L4R5 and STM32U575.
CORES = (("cortex-m4", 120), ("cortex-m33", 160))


@dataclass(frozen=True)
class Model:
    """A reference model, and what others have published; None where they have not.

    gvsoc: Mcycles of the first inference on GAP8's simulator GVSOC, counted by the application
    (`dory run app --runner gvsoc`), with GCC 5.4 with XpulpV2; November 2026. Means over three
    places of the code in L2, of the large model at one.
    cmsis_nn: Mcycles of `bench_m7_cycles.py --set kernels=cmsis-nn=PATH --set part=stm32h7a3` with
    the sources of July 2026 and arm-none-eabi-gcc 12.
    cube_ai, plumerai: inferences per second on an STM32H7A3 at 280 MHz (MLPerf Tiny v1.2, v1.1).
    bosch: Mcycles on the same chip (v1.1). gap9: inferences per second of GAP9 at 370 MHz (v1.0).
    single: inferences per second of X-CUBE-AI 10.2 on each of CORES (v1.3).
    """

    task: str
    name: str
    gvsoc: float
    cmsis_nn: float | None = None
    cube_ai: float | None = None
    plumerai: float | None = None
    bosch: float | None = None
    gap9: float | None = None
    single: tuple[float, ...] = ()


VWW, RESNET = "mlperf_vww_96_int8", "mlperf_pretrainedResnet_quant"
LARGE, KWS = "mlperf_pretrainedResnet_large_int8", "mlperf_kws_ref_model"
MODELS = (
    Model("visual wake words", VWW, 0.470, 11.86, 42.0, 37.3, 12.2, 889, (11.18, 16.87)),
    Model("image classification", RESNET, 0.749, 20.57, 24.5, 19.6, 13.1, 1623, (6.036, 9.133)),
    Model("image classification, large", LARGE, 4.026),
    Model("keyword spotting", KWS, 0.244, 5.53, 88.4, 72.1, 4.1, 2103, (23.03, 34.49)),
    Model(
        "anomaly detection",
        "mlperf_ad01_int8",
        0.086,
        cmsis_nn=0.55,
        cube_ai=816,
        gap9=5692,
        single=(208.6, 311.6),
    ),
    Model("streaming wake word", "mlperf_str_ww_ref_model", 0.106, single=(55.91, 85.98)),
)

_HEAD = """\
# MLPerf Tiny

Written by `python benchmarks/bench_mlperf.py`. The reference models of MLPerf Tiny as int8
`.tflite` files; every layer of the applications equals TensorFlow Lite Micro. Cycles, latency and
energy are the plan's estimates at the default operating point of the target; those of stm32h7 and
cortex_m55 follow models of their pipelines, no chip has confirmed them (energy of cortex_m55 is not
known). "measured" is GVSOC, the simulator of GAP8's makers: the application counts its cycles
there, and every layer was exact. MAC are those that are computed: channels that cannot change are
removed. "below" is the level below L2: RAM beside the chip for gap8, flash for stm32h7, DDR for
cortex_m55. The large model of image classification and the streaming wake word (an inference every
32 ms) came with later rounds.

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


_SINGLE = """
Mcycles per inference on cores that issue one instruction at a time. dory: the plan's estimate for
`--set part=cortex-m4` and `cortex-m33`, where kernels work in place, take 1.5 times the cycles of
the Cortex-M7, and flash has no wait states; nothing has confirmed it. X-CUBE-AI 10.2: measured in
MLPerf Tiny v1.3 on an STM32L4R5 (Cortex-M4, 120 MHz) and an STM32U575 (Cortex-M33, 160 MHz). Of the
streaming wake word its figures contain the features of the sound; dory's do not.

| model | dory, Cortex-M4 | X-CUBE-AI | dory, Cortex-M33 | X-CUBE-AI |
| --- | --- | --- | --- | --- |
"""


def _planned_mcycles(file: Path, settings: dict[str, str], plugins: Plugins) -> float:
    """Return Mcycles of the plan for a part of the stm32h7 target."""
    options = CompileOptions(file, "stm32h7", "tflite", plan_only=True, settings=settings)
    return float(compile_network(options, plugins).plan.to_json()["totals"]["cycles"]) / 1e6


def _mcycles(clock_mhz: float, per_second: float | None) -> str:
    return "-" if per_second is None else f"{clock_mhz / per_second:.2f}"


def _line(task: str, cells: Iterable[str]) -> str:
    return f"| {task} | {' | '.join(cells)} |\n"


def beside(model: Model, file: Path, plugins: Plugins) -> str:
    """Return the line of a model beside published results of an STM32H7A3."""
    settings = {"part": CHIP}
    rows = figures_of(model.name, plugins, settings)
    code = sum(row.cycles + row.stalls for row in rows) / 1e6
    return _line(
        model.task,
        (
            f"{_planned_mcycles(file, settings, plugins):.2f}",
            f"{code:.2f}",
            "-" if model.cmsis_nn is None else f"{model.cmsis_nn:.2f}",
            _mcycles(CHIP_MHZ, model.cube_ai),
            _mcycles(CHIP_MHZ, model.plumerai),
            "-" if model.bosch is None else f"{model.bosch:.1f}",
        ),
    )


def beside_single(model: Model, file: Path, plugins: Plugins) -> str:
    """Return the line of a model beside published results of a Cortex-M4 and a Cortex-M33."""
    cells: list[str] = []
    for (core, clock_mhz), per_second in zip(CORES, model.single, strict=True):
        settings = {"part": core, "clock_mhz": str(clock_mhz), "flash_kib": "2048"}
        cells.append(f"{_planned_mcycles(file, settings, plugins):.2f}")
        cells.append(_mcycles(clock_mhz, per_second))
    return _line(model.task, cells)


def row(model: Model, target: str, file: Path, plugins: Plugins) -> str:
    """Return the line of the table for a model on a target."""
    plan = compile_network(
        CompileOptions(file, target, "tflite", plan_only=True), plugins
    ).plan.to_json()
    totals, memory = plan["totals"], plan["memory"]
    macs = plan["network"]["macs"]
    cells = (
        f"{target}, {totals['operating_point']}",
        f"{macs / 1e6:.2f} M",
        f"{totals['cycles'] / 1e6:.2f} M",
        f"{model.gvsoc:.3f} M" if target == "gap8" else "-",
        f"{macs / totals['cycles']:.2f}",
        f"{totals['latency_ms']:.2f} ms",
        "-" if totals["energy_mj"] is None else f"{totals['energy_mj']:.2f} mJ",
        *(f"{memory[level]['used'] / 1024:.1f} kB" for level in ("L1", "L2", "L3")),
    )
    return _line(model.task, cells)


def page(folders: Sequence[Path], old: str) -> str:
    """Return the page; ``old`` has the lines of models that lie in none of the folders."""
    plugins = load_plugins()
    files = {
        model: file
        for model in MODELS
        for file in (folder / model.name / "net.tflite" for folder in folders)
        if file.is_file()
    }
    rows = ""
    for model in MODELS:
        if model in files:
            rows += "".join(row(model, target, files[model], plugins) for target in TARGETS)
        else:
            lines = old.splitlines(keepends=True)
            rows += "".join(line for line in lines if line.startswith(f"| {model.task} |"))
    known = [(model, files[model]) for model in MODELS if model.cube_ai is not None]
    others = "".join(beside(model, file, plugins) for model, file in known)
    single = [(model, files[model]) for model in MODELS if model.single]
    lines_single = "".join(beside_single(model, file, plugins) for model, file in single)
    published = [f"{model.task} {model.gap9:g}" for model in MODELS if model.gap9 is not None]
    gap9 = f"\nGAP9 at 370 MHz, inferences per second in v1.0: {', '.join(published)}.\n"
    return f"{_HEAD}{rows}{_SIDE}{others}{_SINGLE}{lines_single}{gap9}"


def main() -> int:
    """Write or check the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--more", type=Path, action="append", default=[], help="other models")
    arguments = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8")
    text = page([folder_of("").parent / "nets_tflite", *arguments.more], old)
    if arguments.check:
        return int(old != text)
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
