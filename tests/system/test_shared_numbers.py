"""Numbers that differ between layers of one function cost memory by their count, not their size."""

from __future__ import annotations

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.expr import Var
from dory_core.ir import Window, requant
from dory_core.plan.operations import ROW, Call, all_operations
from dory_core.plugins.manager import load_plugins
from dory_core.testing.graphs import GraphBuilder

FACTORS = (requant(1000, 0, 1, None, None), requant(777, 0, 1, None, None))
POINT = Window(kernel=(1, 1))


def test_numbers_far_apart_take_no_memory() -> None:
    b = GraphBuilder((8, 10, 10))
    value = b.conv(8, POINT)
    for addend in (3, 2**23 + 1, 5):
        total = requant(1, addend, 2**11, 0, 255)
        other = b.conv(8, POINT, source=value)
        value = b.add(value, other, operands=FACTORS, requants=(total,))
    plan = run(b.graph(), setup_for(load_plugins(), "gap8"), after=IMPORTED)
    [shared] = [f for f in plan.program.functions if f.scalars]
    assert shared.scalars == {"add": (3, 2**23 + 1)}
    operations = all_operations(shared.program)
    [numbers] = [o.arguments[ROW + "add"] for o in operations if isinstance(o, Call)]
    assert isinstance(numbers, Var)
    assert numbers.domain.tolist() == [3, 2**23 + 1]
