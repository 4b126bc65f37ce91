"""The assembly of the 4x4 block, run instruction by instruction, gives what its C form gives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from dory_gap8.backend import even
from xpulpv2 import Machine, Program, assembly_of, signed

from dory_core.api import Requant, requantisation

RAW, STEP, LIMBS, HIGH, EVEN = 0, 1, 2, 3, 4
NO_CLIP, UNSIGNED, SIGNED = 0, 1, 2
# In place of whether sums are clamped first: they are not, and each channel has its own shift.
OWN = 2
# Forms of requantisation, and whether sums are clamped first.
FORMS = [
    *((STEP, 0), (STEP, 1), (STEP, OWN), (LIMBS, 0), (LIMBS, 1), (LIMBS, OWN), (HIGH, 0)),
]
# Places in the memory of the machine.
INPUTS, WEIGHTS, PARAMETERS, OUTPUTS, TABLE, ARGUMENTS, TERMS, STACK = (
    *(0x1000, 0x4000, 0x8000, 0xA000),
    *(0xD000, 0xE000, 0xE800, 0xF800),
)


# Of the sums that are drawn.
MOST_SUM = (1 << 22) - 1


Variant = tuple[int, int, int, int, int, int]


def assembly(
    form: int,
    reach: int,
    clip: int,
    x_signed: int,
    lanes: int,
    turned: int = 0,
    width: int = 4,
    one: int = 0,
    slide: Mapping[str, object] = MappingProxyType({}),
    halves: int = 0,
    terms: tuple[int, int] = (0, 0),
) -> str:
    """Return the assembly text of a variant, as the preprocessor leaves it.

    slide: macros of the block on neighbours that share inputs. terms: whether there are terms of
    channels, and of pixels.
    """
    macros = {
        "DORY_KERNEL": "kernel",
        "DORY_BLOCK_RAW": RAW,
        "DORY_BLOCK_STEP": STEP,
        "DORY_BLOCK_LIMBS": LIMBS,
        "DORY_BLOCK_HIGH": HIGH,
        "DORY_BLOCK_EVEN": EVEN,
        "DORY_BLOCK_NO_CLIP": NO_CLIP,
        "DORY_BLOCK_UNSIGNED": UNSIGNED,
        "DORY_BLOCK_SIGNED": SIGNED,
        "DORY_BLOCK_FORM": form,
        "DORY_BLOCK_REACH": reach % 2,
        "DORY_BLOCK_SHIFTS": reach // OWN,
        "DORY_BLOCK_CLIP": clip,
        "DORY_BLOCK_TURNED": turned,
        "DORY_X_SIGNED": x_signed,
        "DORY_LANES": lanes,
        "DORY_BLOCK_PIXELS": width,
        "DORY_BLOCK_ONE": one,
        "DORY_HALVES": halves,
        "DORY_BLOCK_COLUMN_TERMS": terms[0],
        "DORY_BLOCK_ROW_TERMS": terms[1],
        "DORY_BLOCK_SLIDE": int(bool(slide)),
        **slide,
    }
    return assembly_of("dory_gap8_block_asm.h", macros)


@dataclass(frozen=True)
class Even:
    """A step in binary32, and how its parameters lie in memory."""

    step: Requant
    offset: Any
    found: even.Even

    @classmethod
    def draw(cls, signed_clip: bool, channels: int, random: np.random.Generator) -> Even:
        """Return scales of few digits, of which many products are ties, and others in turn."""
        digits = np.where(random.integers(0, 2, channels), 1 << 23, 1 << 3)
        scales = (
            random.integers(digits, 2 * digits) / digits * 2.0 ** -random.integers(8, 18, channels)
        )
        lo, hi = (-128, 127) if signed_clip else (0, 255)
        step = requantisation.float_requant(scales.tolist(), int(random.integers(lo, hi)), lo, hi)
        offset = random.integers(-3000, 3000, channels)
        found = even.upper_word(step, offset, np.array([-MOST_SUM]), np.array([MOST_SUM]))
        assert found is not None
        return cls(step, offset, found)

    def outputs(self, v: Any) -> Any:
        """Return what becomes of sums, shape (..., channels)."""
        sums = v.reshape(-1, v.shape[-1]).T + self.offset[:, None]
        return self.step.apply(sums.astype(np.int64)).T.reshape(v.shape)


@dataclass(frozen=True)
class End:
    """What becomes of sums: parameters of channels, shape (channels, n); shift, low_bits, hi."""

    variant: Variant
    parameters: Any
    numbers: tuple[int, int, int]
    even: Even | None = None

    @classmethod
    def draw(cls, variant: Variant, channels: int, random: np.random.Generator) -> End:
        """Return random parameters."""
        form, reach, clip, _, _, turned = variant
        if form == EVEN:
            even = Even.draw(clip == SIGNED, channels, random)
            return cls(variant, even.found.records, (0, even.found.up, even.step.hi), even)
        columns = []
        if turned:
            columns.append(random.integers(-3000, 3000, channels))
        own = form == HIGH or reach == OWN
        if form != RAW and reach == 1:
            columns.append(random.integers(100, 30000, channels))
        low_bits = int(random.integers(3, 12))
        most = 1 << 30 if form == HIGH else 3000
        if form == LIMBS:
            columns.append(random.integers(-(1 << (low_bits - 1)), 1 << (low_bits - 1), channels))
        if form != RAW:
            columns.append(random.integers(-most, most, channels))
            columns.append(random.integers(-(1 << 20), 1 << 20, channels))
            below = random.integers(-(1 << 20), 1 << 20, channels) * turned
            columns += [below] if turned else []
            columns += [random.integers(0, 24, channels)] if own else []
        table = np.stack(columns, axis=1) if columns else np.zeros((channels, 0), np.int64)
        shift, hi = int(random.integers(8, 20)), int(random.choice([255, 127, 63, 1]))
        return cls(variant, table, (shift, low_bits, hi))

    @property
    def words(self) -> list[int]:
        """The parameters as they lie in memory."""
        return [int(v) for v in self.parameters.reshape(-1)]

    def outputs(self, v: Any) -> Any:
        """Return what becomes of sums, shape (pixels, channels)."""
        form, reach, clip, _, _, turned = self.variant
        if form == RAW:
            return v
        if self.even is not None:
            return self.even.outputs(v)
        shift, low_bits, hi = self.numbers
        columns = list(self.parameters.T)
        if form == HIGH or reach == OWN:
            shift = columns.pop()
        if turned:
            v = v + columns[0]
        if reach == 1:
            v = np.clip(v, -columns[turned] - 1, columns[turned])
        mul, add = columns[-2 - turned], columns[-1 - turned]
        last = signed((signed(v << low_bits) * mul) >> 32) if form == HIGH else signed(v * mul)
        if form == LIMBS:
            last = last + (signed(v * columns[-3 - turned]) >> low_bits)
        v = signed(last + add + np.where(v < 0, columns[-1] * turned, 0)) >> shift
        return v if clip == NO_CLIP else np.clip(v, 0 if clip == UNSIGNED else -hi - 1, hi)

    def compare(self, machine: Machine, v: Any, y_bytes: int) -> None:
        """Compare what a machine has stored with what becomes of sums."""
        raw, (pixels, channels) = self.variant[0] == RAW, v.shape
        v = self.outputs(v)
        kind, size = ("<i4", 4) if raw else ("<u1", 1)
        for pixel in range(pixels):
            start = OUTPUTS + pixel * y_bytes
            got = np.frombuffer(machine.memory, kind, channels, start)
            assert np.array_equal(got, v[pixel] if raw else v[pixel] & 255), (self.variant, pixel)
            beyond = machine.memory[start + size * channels : start + y_bytes]
            assert not any(beyond), "stored beyond its channels"


def check(
    variant: Variant,
    seed: int,
    width: int = 4,
    one: int = 0,
    halves: int = 0,
    terms: tuple[int, int] = (0, 0),
) -> Machine:
    """Run blocks of `width` pixels on random values and compare their outputs with numpy's.

    one: whether inputs are one segment. halves: whether they are sums of two bytes. terms: as for
    :func:`assembly`.
    """
    form, _, _, x_signed, lanes, _ = variant
    random = np.random.default_rng(seed)
    machine = Machine(Program.parse(assembly(*variant, width, one, halves=halves, terms=terms)))
    segments, steps, groups, fours = (
        int(random.integers(*r)) for r in ((1, 2 if one else 4), (2, 6), (1, 4), (1, 4))
    )
    pixels = width * fours
    bits = 32 // lanes
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if x_signed else (0, 1 << bits)
    if bits == 16:
        low, high = max(low, -2000), min(high, 2000)
    high = 511 if halves else high
    stride = 4 * ((1 + halves) * steps + 1)
    x = random.integers(low, high, (segments, pixels, steps, lanes))
    w = random.integers(-128, 128, (groups, segments, steps, 4, lanes))
    for segment, pixel in itertools.product(range(segments), range(pixels)):
        address = INPUTS + stride * (pixels * segment + pixel)
        values = x[segment, pixel]
        if halves:
            values = np.stack([values // 2, values - values // 2], axis=1)
        data = values.astype(f"<i{bits // 8}" if x_signed else f"<u{bits // 8}").tobytes()
        machine.memory[address : address + len(data)] = data
        if pixel < width:
            machine.put(TABLE + 4 * width * segment + 4 * pixel, address)
    skip = 0 if one else 16 * int(random.integers(0, 3))
    groups_of_weights = w.astype(f"<i{bits // 8}").reshape(groups, -1)
    of_channels = random.integers(-5000, 5000, (groups, 4)) * terms[0]
    of_pixels = random.integers(-5000, 5000, pixels) * terms[1]
    behind = [one.astype("<i4").tobytes() * terms[0] for one in of_channels]
    weights = b"".join(
        group.tobytes() + term + bytes([85]) * skip
        for group, term in zip(groups_of_weights, behind, strict=True)
    )
    machine.memory[WEIGHTS : WEIGHTS + len(weights)] = weights

    channels = 4 * groups
    end = End.draw(variant, channels, random)
    machine.put(PARAMETERS, *end.words)
    y_bytes = (channels + 4 * int(random.integers(0, 3))) * (4 if form == RAW else 1)
    ends = (TABLE, TABLE + 4 * width * segments, steps, groups)
    machine.put(ARGUMENTS, *ends, WEIGHTS, PARAMETERS, OUTPUTS, y_bytes, *end.numbers, skip)
    machine.put(ARGUMENTS + 52, fours, width * stride, TERMS)
    machine.put(TERMS, *map(int, of_pixels))
    machine.call(ARGUMENTS, STACK)

    v = np.einsum("apsl,gascl->pgc", x, w).reshape(pixels, channels)
    v = v + of_channels.reshape(-1) + of_pixels[:, None]
    end.compare(machine, v, y_bytes)
    return machine


@pytest.mark.sample(5)
@pytest.mark.parametrize("lanes", [4, 2])
@pytest.mark.parametrize("x_signed", [0, 1])
@pytest.mark.parametrize("clip", [NO_CLIP, UNSIGNED, SIGNED])
@pytest.mark.parametrize(("form", "reach"), [(RAW, 0), *FORMS])
def test_every_variant_of_the_block(form, reach, clip, x_signed, lanes) -> None:
    for seed, (width, one) in enumerate([(4, 0), (4, 1), (3, 0), (3, 1)]):
        machine = check((form, reach, clip, x_signed, lanes, 0), seed, width, one)
        assert machine.stalls == 0, "an instruction waits for a load"


@pytest.mark.sample(3)
@pytest.mark.parametrize("clip", [NO_CLIP, UNSIGNED, SIGNED])
@pytest.mark.parametrize(("form", "reach"), FORMS)
def test_every_variant_with_another_addend_below_zero(form, reach, clip) -> None:
    for seed in range(8):
        lanes = 4 - 2 * (seed // 2 % 2)
        machine = check((form, reach, clip, seed % 2, lanes, 1), seed, 3 + seed // 4, seed % 2)
        assert machine.stalls == 0, "an instruction waits for a load"


@pytest.mark.sample(5)
@pytest.mark.parametrize("clip", [NO_CLIP, UNSIGNED, SIGNED])
@pytest.mark.parametrize(("form", "reach"), [(RAW, 0), *FORMS])
def test_every_variant_of_inputs_in_two_halves(form, reach, clip) -> None:
    for seed, (width, one) in enumerate([(4, 0), (4, 1), (3, 0), (3, 1)]):
        machine = check((form, reach, clip, 0, 4, 0), seed, width, one, 1)
        assert machine.stalls == 0, "an instruction waits for a load"


@pytest.mark.sample(8)
@pytest.mark.parametrize("clip", [UNSIGNED, SIGNED])
@pytest.mark.parametrize("seed", range(24))
def test_ties_of_binary32_go_to_the_even_integer(seed, clip) -> None:
    """Behind the block, and in four or three pixels of one or more segments."""
    lanes = 4 - 2 * (seed // 4 % 2)
    variant = (EVEN, 0, clip, seed // 8 % 2, lanes, 0)
    machine = check(variant, seed, 3 + seed % 2, seed // 2 % 2, terms=(seed // 2 % 2, 0))
    assert machine.stalls == 0, "an instruction waits for a load"


@pytest.mark.sample(4)
@pytest.mark.parametrize("terms", [(1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(
    ("form", "reach", "turned"),
    [
        *((RAW, 0, 0), (STEP, 0, 0), (STEP, 1, 1), (LIMBS, 1, 0), (LIMBS, 0, 1)),
        *((HIGH, 0, 0), (HIGH, 0, 1)),
    ],
)
def test_every_variant_with_terms_of_channels_and_pixels(form, reach, turned, terms) -> None:
    for seed in range(4):
        variant = (form, reach, SIGNED if form else NO_CLIP, seed % 2, 4, turned)
        machine = check(variant, seed, 4, 1, terms=terms)
        assert machine.stalls == 0, "an instruction waits for a load"


def test_terms_cost_21_instructions_for_sixteen_outputs() -> None:
    def group(terms: tuple[int, int]) -> int:
        program = Program.parse(assembly(STEP, 0, SIGNED, 1, 4, 0, 4, 1, terms=terms))
        start = next(i for i, (op, o) in enumerate(program.instructions) if o[:1] == ["x1"]) + 1
        return program.target("4f", start) - start

    assert group((1, 0)) - group((0, 0)) == 20
    assert group((0, 1)) - group((0, 0)) == 21


def test_another_addend_costs_14_instructions_for_four_outputs() -> None:
    lengths = [len(Program.parse(assembly(LIMBS, 1, SIGNED, 0, 4, t)).instructions) for t in (0, 1)]
    assert lengths[1] - lengths[0] == 4 * 14


def test_a_step_is_24_instructions_for_64_products() -> None:
    program = Program.parse(assembly(STEP, 0, UNSIGNED, 0, 4))
    start = next(i for i, (op, o) in enumerate(program.instructions) if o[:1] == ["x0"]) + 1
    body = program.instructions[start : program.target("3f", start) + 1]
    names = [operation for operation, _ in body]
    assert names.count("p.lw") == 8
    assert names.count("pv.sdotusp.b") == 16
    assert len(names) == 24


@pytest.mark.parametrize(("width", "loads", "products"), [(4, 12, 32), (3, 10, 24)])
def test_a_step_of_halves_loads_weights_once(width, loads, products) -> None:
    program = Program.parse(assembly(STEP, 0, UNSIGNED, 0, 4, 0, width, halves=1))
    start = next(i for i, (op, o) in enumerate(program.instructions) if o[:1] == ["x0"]) + 1
    names = [
        operation for operation, _ in program.instructions[start : program.target("3f", start) + 1]
    ]
    assert names.count("p.lw") == loads
    assert names.count("pv.sdotusp.b") == products
    assert len(names) == loads + products
