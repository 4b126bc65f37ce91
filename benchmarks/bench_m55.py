"""Instructions of networks on QEMU's Corstone-300, beside the estimates of the Cortex-M55.

    python benchmarks/bench_m55.py [NETWORK ...] [--layers]

A network is a directory below ../shared/nets_tflite; by default the four of MLPerf Tiny. Meanwhile
every layer is compared with TensorFlow Lite Micro. Where CMSIS_NN_PATH names the sources of
CMSIS-NN, the same with its kernels: then instructions are also shown of the layers alone that it
computes, with both.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import load_plugins
from dory_core.tools import read_plan

NETWORKS = Path(__file__).resolve().parents[2] / "shared" / "nets_tflite"
MLPERF = (
    "mlperf_ad01_int8",
    "mlperf_kws_ref_model",
    "mlperf_pretrainedResnet_quant",
    "mlperf_vww_96_int8",
)


@dataclass(frozen=True)
class Measured:
    """An image that was run.

    Attributes:
        macs: Products of the network.
        cycles: Estimated cycles of the network.
        layers: Layers as plan.json has them.
        counts: Instructions of each layer, by index.
    """

    macs: int
    cycles: int
    layers: list[dict[str, Any]]
    counts: dict[int, int]


def measure(name: str, kernels: str) -> Measured:
    """Compile a network and run it on QEMU. Raises AssertionError unless every layer is exact."""
    plugins, folder = load_plugins(), NETWORKS / name
    with tempfile.TemporaryDirectory() as app:
        options = CompileOptions(
            folder / "net.tflite",
            "cortex_m55",
            "tflite",
            Path(app, "app"),
            golden=(folder / "golden.npz",),
            settings={"kernels": kernels},
        )
        plan = compile_network(options, plugins).plan
        document = read_plan(Path(app, "app"))
        result = run_application(Path(app, "app"), plugins=plugins, runner="qemu")
    assert result.exact, f"{name}: a layer differs"
    counts = {layer.index: layer.instructions or 0 for layer in result.runs[0].layers}
    return Measured(plan.macs, plan.cycles, document["layers"], counts)


def show(name: str, layers: bool, library: str) -> None:
    """Print the row of a network, and those of its layers."""
    ours = measure(name, "builtin")
    numbers = [ours.macs, ours.cycles, sum(ours.counts.values())]
    theirs = measure(name, f"cmsis-nn={library}") if library else ours
    taken = [one["index"] for one in theirs.layers if one["kernel"].startswith("arm_")]
    cells = [f"{number / 1e6:.2f}" for number in numbers]
    if library:
        own, other = (sum(one.counts[n] for n in taken) for one in (ours, theirs))
        cells += [f"{own / 1e6:.3f}", f"{other / 1e6:.3f}", f"{own / other:.2f}"]
    print(f"| {name} | {' | '.join(cells)} |")
    for one in ours.layers if layers else ():
        index, cycles = one["index"], one["estimate"]["cycles"]
        other = f" {theirs.counts[index]:9}" if index in taken else ""
        print(f"    {index:02d} {one['kind']:8} {cycles:9} {ours.counts[index]:9}{other}")


def main() -> None:
    """Measure the networks that were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=MLPERF)
    parser.add_argument("--layers", action="store_true", help="each layer: cycles, instructions")
    arguments = parser.parse_args()
    if not NETWORKS.is_dir():
        print(f"no networks: {NETWORKS} is not there")
        return
    library = os.environ.get("CMSIS_NN_PATH", "")
    heads = ["network", "MMAC", "estimate, M cycles", "instructions on QEMU, M"]
    if library:
        heads += ["of layers of CMSIS-NN", "with CMSIS-NN", "ratio"]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name in arguments.networks:
        show(name, arguments.layers, library)


if __name__ == "__main__":
    main()
