"""MobileNetV1-1.0-128 on GAP8 over the clocks of cluster and fabric: figure 10 of the IEEE TC 2021
paper.

python benchmarks/bench_clocks.py [--image FILE] [--markdown FILE]

Estimates at 1.2 V; the rate of L3 follows the clock of the fabric. The same as a command:

    dory compare net.onnx --frontend nemo --targets gap8 --set operating_point=1.2V \
        --vary f_io=50,100,150,250 --vary f_cluster=25,50,100,175
"""

from __future__ import annotations

import sys

from collection import folder_of, is_missing
from dory_report.comparison.executors import run_processes
from dory_report.comparison.points import Study, grid
from figures import chart, parser, publish

NETWORK = "nemo_mv1_100_128"
F_IO_MHZ = ("50", "100", "150", "250")
F_CLUSTER_MHZ = ("25", "50", "100", "175")
PROCESSES = 2


def main() -> int:
    """Print the table."""
    options = parser(__doc__.splitlines()[0]).parse_args()
    if is_missing(NETWORK):
        return 0
    onnx = folder_of(NETWORK) / "net.onnx"
    study = Study(onnx, "nemo", onnx.read_bytes(), settings={"operating_point": "1.2V"})
    points = grid(["gap8"], {"f_io": F_IO_MHZ, "f_cluster": F_CLUSTER_MHZ})
    outcomes = run_processes(study, points, lambda done, total: None, PROCESSES)
    rows = []
    for outcome in outcomes:
        assert outcome.totals is not None, outcome.reason
        clocks, totals = dict(outcome.point.variation), outcome.totals
        rows.append(
            {
                "f_io MHz": clocks["f_io"],
                "f_cluster MHz": int(clocks["f_cluster"]),
                "MAC/cycle": totals["macs_per_cycle"],
                "ms": totals["latency_ms"],
                "mJ": totals["energy_mj"],
                "mW": totals["energy_mj"] / totals["latency_ms"] * 1e3,
            }
        )
    line = {"type": "line", "point": True}
    spec = chart("MAC per cycle", rows, "f_cluster MHz", "MAC/cycle", "f_io MHz", **line)
    words = "Estimates at 1.2 V. Energy counts the cycles of the cluster alone."
    publish(options, "Clocks of cluster and fabric", words, rows, spec)
    return 0


if __name__ == "__main__":
    sys.exit(main())
