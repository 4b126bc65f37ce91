"""Functions of two operands: every form of a contribution, every size of the second operand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dory_gap8.backend import PairKernel
from dory_gap8.backend.pair import LINEAR, PLAIN, SHIFTED, TABLE, WORD, contributions

from dory_core.api import Layer, Requant, ops
from dory_core.importing import Array, requant
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed, whole_case

SHAPE = (6, 5, 7)
BYTE, HALF, WHOLE = (-128, 127), (-3000, 4000), (-(2**24), 2**24)
ZERO, SCALED = requant(1, 17), requant(range(40, 46), -7)
EACH = requant([1 << 24] * 5 + [(1 << 24) + 9], 1 << 30, 1 << 20, -30000, 30000)
ALIKE = requant(1 << 20, 1 << 30, 1 << 18, -30000, 30000)
TURNED = requant(900, 100, 1 << 7, add_negative=50)
CLIP: Any = (-128, 127)


def pair(
    kind: type[ops.Pairwise],
    second: tuple[int, int, int] = SHAPE,
    first_step: Requant | None = None,
    second_step: Requant | None = None,
    last: Requant | None = None,
    ranges: tuple[tuple[int, int], tuple[int, int]] = (BYTE, BYTE),
    constant: bool = False,
) -> Layer:
    fields: dict[str, Any] = {"operand_requants": (first_step, second_step)}
    fields["requants"] = () if last is None else (last,)
    sources = [(*SHAPE, *ranges[0]), (*second, *ranges[1])]
    if constant:
        values = np.random.default_rng(3).integers(ranges[1][0], ranges[1][1] + 1, second)
        fields |= {"constant": Array(values), "inputs": ("input",)}
        sources.pop()
    return typed(alone(kind, **fields), *sources)


LAST = requant(range(3, 9), 70, 1 << 10, *CLIP)
LAYERS = {
    "plain": (pair(ops.Add, last=LAST), PLAIN, PLAIN),
    "zero points": (pair(ops.Mul, first_step=ZERO, second_step=ZERO, last=LAST), LINEAR, LINEAR),
    "scales of channels": (pair(ops.Add, first_step=SCALED, last=LAST), LINEAR, PLAIN),
    "shifts of channels": (
        pair(ops.Maximum, first_step=EACH, second_step=EACH, last=LAST),
        SHIFTED,
        SHIFTED,
    ),
    "two addends": (pair(ops.Minimum, first_step=TURNED, last=LAST), TABLE, PLAIN),
    "halves": (
        pair(ops.Mul, second_step=EACH, last=requant(1, 0, 1 << 12, *CLIP), ranges=(HALF, BYTE)),
        PLAIN,
        SHIFTED,
    ),
    "accumulators": (
        pair(ops.Add, first_step=SCALED, last=requant(9, 0, 1 << 16, *CLIP), ranges=(BYTE, WHOLE)),
        LINEAR,
        PLAIN,
    ),
    "constant": (pair(ops.Mul, (6, 1, 7), ZERO, ZERO, LAST, constant=True), LINEAR, WORD),
    "second operand without a sign": (
        pair(ops.Add, second_step=TURNED, last=LAST, ranges=(BYTE, (0, 255))),
        PLAIN,
        TABLE,
    ),
    "second operand with a sign": (
        pair(ops.Add, second_step=TURNED, last=LAST, ranges=((0, 255), BYTE)),
        PLAIN,
        TABLE,
    ),
    "second operand of halves": (
        pair(ops.Maximum, second_step=ALIKE, last=LAST, ranges=(BYTE, HALF)),
        PLAIN,
        SHIFTED,
    ),
    "no step": (pair(ops.Mul, first_step=ZERO), LINEAR, PLAIN),
}


@pytest.mark.parametrize("name", LAYERS)
def test_forms_of_contributions(name: str) -> None:
    layer, *forms = LAYERS[name]
    found = contributions(layer)
    assert found is not None and [one.form for one in found] == forms
    tiles = ((6, 5, 7, 6), (4, 2, 3, 4))
    whole = whole_case(PairKernel(), layer)
    cases = [KernelCase(PairKernel(), layer, whole.inputs, tile) for tile in tiles]
    HostLibrary(cases).check()


SUMS = requant([1 << 20, (1 << 20) + 9, -(1 << 21), 3, 1 << 19, 1 << 18], 1 << 19, 1 << 20)
FITS = {
    "no clip": (SUMS, True),
    "a clip that is never reached": (replace(SUMS, lo=-(1 << 27), hi=1 << 27), True),
    "a clip": (replace(SUMS, lo=-30_000, hi=30_000), False),
    "a shift of 32": (requant([1 << 30] * 5 + [(1 << 30) + 1], 1 << 31, 1 << 32), False),
}


@pytest.mark.parametrize("name", FITS)
def test_what_needs_no_clip_is_shifted_in_32_bits(name: str) -> None:
    step, fits = FITS[name]
    last = requant(1, 70, 1 << 18, *CLIP)
    layers = [
        pair(kind, second_step=step, last=last, ranges=(BYTE, WHOLE))
        for kind in (ops.Add, ops.Maximum)
    ]
    for layer in layers:
        found = contributions(layer)
        assert found is not None
        assert (found[1].form, found[1].fits) == (SHIFTED, fits)
    HostLibrary([whole_case(PairKernel(8), layer) for layer in layers]).check()


@pytest.mark.parametrize("constant", (False, True))
def test_second_operands_of_every_size(constant: bool) -> None:
    cases = []
    for c in (1, 6):
        for h in (1, 5):
            for w in (1, 7):
                step = LAST if (c + h + w) % 2 else requant(3, 70, 1 << 10, *CLIP)
                layer = pair(ops.Mul, (c, h, w), ZERO, ZERO, step, constant=constant)
                whole = whole_case(PairKernel(), layer)
                for tile in ((6, 5, 7, 6), (4, 2, 3, 4)):
                    cases.append(KernelCase(PairKernel(), layer, whole.inputs, tile))
    HostLibrary(cases).check()


@pytest.mark.slow
@pytest.mark.parametrize("cores", (1, 2, 3, 4, 6))
def test_every_number_of_cores(cores: int) -> None:
    kernel = PairKernel(cores)
    HostLibrary([whole_case(kernel, layer) for layer, *_ in LAYERS.values()]).check()


def test_what_is_left_to_portable_kernels() -> None:
    each = requant(range(3, 9), 100, 1 << 2, add_negative=[50] * 6)
    rejection = PairKernel().accepts(pair(ops.Add, first_step=each, last=LAST))
    assert rejection is not None and "has no form" in rejection.reason
