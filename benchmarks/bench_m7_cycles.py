"""Cycles of the layers of STM32H7 images: executed blocks weighted by a model of the Cortex-M7.

python benchmarks/bench_m7_cycles.py [--set KEY=VALUE] [--json FILE] NETWORK...
python benchmarks/bench_m7_cycles.py --table

Compiles each network (a folder of examples/, of the collection, of nets_tflite or of nets_onnx) for
stm32h7, runs its image on the emulated chip, and prints per layer: instructions, cycles of the
model of the pipeline (dory_stm32h7.emulator.pipeline), those that the plan estimates for computing,
and their ratio. Totals add the stalls of the plan's transfers. --set: an option of the target, such
as kernels=cmsis-nn=PATH or part=stm32h7a3. --table: write m7_cycles.json, which a test compares:
commit it after a change of kernels. llvm-mca is no second opinion: it has no Cortex-M7 that loads
with write-back.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from collection import folder_of
from dory_stm32h7.emulator.cycles import LayerCycles, has_disassembler, measure
from dory_stm32h7.emulator.runner import Session
from dory_stm32h7.toolchain import GCC

from dory_core.api import simulate
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing import read_graph
from dory_core.tools import read_plan

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("m7_cycles.json")
OTHERS = ("nets_tflite", "nets_onnx")
Settings = dict[str, str]
NETWORKS = ("tones", "line_follower", "nemo_small_cnn", "mlperf_kws_ref_model")


def compile_app(name: str, directory: Path, plugins: Plugins, settings: Settings) -> None:
    """Compile a network of any collection into a directory."""
    folder = folder_of(name)
    meta: dict[str, Any] = {}
    folders = (ROOT / "examples" / name, *(folder_of("").parent / n / name for n in OTHERS))
    found = [path for one in folders for path in sorted(one.glob("net.*"))]
    if not found:
        meta = json.loads((folder / "meta.json").read_text())
        meta = {key: meta[key] for key in ("frontend", "input_bits", "input_signed")}
        found = [folder / "net.onnx"]
    path = found[0]
    frontend = meta.pop("frontend", None) or plugins.frontend_for(path).name
    options = CompileOptions(path, "stm32h7", frontend, directory, settings=settings, **meta)
    compile_network(options, plugins)


def session_of(directory: Path) -> Session:
    """Return a run of an application's image."""
    graph = read_graph(directory)
    layers = [
        simulate.LayerOutput(n["index"], n["name"], graph.tensors[n["output"]["name"]])
        for n in read_plan(directory)["layers"]
    ]
    return Session(directory, simulate.RunRequest(layers, [{}]))


def show(name: str, rows: list[LayerCycles]) -> None:
    """Print the rows of a network, totals by kernel, and all."""
    print(f"{name}")
    kernels: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for row in rows:
        share = row.cycles / row.macs if row.macs else 0.0
        print(
            f"  {row.index:3d} {row.kernel[5:]:24s} {row.instructions:10d} insn "
            f"{row.cycles:10.0f} cycles {share:5.2f}/MAC  plan {row.estimate:10d} "
            f"x{row.estimate / row.cycles:.2f}"
        )
        figures = (row.macs, row.instructions, row.cycles, row.estimate)
        kernels[row.kernel] = [a + b for a, b in zip(kernels[row.kernel], figures, strict=True)]
    for kernel, (macs, instructions, cycles, estimate) in kernels.items():
        print(
            f"  {kernel[5:]:28s} {macs / 1e6:8.2f} M MAC {instructions / 1e6:8.2f} M insn "
            f"{cycles / 1e6:8.2f} M cycles  plan x{estimate / cycles:.2f}"
        )
    cycles = sum(row.cycles for row in rows)
    stalls = sum(row.stalls for row in rows)
    plan = sum(row.estimate for row in rows) + stalls
    print(
        f"  all: model {cycles / 1e6:.2f} M + stalls {stalls / 1e6:.2f} M = "
        f"{(cycles + stalls) / 1e6:.2f} M cycles, plan {plan / 1e6:.2f} M"
    )


def figures_of(name: str, plugins: Plugins, settings: Settings | None = None) -> list[LayerCycles]:
    """Compile a network, run its image, return the figures of its layers."""
    with tempfile.TemporaryDirectory(prefix="dory-m7-") as folder:
        directory = Path(folder, "app")
        compile_app(name, directory, plugins, settings or {})
        return measure(session_of(directory))


def compiler() -> str:
    """Return the compiler of the images with the first part of its version."""
    command = [GCC, "-dumpversion"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return f"{GCC} {version.partition('.')[0]}"


def table(plugins: Plugins) -> dict[str, object]:
    """Return cycles of the layers of all networks of the table."""
    found = {
        name: {f"{row.index} {row.name}": round(row.cycles) for row in figures_of(name, plugins)}
        for name in NETWORKS
    }
    return {"compiler": compiler(), "networks": found}


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--set", action="append", default=[], help="an option of the target")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--table", action="store_true", help=f"write {TABLE.name}")
    arguments = parser.parse_args()
    if not has_disassembler():
        print("needs llvm-objdump or arm-none-eabi-objdump", file=sys.stderr)
        return 6
    plugins = load_plugins()
    if arguments.table:
        TABLE.write_text(json.dumps(table(plugins), indent=1) + "\n", encoding="utf-8")
    found = {}
    for name in arguments.networks:
        settings = dict(text.split("=", 1) for text in arguments.set)
        rows = figures_of(name, plugins, settings)
        show(name, rows)
        found[name] = [asdict(row) for row in rows]
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
