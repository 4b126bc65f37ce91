"""Kernels are asked about whole layers, also where a part of one runs."""

from __future__ import annotations

import ast
from pathlib import Path

import dory_core
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.ir import Layer, Window
from dory_core.kernels.binding import BoundGraph, bind_layer
from dory_core.kernels.kernel import Kernel
from dory_core.testing.graphs import GraphBuilder
from dory_core.tiling.network import tile_graph
from dory_core.tiling.outer import Split
from dory_core.tiling.parts import Tilings
from dory_core.tiling.tiler import Tiler
from tests.tiling.sample_layers import SampleKernel

CHIP = MemoryHierarchy(
    (Level(1, (Memory("near", 4096),)), Level(2, (Memory("far", 1 << 20),))),
    (Link(1, 2, setup_cycles=26, bytes_per_cycle=8.0),),
)


class WholeKernel(SampleKernel):
    """Its scratch memory depends on the size of the layer, as a kernel's may."""

    def __init__(self) -> None:
        super().__init__("whole")
        self.asked: set[tuple[str, tuple[int, int, int]]] = set()

    def _noted(self, what: str, layer: Layer) -> None:
        self.asked.add((what, layer.output.shape))

    def symbol(self, layer):
        self._noted("symbol", layer)
        return f"sample_{layer.output.width}"

    def constraints(self, layer, tile):
        self._noted("constraints", layer)
        return ()

    def scratch_bytes(self, layer, tile):
        self._noted("scratch_bytes", layer)
        return 8 * layer.output.width + 8 * layer.output.channels

    def weight_bytes(self, layer, tile):
        self._noted("weight_bytes", layer)
        return 8 * tile.c_out

    def cycles(self, layer, tile):
        self._noted("cycles", layer)
        return tile.h * tile.w * tile.c_out


def test_a_kernel_of_a_part_is_asked_about_the_whole_layer() -> None:
    b = GraphBuilder((4, 1, 64))
    b.conv(32, Window(kernel=(1, 3), pads=(0, 1, 0, 1)))
    kernel = WholeKernel()
    graph = b.graph()
    [layer] = graph.layers
    tiler = Tiler(CHIP, lambda *_: ())
    bound = BoundGraph(graph, (bind_layer(layer, [kernel]),))
    tilings = Tilings(tile_graph(bound, tiler, 4096), tiler, 4096)
    for split in (Split(stripes=4), Split(groups=4), Split(stripes=2, groups=2)):
        part = tilings.part(0, split)
        assert part.layer.output.shape != layer.output.shape
        assert tilings.part(0, split) is part
        [scratch] = [b.bytes for b in part.tiling.buffers if b.name == "scratch"]
        assert scratch == 8 * 64 + 8 * 32
    assert {shape for _, shape in kernel.asked} == {layer.output.shape}
    assert len(kernel.asked) == 5


def test_costs_of_a_layer_are_made_when_it_is_tiled_and_shared_by_its_parts() -> None:
    b = GraphBuilder((4, 16, 16))
    b.conv(32, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    graph = b.graph()
    [layer] = graph.layers
    tiler = Tiler(CHIP, lambda *_: ())
    bound = BoundGraph(graph, (bind_layer(layer, [SampleKernel()]),))
    tilings = Tilings(tile_graph(bound, tiler, 4096), tiler, 4096)
    costs = tilings.best[0].costs
    assert costs.layer is layer
    assert tilings.part(0, Split(stripes=4)).costs is costs
    assert tilings.part(0, Split(groups=4)).costs is costs
    assert costs.in_loops(tilings.best[0].schedule) is costs  # the link moves everything


#: What a kernel answers for a layer. Whether it accepts one is asked of parts, too.
ANSWERS = {
    *("traits", "constraints", "scratch_bytes", "weight_bytes", "weight_block", "cycles"),
    *("symbol", "call", "headers", "sources", "accesses", "code_bytes", "accepts", "terms"),
}


def test_nothing_but_binding_asks_kernels() -> None:
    assert set(Kernel.__dict__) >= ANSWERS - {"accesses"}
    root = Path(dory_core.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] in ("testing", "kernels") or str(name) == "binding.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = node.func.value
            text = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if text == "kernel" and node.func.attr in ANSWERS:
                found.append(f"{name}:{node.lineno}")
    assert not found
