"""The assembly of the block on neighbours that share inputs gives what their windows sum up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import test_block_assembly as block
from dory_gap8 import calibration as cal
from dory_gap8.backend.block_finish import HIGH, LIMBS, STEP, output_tenths
from xpulpv2 import Machine, Program

# Zeros that stand for padding, and a pixel that nothing may read.
ZEROS = 0x3C00
FORMS = [*block.FORMS, (block.RAW, 0)]
NAMES = {block.STEP: STEP, block.LIMBS: LIMBS, block.HIGH: HIGH}


@dataclass(frozen=True)
class Row:
    """A row of windows. left, right: whether a column is padding. skip: rows left out."""

    stride: int = 1
    words: int = 2
    rows: int = 1
    groups: int = 1
    fours: int = 1
    left: int = 0
    right: int = 0
    skip: int = 0

    @property
    def columns(self) -> int:
        """Columns that the windows see, padding included."""
        return (4 * self.fours - 1) * self.stride + 3


def check(
    variant: block.Variant, row: Row, seed: int, more: Mapping[str, object] = MappingProxyType({})
) -> Machine:
    """Run a row of outputs on random values and compare it with numpy's. more: macros."""
    _, _, _, x_signed, lanes, _ = variant
    random = np.random.default_rng(seed)
    pixel = 4 * row.words
    macros = {"DORY_STRIDE_W": row.stride, "DORY_PIXEL": pixel, "DORY_PIXEL_WORDS": row.words}
    machine = Machine(Program.parse(block.assembly(*variant, slide={**macros, **more})))
    bits = 32 // lanes
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if x_signed else (0, 1 << bits)
    if bits == 16:
        low, high = max(low, -2000), min(high, 2000)
    x = random.integers(low, high, (row.rows, row.columns, row.words, lanes))
    seen = slice(row.left, row.columns - row.right)
    kind = f"<i{bits // 8}" if x_signed else f"<u{bits // 8}"
    image = x[:, seen].astype(kind).tobytes()
    machine.memory[block.INPUTS : block.INPUTS + len(image)] = image
    x[:, : row.left] = 0
    x[:, row.columns - row.right :] = 0
    w = random.integers(-128, 128, (row.groups, row.rows, row.words, 3, 4, lanes))
    _put_weights(machine, row, w, bits)

    channels = 4 * row.groups
    end = block.End.draw(variant, channels, random)
    machine.put(block.PARAMETERS, *end.words)
    y_bytes = (channels + 4 * (seed % 3)) * (4 if variant[0] == block.RAW else 1)
    _put_arguments(machine, row, y_bytes, end.numbers)
    machine.call(block.ARGUMENTS, block.STACK)

    order = [n * row.stride % 3 for n in range(3)]
    taps = np.stack(
        [x[:, tap : tap + row.stride * 4 * row.fours : row.stride] for tap in order], axis=3
    )
    v = np.einsum("rpwtl,grwtcl->pgc", taps, w).reshape(4 * row.fours, channels)
    end.compare(machine, v, y_bytes)
    return machine


def _put_weights(machine: Machine, row: Row, w: Any, bits: int) -> None:
    """Store weights, with a gap of rows that are left out behind each group of channels."""
    groups = w.astype(f"<i{bits // 8}").reshape(row.groups, -1)
    gap = bytes([85]) * (row.skip * 48 * row.words)
    image = b"".join(group.tobytes() + gap for group in groups)
    machine.memory[block.WEIGHTS : block.WEIGHTS + len(image)] = image


def _put_arguments(machine: Machine, row: Row, y_bytes: int, numbers: tuple[int, ...]) -> None:
    pixel = 4 * row.words
    last_column, x_row = 3 * row.stride + 2, (row.columns - row.left - row.right) * pixel
    first = block.INPUTS - row.left * pixel
    last = first + (4 * (row.fours - 1) * row.stride + last_column) * pixel
    behind, zeros = x_row - pixel, -pixel
    left = (ZEROS, zeros) if row.left else (first, behind)
    at_last = (ZEROS, zeros) if row.right else (last, behind)
    right = at_last if row.fours == 1 else (first + last_column * pixel, behind)
    starts = (first + pixel, left[0], right[0], at_last[0])
    steps = (behind, left[1], right[1], at_last[1])
    places = (block.WEIGHTS, block.PARAMETERS, block.OUTPUTS, y_bytes)
    rest = (*numbers, row.skip * 48 * row.words, row.fours)
    machine.put(block.ARGUMENTS, *starts, *steps, row.rows, row.groups, *places, *rest)


def check_apart(variant: block.Variant, row: Row, seed: int) -> Machine:
    """Run a block of four pixels anywhere on random values and compare it with numpy's."""
    lanes = variant[4]
    random = np.random.default_rng(seed)
    pixel = 4 * row.words
    macros = {"DORY_STRIDE_W": row.stride, "DORY_PIXEL": pixel, "DORY_PIXEL_WORDS": row.words}
    text = block.assembly(*variant, slide={**macros, "DORY_APART": 1})
    machine = Machine(Program.parse(text))
    bits = 32 // lanes
    x = random.integers(0, 1 << 7, (row.rows, 4, 3, row.words, lanes))
    places = random.permutation(row.rows * 4)
    for place, (y, j) in zip(places, np.ndindex(row.rows, 4), strict=True):
        address = block.INPUTS + 3 * pixel * int(place)
        image = x[y, j].astype(f"<i{bits // 8}").tobytes()
        machine.memory[address : address + len(image)] = image
        machine.put(block.TABLE + 16 * y + 4 * j, address + (3 - row.stride) * pixel)
    w = random.integers(-128, 128, (row.groups, row.rows, row.words, 3, 4, lanes))
    _put_weights(machine, row, w, bits)
    channels = 4 * row.groups
    end = block.End.draw(variant, channels, random)
    machine.put(block.PARAMETERS, *end.words)
    y_bytes = channels * (4 if variant[0] == block.RAW else 1)
    _put_arguments(machine, row, y_bytes, end.numbers)
    machine.put(block.ARGUMENTS + 76, block.TABLE)
    machine.call(block.ARGUMENTS, block.STACK)
    order = [n * row.stride % 3 for n in range(3)]
    v = np.einsum("rptwl,grwtcl->pgc", x[:, :, order], w).reshape(4, channels)
    end.compare(machine, v, y_bytes)
    return machine


@pytest.mark.sample(3)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("form", "reach"), FORMS)
def test_every_variant_of_four_pixels_anywhere(form, reach, stride) -> None:
    for seed in range(4):
        row = Row(stride, 2 + seed, 1 + seed % 3, 1 + seed // 2)
        variant = (form, reach, block.SIGNED, seed % 2, 4 - 2 * (seed // 2), seed % 2 * (form > 0))
        assert check_apart(variant, row, seed).stalls == 0, "an instruction waits for a load"


def test_neighbours_beside_pixels_anywhere() -> None:
    """The same function with a table and without."""
    variant = (block.STEP, 0, block.UNSIGNED, 0, 4, 0)
    for row in (Row(rows=2, fours=2), Row(2, groups=3, left=1, right=1)):
        plain, other = (check(variant, row, 1, {"DORY_APART": n}).cycles for n in (0, 1))
        assert 0 <= other - plain <= 2 + 2 * row.groups * row.fours
    words = [check_apart(variant, Row(1, n), 1).cycles for n in (3, 4)]
    assert words[1] - words[0] == 72


def random_row(random: np.random.Generator, stride: int) -> Row:
    numbers = (int(random.integers(*r)) for r in ((2, 5), (1, 4), (1, 4), (1, 4), (2,), (2,), (2,)))
    return Row(stride, *numbers)


@pytest.mark.sample(5)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("clip", [block.NO_CLIP, block.UNSIGNED, block.SIGNED])
def test_every_variant_slides_over_a_row(form, reach, clip, stride) -> None:
    random = np.random.default_rng(form + 10 * clip + stride)
    for seed in range(4):
        variant = (form, reach, clip, seed % 2, 4 - 2 * (seed // 2), 0)
        machine = check(variant, random_row(random, stride), seed)
        assert machine.stalls == 0, "an instruction waits for a load"


@pytest.mark.parametrize("turned", [0, 1])
def test_columns_of_padding_on_either_side(turned) -> None:
    for left, right, fours in ((1, 0, 1), (0, 1, 1), (1, 1, 1), (1, 1, 2), (1, 1, 3), (0, 1, 4)):
        for stride in (1, 2):
            row = Row(stride, 3, 2, 2, fours, left, right, 1)
            variant = (block.LIMBS, 1, block.SIGNED, 0, 4, turned)
            assert check(variant, row, fours).stalls == 0


@pytest.mark.parametrize(("stride", "instructions"), [(1, 66), (2, 69)])
def test_three_words_of_a_row_take_fewer_loads(stride, instructions) -> None:
    """24 for a word of four separate windows, 72 for three."""
    variant = (block.STEP, 0, block.UNSIGNED, 0, 4, 0)
    few, many = (check(variant, Row(stride, words), 1).cycles for words in (4, 5))
    assert many - few == instructions
    step = cal.SLIDE_STEP if stride == 1 else cal.SLIDE_STEP_TWO
    assert step == round(cal.BLOCK_STEP * instructions / 72)


@pytest.mark.parametrize(("form", "reach"), FORMS[:-1])
def test_parts_beside_the_products_cost_their_instructions(form, reach) -> None:
    """The model adds what waits for the memory, as it does for the block, up to a tenth."""
    variant = (form, reach, block.UNSIGNED, 0, 4, 0)

    def counted(**sizes: int) -> int:
        return check(variant, Row(**sizes), 1).cycles

    row = counted(rows=2) - counted()
    group = counted(groups=2) - counted()
    four = counted(fours=2) - counted() - group
    products = 2 * 66
    assert 0 <= cal.SLIDE_ROW - (row - products) <= 2
    own = reach == block.OWN
    outputs = 16 * output_tenths(NAMES[form], reach == 1, turned=False, shifts=own) // 10
    model = outputs + cal.SLIDE_GROUP + cal.SLIDE_ROW
    assert model == pytest.approx(group - products, rel=0.1)
    assert four == pytest.approx(cal.SLIDE_FOURS, rel=0.1)
    # Around the assembly: its arguments, which rows and columns are padding.
    assert counted() - group + 120 == cal.SLIDE_CALL
