"""Write docs/kernels.md: the kernels of every target, and the types that they take.

    python docs/kernels.py            writes it
    python docs/kernels.py --check    says which targets are stale, status 1 when one is

Names and sentences are those of the kernels' records. The types are those of sample layers that a
kernel accepts: all layers of the conformance kit, and layers as arrays of multipliers take them.
Sections of targets that are not installed stay as they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path

from dory_core.ir import Layer, Requant, Window, requant
from dory_core.ir.tensor import HALVES
from dory_core.kernels.binding import rejection_of
from dory_core.kernels.kernel import Kernel
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.cases import layer_cases, network_cases
from dory_core.testing.graphs import GraphBuilder, Range
from dory_core.testing.precisions import TYPES, WEIGHTS, precision_cases

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kernels.md"
_TYPES = ("u2", "i2", "u4", "i4", "u8", "i8", "u16", "i16", "i32", HALVES)
_PORTABLE = "dory_portable_"
_INTRODUCTION = """\
# Kernels of the targets

Written by `python docs/kernels.py` from the records of the kernels. Of the kernels that accept a
layer the first one is used. Types are those of sample layers that the kernel accepts, `u4` for
unsigned values in 4 bits, `u8x2` for sums of two bytes that are stored as two bytes. A kernel may
have more conditions, on shapes, strides or requantisation:
`dory check net.onnx --frontend F --target T -v` says for each layer why a kernel does not take it.
Every target also has the portable kernels, in plain C.
"""


@dataclass(slots=True)
class _Row:
    """What is known about a kernel; the sets hold types, of weights their bits."""

    kernel: Kernel
    inputs: set[str] = field(default_factory=set)
    weights: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)

    def add(self, layer: Layer, kernel: Kernel) -> None:
        """Take the types of a layer unless they all are known, if the kernel accepts it."""
        bits = getattr(layer.op, "weight_bits", None)
        inputs = {tensor.type_name for tensor in layer.inputs}
        outputs = {layer.output.type_name}
        weights = set() if bits is None else {f"i{bits}"}
        known = inputs <= self.inputs and outputs <= self.outputs and weights <= self.weights
        if not known and rejection_of(kernel, layer) is None:
            self.inputs |= inputs
            self.outputs |= outputs
            self.weights |= weights


class _ArrayBuilder(GraphBuilder):
    """Requantisations that arrays of multipliers compute: per channel a factor, a sum, a shift.

    Behind ternary weights, sums go through converters of six bits first.
    """

    ternary = False

    def _requants(
        self,
        channels: int,
        sums: tuple[float, float],
        output: Range | None,
        wide: bool,
        div: int | None,
        per_channel: bool,
    ) -> tuple[Requant, ...]:
        lo, hi = output or (-128, 127)
        step = requant([2] * channels, [0] * channels, 64, lo, hi)
        return (requant(1, 0, 16, -32, 31), step) if self.ternary else (step,)


def _array_layers() -> Iterator[Layer]:
    """Yield layers as arrays of multipliers take them, of 7 and 8 bits."""
    three = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    for ternary, values in product((False, True), ((0, 127), (-64, 63), (-128, 127))):
        b = _ArrayBuilder((16, 4, 4), values=values, name="arrays")
        b.ternary = ternary
        weights = (-1, 1) if ternary else (-30, 30)
        first = b.conv(16, three, weights=weights, output=values)
        second = b.conv(16, three, weights=weights, output=values, groups=16)
        if not ternary:
            b.add(first, second, operands=(None, None), requants=(requant(1, 0, 2, *values),))
        b.linear(10, weights=weights, output=values)
        yield from b.graph().layers


def _aligned_layers() -> Iterator[Layer]:
    """Yield layers of all types with channels that fill whole words."""
    windows = (Window(kernel=(1, 1)), Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    for x, y, w in product(TYPES, TYPES, WEIGHTS):
        b = GraphBuilder((16, 4, 4), values=x, name="aligned")
        for window, groups in product(windows, (1, 16)):
            b.conv(16, window, source="input", groups=groups, output=y, weights=w)
        b.linear(8, source="input", output=y, weights=w)
        yield from b.graph().layers


def _halved_layers() -> Iterator[Layer]:
    """Yield layers that write and read sums of bytes in two halves."""
    b = GraphBuilder((16, 4, 4), name="halves")
    first, second = (b.conv(16, Window(kernel=(1, 1)), source="input") for _ in range(2))
    total = b.add(first, second, operands=(None, None), requants=())
    b.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)), source=total)
    b.conv(8, Window(kernel=(1, 1)), source=total)
    graph = b.graph()
    halved = {total: replace(graph.tensors[total], halves=True)}
    yield from replace(graph, tensors=graph.tensors | halved).layers[2:]


def _first_layers() -> Iterator[Layer]:
    """Yield layers of all types on images of three channels."""
    for x, y, w in product(TYPES, TYPES, WEIGHTS):
        b = GraphBuilder((3, 8, 8), values=x, name="first")
        b.conv(8, Window(kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1)), output=y, weights=w)
        yield from b.graph().layers


@cache
def samples() -> list[Layer]:
    """Return the layers that kernels are asked about."""
    cases = (*precision_cases(), *layer_cases(), *network_cases())
    layers = (layer for case in cases for layer in case.build().layers)
    made = (_aligned_layers, _first_layers, _array_layers, _halved_layers)
    return [*layers, *(layer for layers_of in made for layer in layers_of())]


def is_portable(kernel: Kernel) -> bool:
    """Return True for a kernel that every target has."""
    return kernel.name.startswith(_PORTABLE)


def sections(plugins: Plugins, names: tuple[str, ...]) -> dict[str, str]:
    """Return the section of each of the targets, and of the portable kernels, by heading."""
    layers = samples()
    found, portable = {}, dict[str, _Row]()
    for name in names:
        ctx = plugins.context(name)
        rows: dict[str, _Row] = {}
        for layer in layers:
            for kernel in plugins.kernels(ctx, layer):
                table = portable if is_portable(kernel) else rows
                table.setdefault(kernel.name, _Row(kernel)).add(layer, kernel)
        found[name] = f"{plugins.target(name).summary}\n\n{_table(rows)}"
    found["portable"] = (
        f"What every target offers for layers that its kernels reject.\n\n{_table(portable)}"
    )
    return found


def _table(rows: dict[str, _Row]) -> str:
    lines = [
        "| kernel | computes | inputs | weights | outputs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, row in sorted(rows.items()):
        sentence = row.kernel.summary[:1].upper() + row.kernel.summary[1:]
        types = (row.inputs, row.weights, row.outputs)
        cells = (" ".join(t for t in _TYPES if t in known) or "-" for known in types)
        lines.append(f"| `{name}` | {sentence} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(text: str) -> dict[str, str]:
    """Return the sections of the page by heading."""
    parts = re.split(r"^## (.*)\n\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.rstrip("\n") + "\n" for part in parts[2::2]), strict=True))


def targets(plugins: Plugins) -> tuple[str, ...]:
    """Return the targets of this repository that are installed, by name."""
    projects = (ROOT / "targets").glob("*/pyproject.toml")
    folders = {f"dory-{path.parent.name}".replace("_", "-") for path in projects}
    names = (target.name for target in plugins.targets())
    return tuple(n for n in names if plugins.provider("target", n).dist in folders)


def main(arguments: list[str]) -> int:
    """Write the page, or name the stale sections."""
    plugins = load_plugins()
    old = written(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    new = sections(plugins, targets(plugins))
    if "--check" in arguments:
        stale = [name for name, text in new.items() if old.get(name) != text]
        if stale:
            print(f"stale: {', '.join(stale)}; run python docs/kernels.py", file=sys.stderr)
        return bool(stale)
    joined = "".join(f"\n## {name}\n\n{text}" for name, text in sorted((old | new).items()))
    PAGE.write_text(_INTRODUCTION + joined, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
