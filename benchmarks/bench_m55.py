"""Instructions of networks on QEMU's Corstone-300, beside the estimates of the Cortex-M55.

    python benchmarks/bench_m55.py [NETWORK ...] [--layers]

A network is a directory below ../shared/nets_tflite; by default the four of MLPerf Tiny. Meanwhile
every layer is compared with TensorFlow Lite Micro.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

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


def measure(name: str, layers: bool) -> None:
    """Print the row of a network, and those of its layers."""
    plugins, folder = load_plugins(), NETWORKS / name
    with tempfile.TemporaryDirectory() as app:
        golden = (folder / "golden.npz",)
        options = CompileOptions(
            folder / "net.tflite", "cortex_m55", "tflite", Path(app, "app"), golden=golden
        )
        plan = compile_network(options, plugins).plan
        document = read_plan(Path(app, "app"))
        result = run_application(Path(app, "app"), plugins=plugins, runner="qemu")
    assert result.exact, f"{name}: a layer differs"
    counts = {layer.index: layer.instructions or 0 for layer in result.runs[0].layers}
    numbers = (plan.macs, plan.cycles, sum(counts.values()))
    print(f"| {name} | {' | '.join(f'{number / 1e6:.2f}' for number in numbers)} |")
    for one in document["layers"] if layers else ():
        cycles = one["estimate"]["cycles"]
        print(f"    {one['index']:02d} {one['kind']:8} {cycles:9} {counts[one['index']]:9}")


def main() -> None:
    """Measure the networks that were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=MLPERF)
    parser.add_argument("--layers", action="store_true", help="each layer: cycles, instructions")
    arguments = parser.parse_args()
    if not NETWORKS.is_dir():
        print(f"no networks: {NETWORKS} is not there")
        return
    print("| network | MMAC | estimate, M cycles | instructions on QEMU, M |")
    print("| --- | --- | --- | --- |")
    for name in arguments.networks:
        measure(name, arguments.layers)


if __name__ == "__main__":
    main()
