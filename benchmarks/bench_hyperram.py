"""Waiting for the level below L2: networks whose activations do not fit L2, on GAP8.

python benchmarks/bench_hyperram.py [--size 224] [--width 1.0] [--l2 BYTES] [--seed N]

MobileNetV2 (Sandler et al., CVPR 2018, table 2) with random weights, quantised as NEMO exports it:
of images of 224 x 224 its first layers have tensors of up to 1.2 MB, which pass through the
HyperRAM. Per layer: parts, cycles of the cores, cycles of waiting for the link, bytes that the link
moves for it, and the least cycles of the layer alone, when the link and the cores overlap entirely.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from dory_nemo.testing import NemoBuilder

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plan import Plan
from dory_core.plugins.manager import load_plugins

#: Expansion, output channels, repetitions and stride of the blocks.
BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(
    size: int, width: float = 1.0, classes: int = 1000, seed: int = 0, blocks: int = len(BLOCKS)
) -> NemoBuilder:
    """Return MobileNetV2 of images of size x size. blocks: so many rows of :data:`BLOCKS`."""
    builder = NemoBuilder((3, size, size), seed=seed).conv(
        _channels(32, width), 3, stride=2, pads=1
    )
    for expansion, channels, count, stride in BLOCKS[:blocks]:
        for number in range(count):
            _bottleneck(builder, expansion, _channels(channels, width), 1 if number else stride)
    builder.conv(max(1280, _channels(1280, width)) if blocks == len(BLOCKS) else 64, 1)
    return builder.avgpool().linear(classes, activation=False)


def _channels(channels: int, width: float) -> int:
    """Return scaled channels as a multiple of 8 that loses at most a tenth."""
    scaled = max(8, int(channels * width + 4) // 8 * 8)
    return scaled if scaled >= 0.9 * channels * width else scaled + 8


def _bottleneck(builder: NemoBuilder, expansion: int, channels: int, stride: int) -> None:
    source, inputs = builder.value, builder.shape[0]
    if expansion > 1:
        builder.conv(inputs * expansion, 1)
    builder.conv(builder.shape[0], 3, stride=stride, pads=1, groups=builder.shape[0])
    builder.conv(channels, 1)
    if stride == 1 and inputs == channels:
        builder.add(source)


def plan(path: Path, budgets: dict[int, int]) -> Plan:
    """Return the Plan of a network for GAP8."""
    options = CompileOptions(path, "gap8", "nemo", input_bits=8, budgets=budgets, plan_only=True)
    return compile_network(options, load_plugins()).plan


def rows(planned: Plan) -> list[tuple[str, ...]]:
    """Return a row of the table for each layer."""
    link = planned.ext
    moved: Counter[int] = Counter()
    if link is not None:
        users = {p.position: n for n, s in enumerate(planned.steps) for p in s.parts}
        for one in planned.transfers:
            at = one.wait if one.incoming else max(one.start - 1, 0)
            moved[users.get(at, len(planned.steps) - 1)] += one.size
    found = []
    for n, step in enumerate(planned.steps):
        cost, rate = step.estimate, link.bytes_per_cycle if link is not None else 1.0
        least = max(cost.cycles, round(moved[n] / rate))
        numbers = (len(step.parts), cost.cycles, planned.timeline.stalls[n], moved[n], least)
        y = step.layer.output
        title = f"{step.index:02d} {step.kernel.symbol}"[:38]
        found.append((title, f"{y.channels}x{y.height}x{y.width}", *map(str, numbers)))
    return found


def main() -> None:
    """Print the table of a network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--l2", type=int, default=0, help="bytes of L2, 0: those of the chip")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dory-bench-") as folder:
        path = Path(folder, "net.onnx")
        mobilenet_v2(arguments.size, arguments.width, seed=arguments.seed).save(path)
        start = time.process_time()
        planned = plan(path, {2: arguments.l2} if arguments.l2 else {})
        seconds = time.process_time() - start
    print(
        f"{'layer':<39}{'output':>12}{'parts':>6}{'cores':>10}{'waits':>10}{'bytes':>10}{'least':>10}"
    )
    for title, shape, *numbers in rows(planned):
        parts, *rest = numbers
        print(f"{title:<39}{shape:>12}{parts:>6}" + "".join(f"{number:>10}" for number in rest))
    waits = sum(planned.timeline.stalls)
    print(
        f"{planned.cycles} cycles, of which {waits} wait for the level below "
        f"({100 * waits / planned.cycles:.1f} %); {planned.macs / planned.cycles:.2f} MAC/cycle, "
        f"{planned.levels[1].used} B of L2, {seconds:.1f} s of CPU"
    )


if __name__ == "__main__":
    main()
