"""Depthwise layers of MobileNetV1 on GAP8 in three layouts: figure 9 of the IEEE TC 2021 paper.

python benchmarks/bench_layouts.py [--image FILE] [--markdown FILE]

HWC: tiles as they lie in L2, transposed in registers (dory's kernel). CHW in L1: the DMA changes
the layout with rows of one byte (dory's general kernel; PULP-NN's, which is the paper's hybrid).
Estimates from L2 to L2, transfers included.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dory_gap8.backend.depthwise import DepthwiseKernel
from dory_gap8.backend.depthwise_hwc import DepthwiseHwcKernel
from dory_gap8.objective import terms
from dory_gap8.pulp_nn import Library
from dory_gap8.pulp_nn.weighted import UpstreamDepthwise
from figures import chart, parser, publish

from dory_core.ir import Layer, Window
from dory_core.kernels.binding import bind_layer
from dory_core.kernels.kernel import Kernel
from dory_core.plugins.manager import load_plugins
from dory_core.testing.graphs import GraphBuilder
from dory_core.tiling.tiler import Tiler

CORES = 8
# Channels, rows and columns of the input, stride.
LAYERS = (
    (32, 64, 64, 1),
    (64, 64, 64, 2),
    (128, 32, 32, 1),
    (128, 32, 32, 2),
    (256, 16, 16, 1),
    (512, 8, 8, 1),
    (1024, 4, 4, 1),
)
KERNELS: dict[str, Kernel] = {
    "HWC": DepthwiseHwcKernel(CORES),
    "CHW, dory": DepthwiseKernel(CORES),
    "CHW, PULP-NN": UpstreamDepthwise(Library(Path("pulp-nn"), 32), CORES),
}


def layer(channels: int, h: int, w: int, stride: int) -> Layer:
    """Return a 3x3 depthwise layer."""
    net = GraphBuilder((channels, h, w), seed=1)
    window = Window(kernel=(3, 3), strides=(stride, stride), pads=(1, 1, 1, 1))
    net.conv(channels, window, groups=channels)
    return net.graph().layer(0)


def main() -> int:
    """Print the table."""
    options = parser(__doc__.splitlines()[0]).parse_args()
    memory = load_plugins().context("gap8", {}).memory
    budget = memory.level(1).usable_bytes
    rows = []
    for shape in LAYERS:
        one = layer(*shape)
        name = "{}x{}x{} /{}".format(*shape)
        for layout, kernel in KERNELS.items():
            tiler = Tiler(memory, lambda a, k, t: terms(a, k, t, CORES))
            found = tiler.tile(bind_layer(one, [kernel]), budget).estimate
            rows.append(
                {
                    "C x H x W / stride": name,
                    "layout": layout,
                    "MAC/cycle": found.macs_per_cycle,
                    "cycles": found.cycles,
                    "of them stalls": found.stall_cycles,
                }
            )
    spec = chart("Depthwise layers", rows, "C x H x W / stride", "MAC/cycle", "layout")
    words = "3x3 depthwise layers, 8 cores, estimates from L2 to L2."
    publish(options, "Layouts of depthwise layers on GAP8", words, rows, spec)
    return 0


if __name__ == "__main__":
    sys.exit(main())
