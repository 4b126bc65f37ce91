"""Time and result of tiling the layers of MobileNetV1-1.0-128: run it as a script.

python benchmarks/bench_tiling.py [--budget BYTES] [--objective heuristic|latency]

Kernel and memories are those of the tests: the cycles are what the tiler sees, not those of a chip.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.ir import AvgPool, Layer, Window
from dory_core.kernels.binding import bind_layer
from dory_core.tiling.tiler import Tiler
from tests.tiling.sample_layers import SampleKernel, conv, linear, paper_terms, pool

HIERARCHY = MemoryHierarchy(
    (Level(1, (Memory("near", 65536),)), Level(2, (Memory("far", 524288),))),
    (Link(1, 2, setup_cycles=26, bytes_per_cycle=8.0, row_cycles=1.0, issue_cycles=10),),
    cores=8,
)


def mobilenet() -> list[Layer]:
    """Return the layers of MobileNetV1 with a 128x128 image."""
    layers = [conv(3, 32, (128, 128), strides=(2, 2), name="Conv_0")]
    size, channels = 64, 32
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5]
    for outputs, stride in [*blocks, (1024, 2), (1024, 1)]:
        square = (size, size)
        layers.append(conv(channels, channels, square, strides=(stride,) * 2, groups=channels))
        size //= stride
        layers.append(conv(channels, outputs, (size, size), (1, 1), pads=(0, 0, 0, 0)))
        channels = outputs
    layers.append(pool(AvgPool, 1024, (4, 4), Window(kernel=(4, 4), strides=(4, 4))))
    return [*layers, linear(1024, (1, 1), 1000)]


def main() -> None:
    """Print one line per layer and the total time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=40000, help="bytes of L1")
    parser.add_argument("--objective", default="heuristic", choices=("heuristic", "latency"))
    options = parser.parse_args()
    kernel = SampleKernel()
    start = time.perf_counter()
    tiler = Tiler(HIERARCHY, lambda la, k, t: paper_terms(la, k)(t), options.objective)
    cycles = 0
    for index, layer in enumerate(mobilenet()):
        before = time.perf_counter()
        tiled = tiler.tile(bind_layer(layer, (kernel,)), options.budget)
        took = 1e3 * (time.perf_counter() - before)
        tile, cost = tiled.tiling.tile, tiled.estimate
        cycles += cost.cycles
        sizes = f"{tile.c_out}x{tile.h}x{tile.w}"
        print(
            f"{index:3d} {layer.op.kind:8s} tile {sizes:12s} x{tiled.schedule.count:<4d} "
            f"{tiled.tiling.buffering.text} {tiled.schedule.order:15s} "
            f"{cost.cycles:9d} cycles {cost.macs_per_cycle:6.2f} MAC/cycle {cost.bound:8s} "
            f"{took:7.1f} ms  {tiled.tiling.proof if options.objective == 'latency' else ''}"
        )
    print(f"{cycles} cycles, {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
