"""The assembly of strips of any window, run instruction by instruction, gives what numpy gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import test_depthwise_assembly as strips
from test_depthwise_assembly import EVEN, FORMS, LIMBS, NARROW, NO_CLIP, SIGNED, UNSIGNED
from xpulpv2 import Machine, Program

INPUTS, WEIGHTS, OUTPUTS, ARGUMENTS, STACK = 0x1000, 0x6000, 0xA000, 0xE000, 0xF800


@dataclass(frozen=True, slots=True)
class Strip:
    """`count` outputs along b of `channels` channels: words of a column, tap columns, steps."""

    count: int
    words: int = 2
    taps: int = 5
    stride: int = 1
    dilation: int = 1
    channels: int = 2


def check(variant: tuple[int, ...], what: Strip, seed: int, line: bool = False) -> Machine:
    """Run the channels of a strip on random values and compare with numpy's.

    line: of an image of one column, whose strips follow one another: the last one ends in the tile.
    """
    random = np.random.default_rng(seed)
    machine = Machine(Program.parse(strips.assembly(*variant, line=line)))
    low, high = (-128, 128) if variant[3] else (0, 256)
    columns = what.count * what.stride + (what.taps - 1) * what.dilation + 1
    x = random.integers(low, high, (what.channels, columns, what.words, 4))
    w = random.integers(-128, 128, (what.channels, what.taps, what.words, 4, 4))
    machine.write(INPUTS, x)
    machine.write(WEIGHTS, w)
    done = strips.outputs_of(machine, random, variant, what.channels)

    valid = int(random.integers(1, 5))
    step, row = what.channels + 3, (what.channels + 3) * what.count + 5
    if line:
        step, row = 4 * (what.channels + 3), what.channels + 3
    ends = [min(i, valid - 1) * row for i in range(1, 4)]
    places = [i * row for i in range(1, 4)] if line else ends
    runs = 1 if what.dilation == 1 else what.taps
    run_words = what.words * what.taps // runs
    skip = 4 * what.words * what.dilation - 4 * run_words if runs > 1 else 0
    x_step = 4 * what.words * what.stride
    arguments = [
        *(INPUTS, WEIGHTS, strips.PARAMETERS, OUTPUTS, *places, step, what.count, x_step),
        *(runs, run_words, skip, 2 * x_step - runs * (4 * run_words + skip)),
        *(4 * what.words * columns, 16 * what.words * what.taps, what.count * step - 1),
        *(what.channels, done.shift, done.low_bits, done.hi),
        *(place - end for place, end in zip(places, ends, strict=True)),
        int(places != ends),
    ]
    machine.put(ARGUMENTS, *arguments)
    machine.call(ARGUMENTS, STACK)

    sums = np.zeros((4, what.count, what.channels), dtype=np.int64)
    for i in range(what.count):
        first = i * what.stride
        taken = x[:, first : first + (what.taps - 1) * what.dilation + 1 : what.dilation]
        sums[:, i] = np.einsum("ctwe,ctwoe->oc", taken, w)
    v = done.apply(sums)
    expected = np.zeros((what.count - 1) * step + valid * row, dtype=np.uint8)
    for i in range(what.count):
        for o in range(4 if line and i < what.count - 1 else valid):
            start = o * row + i * step
            expected[start : start + what.channels] = v[o, i] & 255
    got = np.frombuffer(machine.memory, np.uint8, len(expected) + 64, OUTPUTS)
    assert np.array_equal(got[: len(expected)], expected), (variant, what, valid)
    assert not got[len(expected) :].any(), "stored beyond the strip"
    return machine


@pytest.mark.sample(5)
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("clip", [NO_CLIP, UNSIGNED, SIGNED])
@pytest.mark.parametrize(("form", "reach"), FORMS)
def test_every_variant_of_a_strip(form, reach, clip, turned) -> None:
    if turned and clip == NO_CLIP:
        return  # the clip is that of a byte then
    for count in (1, 2, 5):
        variant = (form, reach, clip, count % 2, 0, count % 2, turned)
        machine = check(variant, Strip(count), seed=count)
        waits = 2 + (4 if turned and form == LIMBS and reach == 1 else 2) * count
        assert machine.stalls <= 6 + waits, "an instruction in a loop waits for a load"


@pytest.mark.sample(4)
@pytest.mark.parametrize("line", [False, True])
@pytest.mark.parametrize("clip", [UNSIGNED, SIGNED])
@pytest.mark.parametrize("seed", range(6))
def test_ties_of_binary32_go_to_the_even_integer(seed, clip, line) -> None:
    variant = (EVEN, 0, clip, seed % 2, 0, seed // 2 % 2, 0)
    taps = 1 if line else 3
    what = Strip(1 + seed, words=3, taps=taps, channels=3)
    machine = check(variant, what, seed=seed, line=line)
    waits = (5 if line else 3) * what.count  # a line asks whether outputs are its last
    assert machine.stalls <= 8 + waits, "an instruction in a loop waits for a load"


@pytest.mark.parametrize(
    "what",
    [
        Strip(4, words=3, stride=2),
        Strip(3, words=2, taps=3, dilation=2),
        Strip(5, words=3, taps=2, stride=2, dilation=3, channels=4),
        Strip(2, words=1, taps=1),
        Strip(3, words=3, taps=7, channels=1),
    ],
)
def test_windows_strides_and_dilations(what: Strip) -> None:
    check((LIMBS, 1, SIGNED, 1, 0, 1, 0), what, seed=what.count)


@pytest.mark.sample(3)
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize(("form", "reach"), FORMS)
def test_lines_end_in_the_tile(form, reach, turned) -> None:
    for count in range(1, 6):
        for seed in range(4):
            what = Strip(count, words=3, taps=1, stride=1 + seed % 2, channels=3)
            check((form, reach, SIGNED, 1, 0, 1, turned), what, seed, line=True)


def test_two_times_four_outputs_are_14_instructions_per_word() -> None:
    sizes = (Strip(2, words=2), Strip(2, words=3))
    counted = [check((NARROW, 0, UNSIGNED, 0, 0, 1, 0), s, seed=1).cycles for s in sizes]
    assert counted[1] - counted[0] == 2 * 5 * 14
