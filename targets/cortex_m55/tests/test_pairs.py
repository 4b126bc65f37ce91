"""Sums and products of operands of each kind, and tables of 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_cortex_m55.backend.elementwise import WordsKernel
from dory_cortex_m55.backend.pairs import ProductsKernel, SumsKernel, operands_of
from emulated import Qemu, choose_compiler, require_qemu

from dory_core.api import Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernel_cases import takes
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed

SHAPE = (13, 4, 5)
BYTE, UNSIGNED, HALF, WORD = (-128, 127), (0, 255), (-3000, 2900), (-131504, 4217908)
KERNELS = {ops.Add: SumsKernel(), ops.Mul: ProductsKernel()}
# Ranges of both operands, and the shape of the second one.
TENSORS = (
    (BYTE, BYTE, SHAPE),
    (UNSIGNED, BYTE, (13, 1, 1)),
    (BYTE, UNSIGNED, (1, 4, 5)),
    (HALF, HALF, SHAPE),
    (HALF, BYTE, (1, 4, 5)),
)


def step_of(kind: type[ops.Pairwise], most: int, output: tuple[int, int]) -> object:
    """Return a step that turns sums or products up to ``most`` into outputs."""
    mul = (output[1] << 24) // most
    return requant(max(mul, 1), 1 << 23, 1 << 24, *output)


def pairs(kind: type[ops.Pairwise]) -> list[Layer]:
    """Return sums or products of tensors, and of a tensor with constants of channels."""
    layers, zero = [], requant(1, 7)
    for first, second, shape in TENSORS:
        ends = max(map(abs, first)) + 7, max(map(abs, second)) + 7
        most = sum(ends) if kind is ops.Add else ends[0] * ends[1]
        operands = tuple(zero if own != HALF else None for own in (first, second))
        for output in (BYTE, UNSIGNED, (-(1 << 15), (1 << 15) - 1)):
            op = alone(kind, operand_requants=operands, requants=(step_of(kind, most, output),))
            layers.append(typed(op, (*SHAPE, *first), (*shape, *second)))
        bare = alone(kind, operand_requants=operands)
        layers.append(typed(bare, (*SHAPE, *first), (*shape, *second)))
    numbers = Array(np.arange(-60, 70, 10).reshape(13, 1, 1))
    constant = alone(
        kind, inputs=("input",), constant=numbers, requants=(step_of(kind, 7000, BYTE),)
    )
    return [*layers, typed(constant, (*SHAPE, *HALF)), typed(constant, (*SHAPE, *BYTE))]


def scaled(random: np.random.Generator) -> list[Layer]:
    """Return sums of words by a factor of each channel, with bytes and with such words."""
    size, layers = 1 << 17, []
    for first, second in ((BYTE, (-size, size)), ((-size, 9), UNSIGNED), ((-99, size), (-size, 7))):
        steps = []
        for values in (first, second):
            muls = random.integers(-(1 << 23), 1 << 23, SHAPE[0]).tolist()
            words = requant(muls, 1 << 12, 1 << 13)
            steps.append(words if max(values) - min(values) > 255 else requant(1 << 18))
        step = requant(1, 1 << 20, 1 << 21, 0, 255)
        op = alone(ops.Add, operand_requants=tuple(steps), requants=(step,))
        layers.append(typed(op, (*SHAPE, *first), (*SHAPE, *second)))
    return layers


def cases_of(seed: int) -> list[KernelCase]:
    """Return cases of all operands and outputs."""
    random, cases = np.random.default_rng(seed), []
    for kind, kernel in KERNELS.items():
        layers = [layer for layer in pairs(kind) if takes(kernel, layer)]
        assert len(layers) >= 20
        cases += [make_case(kernel, layer, random) for layer in layers]
    words = alone(ops.Add, requants=(requant(1, 1 << 13, 1 << 14, 0, 255),))
    cases.append(make_case(SumsKernel(), typed(words, (*SHAPE, *WORD), (*SHAPE, *WORD)), random))
    for layer in scaled(random):
        assert takes(SumsKernel(), layer)
        cases.append(make_case(SumsKernel(), layer, random))
    table = Array(random.integers(-(1 << 30), 1 << 30, 256))
    lut = typed(alone(ops.Lut, table=table), (*SHAPE, *BYTE))
    return [*cases, make_case(WordsKernel(), lut, random)]


def test_operands_of_each_kind_are_exact() -> None:
    HostLibrary(cases_of(1)).check()


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_helium_computes_the_same(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_qemu()
    choose_compiler(compiler, monkeypatch)
    Qemu(cases_of(2 if compiler == "gcc" else 3)).check()


def test_cases_have_operands_of_all_kinds() -> None:
    layers = [case.layer for case in cases_of(4) if isinstance(case.layer.op, ops.Pairwise)]
    kinds = {one.kind for layer in layers for one in operands_of(layer) if one is not None}
    assert kinds == {"BYTES", "HALVES", "WORDS", "ONE", "SCALED"}


def test_a_second_operand_of_one_row_is_for_portable_code() -> None:
    op = alone(ops.Add, requants=(requant(1, 0, 2),))
    rejection = SumsKernel().accepts(typed(op, (*SHAPE, *BYTE), (13, 1, 5, *BYTE)))
    assert rejection is not None and "neither as large, one pixel nor one channel" in str(rejection)


def test_factors_that_no_upper_half_is_exact_for_are_left_to_portable_code() -> None:
    step, words = requant(1, 1 << 20, 1 << 21, 0, 255), (-(1 << 17), 1 << 17)
    for mul, add, div in (((3, 4000), 0, 1 << 13), ((3, 4000), 50, 100)):
        muls = [mul[c % 2] for c in range(SHAPE[0])]
        op = alone(ops.Add, operand_requants=(None, requant(muls, add, div)), requants=(step,))
        layer = typed(op, (*SHAPE, *BYTE), (*SHAPE, *words))
        assert operands_of(layer)[1] is None and not takes(SumsKernel(), layer)


def test_constants_of_channels_go_with_the_channels_of_a_tile(tmp_path: Path) -> None:
    builder = GraphBuilder((96, 24, 24), values=BYTE)
    numbers = Array(np.arange(-48, 48).reshape(96, 1, 1))
    builder.layer(ops.Mul, "input", constant=numbers, requants=(step_of(ops.Mul, 7000, BYTE),))
    plan = build_app(builder.graph(), "cortex_m55", tmp_path / "app", budgets={1: 16384})
    (step,) = plan.steps
    assert step.kernel.name == "dory_cortex_m55_products" and step.tile_count > 1
    assert_exact(tmp_path / "app")
