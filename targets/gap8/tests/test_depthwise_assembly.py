"""The assembly of depthwise strips, run instruction by instruction, gives what numpy gives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from test_block_assembly import OWN, Even
from xpulpv2 import Machine, Program, assembly_of, signed

NARROW, LIMBS, HIGH, EVEN = 1, 2, 3, 4
NO_CLIP, UNSIGNED, SIGNED = 0, 1, 2
# Places in the memory of the machine.
BLOCKS, WEIGHTS, PARAMETERS, INPUTS, OUTPUTS, PADDING, ARGUMENTS, STACK = (
    *((0x1000, 0x2000, 0x3000), 0x4000, 0x5000),
    *(0x6000, 0xA000, 0xDFFC, 0xE000, 0xF800),
)
LANES, TAPS = 4, 4
# Forms of requantisation, and whether sums are clamped first.
FORMS = [
    *((NARROW, 0), (NARROW, 1), (NARROW, OWN), (LIMBS, 0), (LIMBS, 1), (LIMBS, OWN), (HIGH, 0)),
]


def macros_of(
    form: int, reach: int, clip: int, x_signed: int, per_channel: int, turned: int
) -> dict[str, object]:
    """Return the macros that the assembly of all strips reads."""
    return {
        "DORY_KERNEL": "kernel",
        "DORY_Q_LIMBS": LIMBS,
        "DORY_Q_HIGH": HIGH,
        "DORY_Q_EVEN": EVEN,
        "DORY_CLIP_UNSIGNED": UNSIGNED,
        "DORY_CLIP_SIGNED": SIGNED,
        "DORY_Q_FORM": form,
        "DORY_Q_REACH": reach % 2,
        "DORY_Q_SHIFTS": reach // OWN,
        "DORY_Q_CLIP": clip,
        "DORY_Q_TURNED": turned,
        "DORY_X_SIGNED": x_signed,
        "DORY_PER_CHANNEL": per_channel,
    }


@cache
def assembly(
    form: int,
    reach: int,
    clip: int,
    x_signed: int,
    stride: int,
    per_channel: int,
    turned: int = 0,
    half: bool = False,
    line: bool = False,
) -> str:
    """Return the assembly text of a variant, any window if stride is 0.

    half: of the function for a last strip of one or two outputs. line: of images of one column.
    """
    macros = macros_of(form, reach, clip, x_signed, per_channel, turned)
    macros["DORY_LINE"] = int(line)
    if stride:
        macros["DORY_STRIDE"] = stride
    kind = ("3x3_half" if half else "3x3") if stride else "any"
    return assembly_of(f"dory_gap8_depthwise_{kind}_asm.h", macros)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What becomes of sums: parameters of channels as the assembly reads them, and the clip."""

    words: list[np.ndarray]
    form: int
    reach: int
    clip: int
    turned: int
    shift: int
    low_bits: int
    hi: int
    even: Even | None = None

    def apply(self, sums: np.ndarray) -> np.ndarray:
        """Return the outputs of sums, channels last."""
        if self.even is not None:
            return self.even.outputs(sums)
        words, turned, shift = list(self.words), self.turned, self.shift
        if self.form == HIGH or self.reach == OWN:
            shift = words.pop()
        v = sums + words[0] if turned else sums
        v = np.clip(v, -words[turned] - 1, words[turned]) if self.reach == 1 else v
        last = signed(v * words[-2 - turned])
        if self.form == HIGH:
            last = signed(signed(v << self.low_bits) * words[-2 - turned] >> 32)
        if self.form == LIMBS:
            last = last + (signed(v * words[-3 - turned]) >> self.low_bits)
        below = np.where(v < 0, words[-1], 0) if turned else 0
        v = signed(last + words[-1 - turned] + below) >> shift
        if self.clip == NO_CLIP:
            return v
        return np.clip(v, 0 if self.clip == UNSIGNED else -self.hi - 1, self.hi)


def outputs_of(
    machine: Machine, random: np.random.Generator, variant: tuple[int, ...], channels: int
) -> Outputs:
    """Store random parameters; return what they say."""
    form, reach, clip, _, _, per_channel, turned = variant
    records = channels if per_channel else 1
    if form == EVEN:
        even = Even.draw(clip == SIGNED, records, random)
        machine.put(PARAMETERS, *even.found.records.reshape(-1).tolist())
        return Outputs([], form, 0, clip, 0, 0, even.found.up, even.step.hi, even)
    low_bits = int(random.integers(3, 12))
    words = [random.integers(-3000, 3000, records)] if turned else []
    words += [random.integers(100, 30000, records)] if reach == 1 else []
    if form == LIMBS:
        words.append(random.integers(-(1 << (low_bits - 1)), 1 << (low_bits - 1), records))
    most = 1 << 30 if form == HIGH else 3000
    words.append(random.integers(-most, most, records))
    words.append(random.integers(-(1 << 20), 1 << 20, records))
    words += [random.integers(-(1 << 20), 1 << 20, records)] if turned else []
    words += [random.integers(0, 24, records)] if form == HIGH or reach == OWN else []
    machine.put(PARAMETERS, *np.stack(words, axis=1).reshape(-1).tolist())
    shift, hi = int(random.integers(8, 20)), int(random.choice([255, 127, 63, 1]))
    if turned:  # with two addends the clip is that of a byte
        hi = 255 if clip == UNSIGNED else 127
    return Outputs(words, form, reach, clip, turned, shift, low_bits, hi)


@dataclass(frozen=True, slots=True)
class Strips:
    """What a call computes: strips of `count` outputs along b.

    fresh: blocks that a call before has laid. before: columns of padding before those of the tile.
    half: outputs along a of the last strip where the function for one or two of them computes it,
    in a call of its own behind that of the others; 0 where there is one call.
    """

    count: int
    strips: int = 1
    fresh: int = 0
    before: int = 0
    half: int = 0


def check(variant: tuple[int, ...], what: Strips, seed: int) -> Machine:
    """Run strips of some channels of a group on random values and compare with numpy's."""
    x_signed, stride = variant[3:5]
    random = np.random.default_rng(seed)
    machine = Machine(Program.parse(assembly(*variant)))
    count = what.count
    channels, lane = (4, 0) if seed % 2 else (2, 1)
    columns = (count - 1) * stride + 3
    low, high = (-128, 128) if x_signed else (0, 256)

    # The tile: it begins behind the padding and ends before the last rows that strips read.
    inside, pad, pixel = columns - what.before, seed % 2, 8
    reach_rows = 4 * stride * what.strips + 4
    tile_rows = max(1, reach_rows - pad - int(random.integers(0, 6)))
    tile = random.integers(low, high, (tile_rows, inside, pixel))
    machine.write(INPUTS, tile)
    value = int(random.integers(low, high))
    machine.write(PADDING, np.full(LANES, value))
    x = np.full((reach_rows, columns, LANES), value)
    rows_inside = min(tile_rows, reach_rows - pad)
    x[pad : pad + rows_inside, what.before :] = tile[:rows_inside, :, 4 : 4 + LANES]
    for number, block in enumerate(BLOCKS[: stride + 1]):  # columns x lanes x rows
        data = x[4 * number : 4 * number + 4].transpose(1, 2, 0).copy()
        if number >= what.fresh:
            data[what.before :] = low  # what the call lays
        machine.write(block, data)

    w = random.integers(-128, 128, (channels, 3, TAPS))
    w[..., 3] = 0
    machine.write(WEIGHTS, w)

    done = outputs_of(machine, random, variant, channels)

    # The last strip has one to four outputs: those that are none fall on the last one.
    valid = 4 * (what.strips - 1) + (what.half or int(random.integers(1, 5)))
    step, row = channels + 3, (channels + 3) * count + 5
    unroll = 3 - stride
    arguments = [
        *(BLOCKS[0], BLOCKS[1], BLOCKS[2]),
        *(WEIGHTS, PARAMETERS, OUTPUTS),
        *(valid, row, step, count // unroll, count % unroll),
        *(columns * 16 - 4, count * step - 1, channels),
        *(done.shift, done.low_bits, done.hi, what.strips - bool(what.half), 4 * what.fresh),
        *(INPUTS + 4, 4 * what.fresh - pad, tile_rows, inside * pixel, pixel),
        *(inside, 16 * what.before, PADDING, 4 * lane),
    ]
    machine.put(ARGUMENTS, *arguments)
    if what.strips > bool(what.half):
        machine.call(ARGUMENTS, STACK)
    if what.half:
        machine.program = Program.parse(assembly(*variant, half=True))
        machine.call(ARGUMENTS, STACK)

    rows = x[..., lane : lane + channels]  # rows, columns, channels
    windows = np.zeros((valid, count, channels), dtype=np.int64)
    for o in range(valid):
        for i in range(count):
            box = rows[o * stride : o * stride + 3, i * stride : i * stride + 3]
            windows[o, i] = np.einsum("abc,cba->c", box, w[..., :3])
    v = done.apply(windows)
    expected = np.zeros(valid * row, dtype=np.uint8)
    for o in range(valid):
        for i in range(count):
            start = o * row + i * step
            expected[start : start + channels] = v[o, i] & 255
    got = np.frombuffer(machine.memory, np.uint8, len(expected) + 64, OUTPUTS)
    assert np.array_equal(got[: len(expected)], expected), (variant, what, valid)
    assert not got[len(expected) :].any(), "stored beyond the strip"

    if what.half:  # nothing follows
        return machine

    # The next call goes on from here: blocks in turn, the next strip, the rows it adds.
    block = [machine.word(ARGUMENTS + 4 * i) for i in range(stride + 1)]
    turn = what.strips % (stride + 1)
    assert block == [BLOCKS[(i - turn) % (stride + 1)] for i in range(stride + 1)]
    assert machine.word(ARGUMENTS + 20) == OUTPUTS + 4 * what.strips * row
    assert machine.word(ARGUMENTS + 24) == valid - 4 * what.strips
    assert machine.word(ARGUMENTS + 72) == 4
    assert machine.word(ARGUMENTS + 80) == 4 * (stride * what.strips + 1) - pad
    return machine


@pytest.mark.sample(5)
@pytest.mark.parametrize("x_signed", [0, 1])
@pytest.mark.parametrize("clip", [NO_CLIP, UNSIGNED, SIGNED])
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("stride", [1, 2])
def test_every_variant_of_a_strip(form, reach, clip, x_signed, stride) -> None:
    for count in (1, 2, 5):
        variant = (form, reach, clip, x_signed, stride, count % 2, 0)
        machine = check(variant, Strips(count), seed=count)
        assert machine.stalls <= 6, "an instruction in a loop waits for a load"


@pytest.mark.sample(6)
@pytest.mark.parametrize("half", [0, 1, 2])
@pytest.mark.parametrize("clip", [UNSIGNED, SIGNED])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_ties_of_binary32_go_to_the_even_integer(seed, stride, clip, half) -> None:
    variant = (EVEN, 0, clip, seed % 2, stride, seed // 2 % 2, 0)
    machine = check(variant, Strips(1 + 2 * seed, 1 + (half > 0), half=half), seed=seed)
    assert machine.stalls <= 12, "an instruction in a loop waits for a load"


@pytest.mark.sample(5)
@pytest.mark.parametrize("clip", [UNSIGNED, SIGNED])
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("stride", [1, 2])
def test_every_variant_with_another_addend_below_zero(form, reach, clip, stride) -> None:
    for count in (1, 2, 5):
        variant = (form, reach, clip, count % 2, stride, count % 2, 1)
        machine = check(variant, Strips(count), seed=count)
        waits = 4 * count if form == LIMBS and reach == 1 and stride == 1 else 0
        assert machine.stalls <= 6 + waits, "an instruction in a loop waits for a load"


@pytest.mark.sample(3)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_strips_go_on_from_the_blocks_that_are_laid(stride, before) -> None:
    """Rows before and behind the tile and columns before it are padding."""
    for strips in (1, 2, 3, 5):
        for fresh in range(stride + 2):
            what = Strips(4, strips, fresh, before)
            check((LIMBS, 1, SIGNED, 1, stride, 1, 0), what, seed=7 * strips + fresh)


def test_columns_that_all_are_padding_are_not_loaded() -> None:
    for stride in (1, 2):
        check((NARROW, 0, UNSIGNED, 0, stride, 1, 0), Strips(1, 2, 0, 3), seed=stride)


@pytest.mark.parametrize(("stride", "label", "outputs"), [(1, 2, 8), (2, 1, 4)])
def test_another_addend_costs_13_instructions_for_four_outputs(stride, label, outputs) -> None:
    lengths = [len(loop(assembly(LIMBS, 0, SIGNED, 0, stride, 1, t))) for t in (0, 1)]
    assert lengths[1] - lengths[0] == label * 13
    assert outputs == 4 * label


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("clip", "turned"), [(NO_CLIP, 0), (UNSIGNED, 0), (SIGNED, 0), (UNSIGNED, 1), (SIGNED, 1)]
)
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("stride", [1, 2])
def test_every_variant_of_a_half_strip(form, reach, clip, turned, stride) -> None:
    """One and two outputs along it; numbers along the other axis with and without pairs."""
    for half in (1, 2):
        for count in (1, 2, 5):
            variant = (form, reach, clip, (count + half) % 2, stride, count % 2, turned)
            machine = check(variant, Strips(count, half=half), seed=count + half)
            assert machine.stalls <= 4, "an instruction in a loop waits for a load"


@pytest.mark.sample(3)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_half_strip_goes_on_from_the_blocks_that_are_laid(stride, before) -> None:
    """All blocks may be there, more than it reads; what it does not read is not laid."""
    for fresh in range(stride + 2):
        for half in (1, 2):
            what = Strips(4, 1, fresh, before, half)
            machine = check((LIMBS, 1, SIGNED, 1, stride, 1, 0), what, seed=5 * half + fresh)
            unread = np.frombuffer(machine.memory, np.int8, 16 * (3 * stride + 3), BLOCKS[stride])
            assert fresh > stride or (unread[16 * before :] == -128).all()
    check((NARROW, 0, UNSIGNED, 0, stride, 1, 0), Strips(1, 1, 0, 3, 1), seed=stride)
    for strips in (2, 3, 4, 5):  # those before it lay its blocks
        for half in (1, 2):
            what = Strips(5, strips, strips % 2, before, half)
            check((NARROW, 1, UNSIGNED, 0, stride, 0, 0), what, seed=9 * half + strips)


def loop(text: str, number: int = 1) -> list[str]:
    """Return the instructions of an inner loop, without those that lie behind the function."""
    program = Program.parse(text)
    starts = [i + 1 for i, (_, o) in enumerate(program.instructions) if o[:1] == ["x0"]]
    ends = [program.target("1f", start) + 1 for start in starts]
    behind = {n for start, end in program.behind.items() for n in range(start, end)}
    body = range(starts[number], ends[number])
    return [program.instructions[n][0] for n in body if n not in behind]


def test_four_outputs_of_stride_1_are_31_instructions_for_36_products() -> None:
    names = loop(assembly(NARROW, 0, UNSIGNED, 0, 1, 1))
    assert len(names) == 2 * 31
    assert sum("dotusp" in n for n in names) == 2 * 12


def test_four_outputs_of_stride_2_are_40_instructions() -> None:
    assert len(loop(assembly(NARROW, 0, UNSIGNED, 0, 2, 1))) == 40


@pytest.mark.parametrize(("form", "two"), [(NARROW, 8), (LIMBS, 12)])
def test_two_outputs_of_a_half_strip_are_15_or_20_instructions(form, two) -> None:
    """7 with stride 1 and 12 with stride 2 are sums; a second limb takes four more."""
    lengths = [len(loop(assembly(form, 0, UNSIGNED, 0, s, 1, half=True))) for s in (1, 2)]
    assert lengths == [2 * (7 + two), 12 + two]


@pytest.mark.parametrize("stride", [1, 2])
def test_sixteen_inputs_are_transposed_by_18_instructions(stride) -> None:
    assert len(loop(assembly(NARROW, 0, UNSIGNED, 0, stride, 1), 0)) == 18
