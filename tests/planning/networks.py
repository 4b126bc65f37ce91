"""Networks with budgets of L2 that take every stage of the cascade, and which stages were taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.ir import Add, AvgPool, Conv, Graph, Linear, MaxPool, Window, requant
from dory_core.ir.geometry import is_channelwise
from dory_core.plan import LayerStep, Plan
from dory_core.plan.block_ids import BlockKind
from dory_core.plan.network import lower, lower_network
from dory_core.plugins.manager import Plugins
from dory_core.testing.graphs import U8, GraphBuilder
from tests.toy.chip import NAME

Pair = tuple[int, int]


def win(
    kernel: int | Pair,
    stride: int | Pair = 1,
    pads: int | tuple[int, int, int, int] = 0,
    dilation: int | Pair = 1,
) -> Window:
    """Return a window; pads: top, left, bottom, right."""

    def pair(value: int | Pair) -> Pair:
        return (value, value) if isinstance(value, int) else value

    four = (pads, pads, pads, pads) if isinstance(pads, int) else pads
    return Window(kernel=pair(kernel), strides=pair(stride), pads=four, dilations=pair(dilation))


def plan_graph(
    graph: Graph, plugins: Plugins, l2: int, l1: int | None = None, moves: str = ""
) -> Plan:
    """Plan a network for the chip within bytes of L2. moves: those that are switched off."""
    budgets = {2: l2, **({} if l1 is None else {1: l1})}
    setup = setup_for(plugins, NAME, {"moves": moves}, budgets=budgets)
    return run(graph, setup, after=IMPORTED)


def changed_plan(plan: Plan, **changes: Any) -> Plan:
    """Return a plan with other fields and their operations, as a wrong planner would make it."""
    plan = replace(plan, **changes)
    blocks = next(level.blocks for level in plan.levels if level.name == "L2")
    operations = lower_network(
        plan.steps,
        plan.transfers,
        plan.inputs,
        plan.outputs,
        plan.final_conversions,
        blocks,
        plan.states,
    )
    program = lower(plan.steps, operations, plan.any_core and plan.cores > 1)
    return replace(plan, program=program)


# -- stages ---------------------------------------------------------------------------------------

#: What plans of the cascade have, and a case of CASES with the bytes of L2 that shows it.
STAGES: Mapping[str, tuple[str, int]] = {
    "resident": ("chain", 60_000),
    "nothing": ("chain", 24_000),
    "x": ("chain", 9_500),
    "w": ("many_constants", 22_000),
    "y": ("chain", 9_500),
    "w and y": ("long_residual", 9_000),
    "x and w": ("pointwise_1021", 22_000),
    "x and y": ("residual", 12_000),
    "x, w and y": ("one_large_layer", 24_000),
    "residual spilled": ("residual", 18_000),
    "input in L3": ("input_and_output", 9_000),
    "output in L3": ("input_and_output", 9_000),
    "columns": ("temporal", 12_000),
    "add with one operand from L3": ("residual", 18_000),
    "add with both operands from L3": ("adds", 3_000),
    "max pool tiled": ("adds", 3_000),
    "average pool tiled": ("height_113", 6_000),
    "depthwise tiled": ("height_113", 6_000),
    "linear behind L3": ("temporal", 6_000),
    "linear in chunks": ("linears", 20_000),
    "constants again for every stripe": ("one_large_layer", 24_000),
    "input again for every group": ("many_filters", 20_000),
    "channels apart in groups": ("many_filters", 24_000),
    "channels apart in groups and stripes": ("many_filters", 14_000),
}


def stages(plan: Plan) -> set[str]:
    """Return what of the cascade a plan takes."""
    found = set() if plan.transfers else {"resident"}
    if any(t.block.kind is BlockKind.BACK for t in plan.transfers):
        found.add("residual spilled")
    if any(p.level == 3 for p in plan.inputs):
        found.add("input in L3")
    if any(p.level == 3 for p in plan.outputs):
        found.add("output in L3")
    for step in plan.steps:
        found |= _layer_stages(step, plan)
    return found


def _layer_stages(step: LayerStep, plan: Plan) -> set[str]:
    found = set()
    kind = step.layer.op
    x = [t.place.level == 3 for t in step.inputs]
    y = step.output.place.level == 3
    chunks = len(step.weights.chunks) if step.weights is not None else 0
    w = chunks > 1
    if plan.transfers and chunks:
        names = [n for n, there in (("x", any(x)), ("w", w), ("y", y)) if there]
        text = " and ".join(names) if len(names) < 3 else "x, w and y"
        found.add(text or "nothing")
    stripes = len(step.parts) // max(1, chunks)
    if w and is_channelwise(step.layer):
        found.add("channels apart in groups")
        if stripes > 1:
            found.add("channels apart in groups and stripes")
    if stripes > 1:
        if step.layer.output.height == 1:
            found.add("columns")
        if isinstance(kind, Add):
            found.add(f"add with {'both operands' if all(x) else 'one operand'} from L3")
        if isinstance(kind, MaxPool):
            found.add("max pool tiled")
        if isinstance(kind, AvgPool):
            found.add("average pool tiled")
        if isinstance(kind, Conv) and kind.groups > 1:
            found.add("depthwise tiled")
        if w and step.parts[0].chunk != step.parts[1].chunk:
            found.add("constants again for every stripe")
        if w and any(x) and step.parts[0].chunk == step.parts[1].chunk:
            found.add("input again for every group")
    if isinstance(kind, Linear) and any(x):
        found.add("linear behind L3")
    if isinstance(kind, Linear) and w:
        found.add("linear in chunks")
    return found


# -- networks -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A network and the budgets of L2 to plan it with."""

    name: str
    build: Callable[[], Graph]
    budgets: tuple[int, ...]

    def __str__(self) -> str:
        return self.name


def _chain() -> Graph:
    b = GraphBuilder((5, 37, 29), seed=11, name="chain")
    b.conv(12, win(3, 2, (1, 0, 1, 2)))
    b.conv(12, win(3, 1, 1), groups=12)
    b.conv(40, win(1))
    b.max_pool(win(2, 2))
    b.conv(24, win(3, 1, 1))
    b.avg_pool(win(3, 2, 1))
    b.linear(11)
    return b.graph()


def _pointwise_1021() -> Graph:
    b = GraphBuilder((24, 3, 5), seed=12, name="pointwise_1021")
    b.conv(1021, win(1))
    b.conv(7, win(1))
    return b.graph()


def _height_113() -> Graph:
    b = GraphBuilder((3, 113, 17), seed=13, name="height_113")
    b.conv(8, win(5, 1, 2))
    b.conv(8, win((7, 1), (2, 1), (3, 0, 2, 0)), groups=8)
    b.avg_pool(win((3, 2), (3, 2), (1, 0, 0, 1)))
    b.conv(6, win(3, 2, (0, 0, 1, 1)))
    return b.graph()


def _residual() -> Graph:
    b = GraphBuilder((8, 24, 20), seed=14, name="residual")
    stem = b.conv(16, win(3, 1, 1))
    x = b.conv(16, win(3, 1, 1), source=stem)
    x = b.conv(32, win(1), source=x)
    x = b.conv(32, win(3, 1, 1), groups=32, source=x)
    x = b.conv(16, win(1), source=x)
    x = b.add(x, stem, requants=(requant(1, 0, 128), requant(7, 0, 8, 0, 255)))
    b.conv(8, win(3, 2, 1), source=x)
    b.linear(9)
    return b.graph()


def _long_residual() -> Graph:
    """A large early value that waits while layers with other large values run."""
    b = GraphBuilder((4, 30, 22), seed=15, name="long_residual")
    stem = b.conv(16, win(1))
    x = b.max_pool(win(2, 2), source=stem)
    for channels in (48, 24, 48, 24):
        x = b.conv(channels, win(1), source=x)
    x = b.conv(16, win(3, 1, 1), source=x)
    y = b.max_pool(win(2, 2), source=stem)
    x = b.add(x, y)
    b.conv(6, win(1), source=x)
    return b.graph()


def _adds() -> Graph:
    b = GraphBuilder((12, 27, 21), seed=16, name="adds")
    one = b.conv(12, win(3, 1, 1), groups=12)
    total = b.add(one, "input")
    two = b.conv(12, win(1), source=total)
    total = b.add(two, total, requants=(requant(1, 0, 256), requant(9, 4, 8, 0, 255)))
    b.max_pool(win(3, 2, 1), source=total)
    return b.graph()


def _many_consumers() -> Graph:
    b = GraphBuilder((6, 25, 25), seed=17, name="many_consumers")
    x = b.conv(10, win(3, 1, 1))
    one = b.conv(10, win(1), source=x)
    two = b.conv(10, win(3, 1, 1), source=x)
    three = b.max_pool(win(3, 1, 1), source=x)
    total = b.add(one, two, requants=(requant(1, 0, 256), requant(9, 4, 8, 0, 255)))
    total = b.add(total, three, requants=(requant(1, 0, 256), requant(9, 4, 8, 0, 255)))
    total = b.add(total, x, requants=(requant(1, 0, 256), requant(9, 4, 8, 0, 255)))
    b.conv(5, win(5, (2, 3), (2, 1, 0, 2)), source=total)
    return b.graph()


def _temporal() -> Graph:
    b = GraphBuilder((6, 1, 331), seed=18, name="temporal")
    x = b.conv(20, win((1, 3), 1, (0, 2, 0, 0)))
    for dilation in (2, 8):
        y = b.conv(20, win((1, 3), 1, (0, 2 * dilation, 0, 0), (1, dilation)), source=x)
        x = b.add(y, x, requants=(requant(1, 0, 128), requant(7, 0, 8, 0, 255)))
    b.conv(20, win((1, 5), (1, 2), (0, 0, 0, 3)), groups=20, source=x)
    b.avg_pool(win((1, 4), (1, 4)))
    b.linear(6)
    return b.graph()


def _linears() -> Graph:
    b = GraphBuilder((7, 13, 11), seed=19, name="linears")
    b.conv(9, win(3, 1, 1))
    b.linear(61, output=U8, bias=True)
    b.linear(130, output=U8)
    b.linear(10)
    return b.graph()


def _input_and_output() -> Graph:
    b = GraphBuilder((3, 61, 47), seed=20, name="input_and_output")
    b.conv(4, win(3, 1, 1))
    b.conv(9, win(3, 2, 1))
    b.conv(5, win(1), output=None)
    return b.graph()


def _one_large_layer() -> Graph:
    b = GraphBuilder((40, 23, 19), seed=21, name="one_large_layer")
    b.conv(90, win(3, 1, 1))
    return b.graph()


def _two_outputs() -> Graph:
    b = GraphBuilder((5, 26, 18), seed=22, name="two_outputs")
    one = b.conv(8, win(3, 1, 1))
    two = b.conv(16, win(3, 2, 1), source=one)
    three = b.conv(32, win(1), source=two)
    b.conv(32, win(3, 1, 1), groups=32, source=three)
    b.conv(16, win(1))
    last = b.conv(9, win(3, 1, 1))
    return b.graph([one, last])


def _output_with_late_reader() -> Graph:
    b = GraphBuilder((4, 26, 18), seed=23, name="output_with_late_reader")
    stem = b.conv(8, win(3, 1, 1))
    x = b.conv(16, win(3, 2, 1), source=stem)
    for channels in (32, 16, 32):
        x = b.conv(channels, win(1), source=x)
    x = b.conv(8, win(1), source=x)
    y = b.avg_pool(win(3, 2, 1), source=stem)
    x = b.add(x, y)
    return b.graph([stem, x])


def _two_inputs() -> Graph:
    b = GraphBuilder((16, 25, 23), seed=24, name="two_inputs")
    other = b.extra_input()
    one = b.conv(16, win(3, 1, 1))
    two = b.conv(16, win(1), source=other)
    b.add(one, two)
    return b.graph()


def _late_input() -> Graph:
    b = GraphBuilder((4, 24, 24), seed=25, name="late_input")
    other = b.extra_input()
    x = b.conv(30, win(3, 1, 1), source="input")
    x = b.conv(30, win(3, 1, 1), source=x)
    x = b.conv(4, win(1), source=x)
    b.add(x, other)
    return b.graph()


def _much_padding() -> Graph:
    b = GraphBuilder((6, 9, 31), seed=26, name="much_padding")
    b.conv(10, win(3, 1, (4, 3, 2, 4)))
    b.conv(10, win(3, 2, (3, 0, 5, 1), (2, 1)), groups=10)
    b.conv(12, win((1, 3), 1, (2, 1, 3, 1)))
    return b.graph()


def _row_to_image() -> Graph:
    """A row whose padding makes an image of it."""
    b = GraphBuilder((60, 1, 120), seed=27, name="row_to_image")
    b.conv(4, win(3, 1, (2, 1, 3, 1)))
    b.conv(3, win(3, (1, 2), 1))
    return b.graph()


def _image_to_row() -> Graph:
    b = GraphBuilder((4, 11, 90), seed=28, name="image_to_row")
    b.conv(8, win((11, 3), 1, (0, 1, 0, 1)))
    b.conv(16, win((1, 5), 1, (0, 2, 0, 2)))
    b.conv(300, win(1))
    return b.graph()


def _same_twice() -> Graph:
    b = GraphBuilder((10, 19, 16), seed=29, name="same_twice")
    x = b.conv(14, win(3, 1, 1))
    x = b.add(x, x, requants=(requant(1, 0, 256), requant(9, 4, 8, 0, 255)))
    b.conv(14, win(1), source=x)
    return b.graph()


def _wide_values() -> Graph:
    b = GraphBuilder((10, 19, 16), seed=30, name="wide_values", values=(0, 1020))
    x = b.conv(12, win(3, 1, 1), wide=True)
    y = b.conv(12, win(1), source=x, output=(0, 3000))
    x = b.add(y, x, requants=())
    b.conv(21, win(3, 2, 1), source=x, bias=True)
    b.conv(50, win(1), output=None)
    return b.graph()


def _many_constants() -> Graph:
    """Constants that are dear to fetch again, behind an input that is not."""
    b = GraphBuilder((64, 12, 12), seed=32, name="many_constants")
    b.conv(64, win(3, 3, 1))
    return b.graph()


def _many_filters() -> Graph:
    """Large filters of single channels, some with two or three outputs."""
    b = GraphBuilder((40, 12, 11), seed=34, name="many_filters")
    b.conv(80, win(5, 1, 2), groups=40)
    b.conv(80, win(7, (2, 1), 3), groups=80)
    b.conv(240, win((3, 5), 2, 1), groups=80)
    b.conv(12, win(1))
    return b.graph()


def _mixed_multipliers() -> Graph:
    """The multipliers of the first channels are small, one of the last needs 64 bits."""
    b = GraphBuilder((16, 6, 6), seed=31, name="mixed_multipliers")
    b.conv(64, win(3, 1, 1))
    conv = b._layers[-1]
    assert isinstance(conv, Conv)
    step = conv.requants[0]
    mul = [m << 8 for m in step.mul]
    mul[60] = (3 << 33) + 1
    wide = requant(mul, [a << 8 for a in step.add], step.div << 8, step.lo, step.hi)
    b._layers[-1] = replace(conv, requants=(wide,))
    b.conv(8, win(1))
    return b.graph()


def mobile() -> Graph:
    """Thirteen separable convolutions of up to 1024 channels: 4.2 MB of constants."""
    b = GraphBuilder((3, 128, 128), seed=33, name="mobile")
    b.conv(32, win(3, 2, 1))
    channels = 32
    widths = (64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)
    for number, width in enumerate(widths):
        b.conv(channels, win(3, 2 if number in (1, 3, 5, 11) else 1, 1), groups=channels)
        b.conv(width, win(1))
        channels = width
    b.avg_pool(win(4))
    b.linear(1000)
    return b.graph()


CASES = (
    Case("chain", _chain, (60_000, 24_000, 14_000, 9_500, 6_000)),
    Case("pointwise_1021", _pointwise_1021, (30_000, 22_000, 18_600)),
    Case("height_113", _height_113, (10_000, 6_000, 3_500)),
    Case("residual", _residual, (26_000, 20_000, 18_000, 12_000)),
    Case("long_residual", _long_residual, (14_000, 12_000, 9_000)),
    Case("adds", _adds, (8_000, 4_000, 3_000)),
    Case("many_consumers", _many_consumers, (12_000, 6_000, 4_000)),
    Case("temporal", _temporal, (12_000, 7_800, 6_000)),
    Case("linears", _linears, (60_000, 20_000)),
    Case("input_and_output", _input_and_output, (16_000, 9_000, 5_000)),
    Case("one_large_layer", _one_large_layer, (60_000, 24_000, 16_000)),
    Case("two_outputs", _two_outputs, (10_000, 8_000, 6_000)),
    Case("output_with_late_reader", _output_with_late_reader, (10_000, 7_000, 5_000)),
    Case("two_inputs", _two_inputs, (22_000, 14_000, 8_000)),
    Case("late_input", _late_input, (24_000, 16_000, 12_000)),
    Case("much_padding", _much_padding, (5_500, 4_500, 4_300)),
    Case("row_to_image", _row_to_image, (10_600,)),
    Case("image_to_row", _image_to_row, (30_000, 14_000, 9_000, 7_500)),
    Case("same_twice", _same_twice, (9_000, 6_000, 4_000)),
    Case("wide_values", _wide_values, (14_000, 9_000, 6_000)),
    Case("many_constants", _many_constants, (22_000, 15_000, 12_000)),
    Case("many_filters", _many_filters, (24_000, 20_000, 17_000, 14_000)),
    Case("mixed_multipliers", _mixed_multipliers, (9_000, 6_500, 5_000, 4_500)),
)
