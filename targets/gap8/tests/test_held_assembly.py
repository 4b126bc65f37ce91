"""The assembly of strips, run instruction by instruction, gives what numpy does."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from dory_gap8 import calibration as cal
from dory_gap8.backend.held import HeldKernel, held_of
from dory_gap8.backend.held_assembly import longest_strip, strip
from dory_gap8.backend.held_form import Finish, Form, form_of
from test_block import conv
from xpulpv2 import Machine, Program, signed

from dory_core.api import geometry, ops

X, WEIGHTS, Y, SUMS, ARGUMENTS, STACK = 0x1000, 0x4000, 0x8000, 0xC000, 0xE000, 0xF800
X_ROW, Y_ROW = 72, 56
# Rows, bytes of a row and stride of windows of first layers, and of others that share the code.
WINDOWS = {
    "5x5 s2": (5, 5, 2),
    "5x5": (5, 5, 1),
    "3x3x3 s2": (3, 9, 2),
    "3x3x3": (3, 9, 1),
    "3x3": (3, 3, 1),
    "3x3x2": (3, 6, 1),
    "10x4 s2": (10, 4, 2),
    "7x5 s2": (7, 5, 2),
    "6x1": (6, 1, 1),
    "2x5": (2, 5, 1),
    "2x5 s2": (2, 5, 2),
    "4x5 s2": (4, 5, 2),
    "3x4 s3": (3, 4, 3),
}
FINISHES = [
    Finish(shift, low_bits, reach, turned, clip, digits)
    for low_bits, reach, turned in itertools.product((0, 7), (False, True), (False, True))
    for shift, clip, digits in [(11, *(("p.clipu", 9), ("p.clip", 7), ("", 0))[reach + turned])]
]


def check(
    form: Form, row_bytes: int, finish: Finish, outputs: int, is_signed: bool, pool: int = 1
) -> Machine:
    """Run strips on random values and compare their outputs with numpy's."""
    random = np.random.default_rng(form.rows * 100 + row_bytes + outputs)
    made = strip(form, finish, pool * outputs, is_signed, "strip", pool)
    machine = Machine(Program.parse(made.text))
    count, channels, step = (int(random.integers(1, 4)) for _ in range(3))
    low, high = (-128, 128) if is_signed else (0, 256)
    x = random.integers(low, high, (form.x_rows(pool * outputs), X_ROW))
    step *= 4
    machine.write(X, x.reshape(-1))
    w = random.integers(-128, 128, (channels, 1, form.rows, row_bytes))
    words = HeldKernel._rows(form, w)
    columns = {"offset": finish.turned, "reach": finish.reach, "low": finish.limbs}
    columns |= {"mul": True, "add": True, "below": finish.turned}
    sizes = {
        "offset": 3000,
        "reach": 30000,
        "low": 64,
        "mul": 300,
        "add": 1 << 20,
        "below": 1 << 20,
    }
    values = {n: random.integers(1 - s, s, channels) for n, s in sizes.items()}
    values["reach"] = np.abs(values["reach"])
    table = np.stack([values[n] for n, there in columns.items() if there], axis=1)
    data = np.concatenate([words, table.astype("<i4").view(np.int8)], axis=1)
    machine.write(WEIGHTS, data.reshape(-1).view(np.uint8))
    y_back = 1 - (outputs - 1) * Y_ROW
    places = (X, step, X_ROW, WEIGHTS, Y, 1, Y + count * (channels + 1), Y_ROW, y_back, channels)
    machine.put(ARGUMENTS, *places, *(SUMS,) * (pool > 1))
    machine.call(ARGUMENTS, STACK)

    for n, p, c in itertools.product(range(count), range(outputs), range(channels)):
        block = itertools.product(
            range(pool * p, pool * p + pool), range(pool * n, pool * n + pool)
        )
        places = ((form.stride * row, step * column) for row, column in block)
        windows = [x[r : r + form.rows, b : b + row_bytes] for r, b in places]
        v = max(int((window * w[c, 0]).sum()) for window in windows)
        v += int(values["offset"][c]) * finish.turned
        if finish.reach:
            v = min(max(v, -int(values["reach"][c]) - 1), int(values["reach"][c]))
        value = v * int(values["mul"][c]) + int(values["add"][c])
        value += (signed(v * int(values["low"][c])) >> 7) * finish.limbs
        value += int(values["below"][c]) * (finish.turned and v < 0)
        value = signed(value) >> finish.shift
        if finish.clip == "p.clipu":
            value = min(max(value, 0), (1 << finish.digits - 1) - 1)
        elif finish.clip:
            value = min(max(value, -(1 << finish.digits - 1)), (1 << finish.digits - 1) - 1)
        place = Y + Y_ROW * p + (channels + 1) * n + c
        assert machine.memory[place] == value & 255, (n, p, c)
    assert not any(machine.memory[Y - 4 : Y])
    assert machine.stalls == 0, "an instruction waits for a load"
    cycles = count * (made.strip_cycles + channels * made.channel_cycles) + made.call_cycles
    assert machine.cycles == cycles
    return machine


@pytest.mark.sample(5)
@pytest.mark.parametrize("finish", FINISHES, ids=str)
@pytest.mark.parametrize("window", WINDOWS)
def test_strips_of_all_lengths(window: str, finish: Finish) -> None:
    rows, row_bytes, stride = WINDOWS[window]
    form = form_of(rows, row_bytes, stride)
    longest = longest_strip(form, finish)
    assert longest >= 2
    for outputs in range(1, longest + 1):
        check(form, row_bytes, finish, outputs, bool(outputs % 2))


@pytest.mark.sample(3)
@pytest.mark.parametrize("finish", FINISHES, ids=str)
@pytest.mark.parametrize("window", WINDOWS)
def test_strips_whose_outputs_are_the_largest_of_four_sums(window: str, finish: Finish) -> None:
    rows, row_bytes, stride = WINDOWS[window]
    form = form_of(rows, row_bytes, stride)
    longest = longest_strip(form, finish, 2)
    assert longest % 2 == 0
    for outputs in range(1, longest // 2 + 1):
        check(form, row_bytes, finish, outputs, bool(outputs % 2), 2)


def test_registers_hold_four_outputs_of_first_layers() -> None:
    """Instructions per output as the README says; three outputs where windows overlap less."""
    for window, limbs, outputs, cycles in (
        ("5x5 s2", False, 4, 53),
        ("5x5 s2", True, 4, 62),
        ("3x3x3", True, 4, 62),
        ("3x3x3 s2", False, 3, 42),
        ("3x3x3 s2", True, 3, 49),
        ("10x4 s2", True, 4, 77),
    ):
        rows, row_bytes, stride = WINDOWS[window]
        form = form_of(rows, row_bytes, stride)
        finish = Finish(20, 14 * limbs, False, False, "p.clipu", 9)
        assert longest_strip(form, finish) == outputs
        assert strip(form, finish, outputs, False, "strip").channel_cycles == cycles
    form, plain, limbs = (
        form_of(5, 5, 2),
        *(Finish(20, n, False, False, "p.clipu", 9) for n in (0, 14)),
    )
    pooled = [strip(form, finish, 4, False, "strip", 2) for finish in (plain, limbs)]
    assert [one.channel_cycles for one in pooled] == [90, 97]


def test_sources_have_the_function_of_each_length_of_a_strip() -> None:
    layer = conv(1, 5, (9, 11), ops.Window(kernel=(5, 5), strides=(2, 2), pads=(2, 2, 2, 2)))
    kernel = HeldKernel()
    [source] = [f for f in kernel.sources(layer) if f.path.endswith("_asm.h")]
    blocks = re.findall(r"__asm__\(\n(.*?)\n\);", source.content, re.DOTALL)
    held = held_of(layer)
    assert held is not None
    assert len(blocks) == held.outputs == 4
    for n, block in enumerate(blocks, 1):
        text = "".join(re.findall(r'^ +"(.*)"$', block, re.MULTILINE))
        text = text.replace("\\n\\t", "\n").replace('\\"', '"')
        assert text == held.strip(n, False, f"{kernel.symbol(layer)}_{n}").text


@pytest.mark.parametrize("rows", [8, 9])
def test_the_model_is_what_instructions_of_strips_take(rows: int) -> None:
    """A tile of one core: strips of four outputs, or of three where that fills the last one."""
    kernel = HeldKernel(cores=1)
    window = ops.Window(kernel=(5, 5), strides=(2, 2))
    layer = conv(1, 32, (2 * rows + 3, 43), window)
    held = held_of(layer)
    assert held is not None
    y, strips = layer.output, -(-rows // 4)
    counted = 0
    for n in range(strips):
        made = held.strip((n + 1) * rows // strips - n * rows // strips, False)
        one = made.strip_cycles + 32 * made.channel_cycles
        counted += made.call_cycles + y.width * one
    model = kernel.cycles(layer, geometry.extent(layer)) - cal.HELD_CALL
    assert counted < model * 100 / (100 + cal.HELD_STALLS) < 1.02 * counted
