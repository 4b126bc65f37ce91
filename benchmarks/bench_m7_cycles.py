"""Cycles of the layers of STM32H7 images: executed blocks weighted by a model of the Cortex-M7.

python benchmarks/bench_m7_cycles.py [--app DIR] [--mca] [--json FILE] NETWORK...

Compiles each network (a folder of the collection, of nets_tflite or of nets_onnx) for stm32h7, runs
its image on the emulated chip, and prints per layer: instructions, cycles of the model of the
pipeline (dory_stm32h7.emulator.pipeline), those that the plan estimates for computing, and their
ratio. Totals add the stalls of the plan's transfers. --mca: llvm-mca's model instead of
ours. Needs llvm-objdump.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from collection import folder_of
from dory_stm32h7.emulator import pipeline

from dory_core.api import read_plan, simulate
from dory_core.compiler import CompileOptions, compile_network
from dory_core.plugins import Plugins, load_plugins
from dory_core.testing import read_graph

Blocks = dict[tuple[int, int], int]


def compile_app(name: str, directory: Path, plugins: Plugins) -> None:
    """Compile a network of any collection into a directory."""
    folder = folder_of("").parent / "nets_tflite" / name
    onnx = folder_of("").parent / "nets_onnx" / name
    if folder.is_dir():
        options = CompileOptions(folder / "net.tflite", "stm32h7", "tflite", output=directory)
    elif onnx.is_dir():
        path = onnx / "net.onnx"
        options = CompileOptions(path, "stm32h7", plugins.frontend_for(path).name, directory)
    else:
        folder = folder_of(name)
        meta = json.loads((folder / "meta.json").read_text())
        options = CompileOptions(
            folder / "net.onnx",
            "stm32h7",
            meta["frontend"],
            output=directory,
            input_bits=meta["input_bits"],
            input_signed=meta["input_signed"],
        )
    compile_network(options, plugins)


def executed(directory: Path) -> tuple[dict[int, Blocks], dict[int, str]]:
    """Run the image once; return the blocks of each layer and the disassembly by address."""
    from dory_stm32h7.emulator.runner import Session

    plan, graph = read_plan(directory), read_graph(directory)
    layers = [
        simulate.LayerOutput(n["index"], n["name"], graph.tensors[n["output"]["name"]])
        for n in plan["layers"]
    ]
    session = Session(directory, simulate.RunRequest(layers, [{}]))
    found: dict[int, Blocks] = {}
    before: Blocks = {}

    def start(machine: Any) -> None:
        before.clear()
        before.update(machine.blocks)

    def layer(machine: Any) -> None:
        now = machine.blocks
        count = {b: n - before.get(b, 0) for b, n in now.items() if n != before.get(b, 0)}
        found[machine.argument(0)] = count
        start(machine)

    session.machine.at("dory_network_run", start)
    session.machine.at("board_layer", layer)
    session.run(600)
    image = next((directory / "build").rglob("app.elf"))
    listing = subprocess.run(
        ["llvm-objdump", "-d", "--no-show-raw-insn", "--mcpu=cortex-m7", str(image)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = (re.match(r"^\s*([0-9a-f]+):\s+(\S.*)$", line) for line in listing.splitlines())
    return found, {int(m[1], 16): m[2] for m in lines if m}


def mca_cycles(lines: list[str]) -> float:
    """Return the cycles of a block as llvm-mca sees them."""
    code = [re.sub(r"<.*>", "", line) for line in lines]
    code = [re.sub(r"(?<=\s)(0x[0-9a-f]+|#-?\d+)\s*$", "0", c) if c[0] in "bc" else c for c in code]
    done = subprocess.run(
        ["llvm-mca", "-mtriple=thumbv7em-none-eabihf", "-mcpu=cortex-m7", "-iterations=100"],
        input=".syntax unified\n.thumb\n" + "\n".join(code) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    total = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    return int(total[1]) / 100 if total else pipeline.cycles(lines)


class Weights:
    """Cycles of blocks, each computed once."""

    def __init__(self, code: dict[int, str], mca: bool) -> None:
        self._code, self._mca = code, mca
        self._known: dict[tuple[int, int], tuple[int, float]] = {}

    def of(self, block: tuple[int, int]) -> tuple[int, float]:
        """Return instructions and cycles of a block."""
        if block not in self._known:
            start, size = block
            lines = [self._code[a] for a in range(start, start + size, 2) if a in self._code]
            model = mca_cycles if self._mca else pipeline.cycles
            self._known[block] = len(lines), model(lines)
        return self._known[block]


def measure(directory: Path, mca: bool) -> list[dict[str, Any]]:
    """Return the figures of every layer of an application."""
    found, code = executed(directory)
    weights = Weights(code, mca)
    rows = []
    for layer in read_plan(directory)["layers"]:
        blocks = found[layer["index"]]
        instructions = sum(n * weights.of(b)[0] for b, n in blocks.items())
        cycles = sum(n * weights.of(b)[1] for b, n in blocks.items())
        estimate = layer["estimate"]
        rows.append(
            {
                "index": layer["index"],
                "name": layer["name"],
                "kernel": layer["kernel"],
                "macs": layer["macs"],
                "instructions": instructions,
                "cycles": cycles,
                "estimate": estimate["compute_cycles"],
                "stalls": estimate["cycles"] - estimate["compute_cycles"],
            }
        )
    return rows


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """Print the rows of a network, totals by kernel, and all."""
    print(f"{name}")
    kernels: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for row in rows:
        share = row["cycles"] / row["macs"] if row["macs"] else 0.0
        print(
            f"  {row['index']:3d} {row['kernel'][5:]:24s} {row['instructions']:10d} insn "
            f"{row['cycles']:10.0f} cycles {share:5.2f}/MAC  plan {row['estimate']:10d} "
            f"x{row['estimate'] / row['cycles']:.2f}"
        )
        keys = ("macs", "instructions", "cycles", "estimate")
        sums = kernels[row["kernel"]]
        kernels[row["kernel"]] = [s + row[k] for s, k in zip(sums, keys, strict=True)]
    for kernel, (macs, instructions, cycles, estimate) in kernels.items():
        print(
            f"  {kernel[5:]:28s} {macs / 1e6:8.2f} M MAC {instructions / 1e6:8.2f} M insn "
            f"{cycles / 1e6:8.2f} M cycles  plan x{estimate / cycles:.2f}"
        )
    cycles = sum(row["cycles"] for row in rows)
    stalls = sum(row["stalls"] for row in rows)
    plan = sum(row["estimate"] for row in rows) + stalls
    print(
        f"  all: model {cycles / 1e6:.2f} M + stalls {stalls / 1e6:.2f} M = "
        f"{(cycles + stalls) / 1e6:.2f} M cycles, plan {plan / 1e6:.2f} M"
    )


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--mca", action="store_true", help="use llvm-mca")
    parser.add_argument("--json", type=Path, help="write all figures there")
    arguments = parser.parse_args()
    if shutil.which("llvm-objdump") is None:
        print("needs llvm-objdump: apt-get install llvm", file=sys.stderr)
        return 6
    plugins = load_plugins()
    found = {}
    for name in arguments.networks:
        with tempfile.TemporaryDirectory(prefix="dory-m7-") as folder:
            directory = Path(folder, "app")
            compile_app(name, directory, plugins)
            found[name] = measure(directory, arguments.mca)
        show(name, found[name])
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
