"""Tiles that violate the heuristics, on GAP8: figure 8 of the IEEE TC 2021 paper.

python benchmarks/bench_tile_ablation.py [--image FILE] [--markdown FILE]

A 3x3 convolution with 32 input channels, operands in L1. Rates are those of the cycle models of
PULP-NN and of dory's own kernels.
"""

from __future__ import annotations

import sys

from dory_gap8.backend import candidates
from dory_gap8.pulp_nn import cycles as upstream
from figures import chart, parser, publish

from dory_core.ir import Layer, Window
from dory_core.ir.geometry import make_tile
from dory_core.testing.graphs import GraphBuilder

CORES = 8
C_IN = 32
# Rows, columns, channels of the output tile.
TILES = {
    "keeps all": [(24, 4, 32)],
    "PAR_BALANCE": [(25, 4, 32), (20, 4, 32), (17, 4, 32), (12, 8, 32)],
    "MATMUL_W": [(24, 5, 32), (24, 3, 32), (24, 1, 32)],
    "MATMUL_CH": [(24, 4, 33), (24, 4, 31), (24, 4, 30)],
    "HIDE_IM2COL": [(24, 4, 16), (24, 4, 8), (24, 4, 4)],
    "all of them": [(25, 5, 33)],
}


def layer(h: int, w: int, c_out: int) -> Layer:
    """Return the layer whose output is one tile."""
    net = GraphBuilder((C_IN, h, w), seed=1)
    net.conv(c_out, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    return net.graph().layer(0)


def rates(h: int, w: int, c_out: int) -> tuple[float, float]:
    """Return MAC per cycle of PULP-NN and of the first of dory's kernels that takes the tile."""
    macs = h * w * c_out * 9 * C_IN
    one = layer(h, w, c_out)
    kernel = next(k for k in candidates(one, CORES) if k.accepts(one) is None)
    own = int(kernel.cycles(one, make_tile(one, c_out, h, w)))
    return macs / upstream.conv(h, w, c_out, 9 * C_IN, 32, CORES), macs / own


def main() -> int:
    """Print the table."""
    options = parser(__doc__.splitlines()[0]).parse_args()
    best = rates(24, 4, 32)
    rows = []
    for name, tiles in TILES.items():
        for tile in tiles:
            found = rates(*tile)
            rows += [
                {
                    "violates": name,
                    "tile": "x".join(map(str, tile)),
                    "kernels": kernels,
                    "MAC/cycle": rate,
                    "of the best": rate / top,
                }
                for kernels, rate, top in zip(("PULP-NN", "dory"), found, best, strict=True)
            ]
    words = "Output tiles in rows x columns x channels, 3x3 filters, 32 input channels, 8 cores."
    spec = chart("MAC per cycle by output tile", rows, "tile", "MAC/cycle", "kernels")
    publish(options, "Tiles and heuristics on GAP8", words, rows, spec)
    return 0


if __name__ == "__main__":
    sys.exit(main())
