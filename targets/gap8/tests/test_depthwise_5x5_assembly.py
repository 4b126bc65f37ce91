"""The assembly of strips of squares, run instruction by instruction, gives what numpy gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import test_depthwise_assembly as strips
from test_depthwise_assembly import EVEN, FORMS, LANES, LIMBS, NARROW, NO_CLIP, SIGNED, UNSIGNED
from xpulpv2 import Machine, Program, assembly_of

BLOCKS, WEIGHTS, INPUTS, OUTPUTS, PADDING, ARGUMENTS, STACK = (
    *((0x1000, 0x2000), 0x4000, 0x6000, 0xA000, 0xDFFC),
    *(0xE000, 0xF800),
)
# Bytes of a place along b in a block: two rows of squares, four channels.
PLACE = 32


def assembly(variant: tuple[int, ...]) -> str:
    """Return the assembly text: form, reach, clip, signed inputs, classes, per channel, turned."""
    form, reach, clip, x_signed, classes, per_channel, turned = variant
    macros = strips.macros_of(form, reach, clip, x_signed, per_channel, turned)
    return assembly_of("dory_gap8_depthwise_5x5_asm.h", {**macros, "DORY_CLASSES": classes})


@dataclass(frozen=True, slots=True)
class Strips:
    """What a call computes: strips of `count` outputs along b, of `channels` channels.

    fresh: blocks that a call before has laid. before: columns of padding before those of the tile.
    after: columns of padding behind them. short: outputs along a that the last strip lacks.
    """

    count: int
    strips: int = 1
    fresh: int = 0
    before: int = 0
    after: int = 0
    channels: int = 4
    short: int = 0


def check(variant: tuple[int, ...], what: Strips, seed: int) -> Machine:
    """Run strips of some channels of a group on random values and compare with numpy's."""
    x_signed, classes = variant[3:5]
    random = np.random.default_rng(seed)
    machine = Machine(Program.parse(assembly(variant)))
    spread = 2 if classes == 4 else 1
    count, channels = what.count, what.channels
    lane = 0 if channels == 4 else 1
    places = -(-count // spread) + 2
    columns = 2 * places
    low, high = (-128, 128) if x_signed else (0, 256)

    # The tile: it begins behind the padding and ends before the last rows that strips read.
    inside, pad, pixel = columns - what.before - what.after, seed % 3, 8
    reach_rows = 4 * what.strips + 4
    tile_rows = max(1, reach_rows - pad - int(random.integers(0, 6)))
    tile = random.integers(low, high, (tile_rows, inside, pixel))
    machine.write(INPUTS, tile)
    value = int(random.integers(low, high))
    machine.write(PADDING, np.full(LANES, value))
    x = np.full((reach_rows, columns, LANES), value)
    rows_inside = min(tile_rows, reach_rows - pad)
    body = slice(what.before, columns - what.after)
    x[pad : pad + rows_inside, body] = tile[:rows_inside, :, 4 : 4 + LANES]
    first, last = what.before % 2, what.after % 2
    for number, block in enumerate(BLOCKS):  # places x rows of squares x lanes x rows x columns
        rows = x[4 * number : 4 * number + 4].reshape(2, 2, places, 2, LANES)
        data = rows.transpose(2, 0, 4, 1, 3).copy()
        if number >= what.fresh:
            data[what.before // 2 : places - what.after // 2] = low  # what the call lays
        machine.write(block, data)

    taps = random.integers(-128, 128, (channels, classes, 6, 6))  # class, along a, along b
    if classes == 4:
        taps[:, 1, :, 0] = taps[:, 3, :, 0] = 0
        taps[:, 2, 0] = taps[:, 3, 0] = 0
    squares = taps.reshape(channels, classes, 3, 2, 3, 2).transpose(0, 1, 4, 2, 3, 5)
    machine.write(WEIGHTS, squares.copy())
    done = strips.outputs_of(machine, random, variant, channels)

    valid = 2 * spread * what.strips - what.short
    step, row = channels + 3, (channels + 3) * count + 5
    fields = []
    for k in range(classes):
        a, b = divmod(k, 2)
        outputs = -(-(count - b) // spread)
        if outputs:
            ends = ((outputs + 2) * PLACE - 4, outputs * step * spread - 1)
            fields += [a, a * row + b * step, 36 * k, outputs // 3, outputs % 3, *ends]
    arguments = [
        *(BLOCKS[0], BLOCKS[1], 0),
        *(WEIGHTS, strips.PARAMETERS, OUTPUTS),
        *(valid, row, step * spread, 0, 0, 0, 0, channels),
        *(done.shift, done.low_bits, done.hi, what.strips, 4 * what.fresh),
        *(INPUTS + 4, 4 * what.fresh - pad, tile_rows, inside * pixel, pixel),
        *((inside - first - last) // 2, what.before // 2 * PLACE, PADDING, 4 * lane),
        *(first, last, len(fields) // 7, *fields),
    ]
    machine.put(ARGUMENTS, *arguments)
    machine.call(ARGUMENTS, STACK)

    sums = np.zeros((valid, count, channels), dtype=np.int64)
    data = x[..., lane : lane + channels]
    for o in range(valid):
        for i in range(count):
            k = 2 * (o % spread) + i % spread
            top, left = 2 * (o // spread), 2 * (i // spread)
            box = data[top : top + 6, left : left + 6]
            sums[o, i] = np.einsum("abc,cab->c", box, taps[:, k])
    v = done.apply(sums)
    expected = np.zeros(valid * row, dtype=np.uint8)
    for o in range(valid):
        for i in range(count):
            start = o * row + i * step
            expected[start : start + channels] = v[o, i] & 255
    got = np.frombuffer(machine.memory, np.uint8, len(expected) + 64, OUTPUTS)
    assert np.array_equal(got[: len(expected)], expected), (variant, what)
    assert not got[len(expected) :].any(), "stored beyond the strip"

    # The next call goes on from here: blocks in turn, the next strip, the rows it adds.
    block = tuple(machine.word(ARGUMENTS + 4 * i) for i in range(2))
    assert block == (BLOCKS if what.strips % 2 == 0 else BLOCKS[::-1])
    assert machine.word(ARGUMENTS + 20) == OUTPUTS + 2 * spread * what.strips * row
    assert machine.word(ARGUMENTS + 24) == valid - 2 * spread * what.strips
    assert machine.word(ARGUMENTS + 72) == 4
    assert machine.word(ARGUMENTS + 80) == 4 * (what.strips + 1) - pad
    return machine


@pytest.mark.sample(5)
@pytest.mark.parametrize("classes", [1, 4])
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("clip", [NO_CLIP, UNSIGNED, SIGNED])
@pytest.mark.parametrize(("form", "reach"), FORMS)
def test_every_variant_of_a_strip(form, reach, clip, turned, classes) -> None:
    if turned and clip == NO_CLIP:
        return  # the clip is that of a byte then
    for count in (1, 2, 5) if classes == 1 else (3, 8):
        variant = (form, reach, clip, count % 2, classes, count % 2, turned)
        machine = check(variant, Strips(count, channels=2), seed=count)
        # Where a block begins and ends, and a class.
        assert machine.stalls <= 4 + 3 * classes, "an instruction in a loop waits for a load"


@pytest.mark.sample(4)
@pytest.mark.parametrize("classes", [1, 4])
@pytest.mark.parametrize("clip", [UNSIGNED, SIGNED])
@pytest.mark.parametrize("seed", range(6))
def test_ties_of_binary32_go_to_the_even_integer(seed, clip, classes) -> None:
    variant = (EVEN, 0, clip, seed % 2, classes, seed // 2 % 2, 0)
    machine = check(variant, Strips(3 + 2 * seed, channels=2), seed=seed)
    assert machine.stalls <= 4 + 3 * classes, "an instruction in a loop waits for a load"


@pytest.mark.parametrize("classes", [1, 4])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_strips_go_on_from_the_blocks_that_are_laid(classes, before) -> None:
    """Rows before and behind the tile and columns beside it are padding."""
    for number, fresh in ((1, 1), (2, 2), (3, 0)):
        after = (number + before) % 4
        what = Strips(2 * number + 3, number, fresh, before, after, 2, number % 2)
        check((LIMBS, 1, SIGNED, 1, classes, 1, 0), what, seed=7 * number + fresh)


@pytest.mark.parametrize("short", [0, 1, 2, 3])
def test_the_last_strip_has_one_to_four_outputs(short) -> None:
    check((NARROW, 0, UNSIGNED, 0, 4, 1, 0), Strips(7, 2, short=short), seed=short)


def test_columns_that_all_are_padding_are_not_loaded() -> None:
    check((NARROW, 0, UNSIGNED, 0, 1, 1, 0), Strips(1, 2, 0, 6), seed=1)


def test_two_outputs_are_30_instructions_for_50_products() -> None:
    text = assembly((NARROW, 0, UNSIGNED, 0, 1, 1, 0))
    program = Program.parse(text)
    start = max(i + 1 for i, (_, o) in enumerate(program.instructions) if o[:1] == ["x0"])
    names = [op for op, _ in program.instructions[start : program.target("1f", start) + 1]]
    assert len(names) == 3 * 30
    assert sum("dotusp" in n for n in names) == 3 * 18
