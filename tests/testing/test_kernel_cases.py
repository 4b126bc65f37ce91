"""The kit for kernels on their own: portable kernels pass, and faults of a kernel are found."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dory_core.ir import Layer, Tensor
from dory_core.kernels import portable_kernels
from dory_core.kernels.call import Argument, FunctionCall, Local, Operand, Struct, size
from dory_core.kernels.kernel import Kernel, WeightBlock
from dory_core.testing.kernels import (
    SANITIZE,
    HostLibrary,
    KernelCase,
    make_case,
    values_of,
    whole_case,
)
from dory_core.testing.random_layers import ALL_KINDS, KINDS, LayerSpace, RandomLayers
from dory_core.testing.sanitizers import run_sanitized

PACKED = LayerSpace(
    inputs=((0, 3), (-8, 7), (0, 255), (-300, 300)),
    outputs=((-2, 1), (0, 15), (0, 255), (-300, 300), None),
    weight_bits=(2, 4, 8),
    packed=True,
)


def kernel_of(layer: Layer) -> Kernel:
    (kernel,) = (k for k in portable_kernels(cores=3) if k.accepts(layer) is None)
    return kernel


def sample(seed: int, space: LayerSpace, count: int) -> list[KernelCase]:
    """Return ``count`` cases of each kind; portable kernels share input channels by the byte."""
    random = RandomLayers(space, seed)
    cases = []
    for kind in KINDS:
        found: list[KernelCase] = []
        while len(found) < count:
            layer = random.layer(kind)
            case = make_case(kernel_of(layer), layer, random.numbers)
            found.append(case)
        cases += found
    return cases


@pytest.mark.parametrize("space", [LayerSpace(), PACKED], ids=["default", "packed"])
def test_portable_kernels_are_exact_on_random_layers_of_a_space(space: LayerSpace) -> None:
    HostLibrary(sample(1, space, 4)).check()


def test_cases_share_the_objects_of_their_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DORY_CACHE", str(tmp_path))
    first = sample(1, LayerSpace(), 1)
    HostLibrary(first).check()
    before = set(tmp_path.glob("objects/*.o"))
    HostLibrary(first[::-1]).check()
    [calls] = set(tmp_path.glob("objects/*.o")) - before
    assert b"call_0" in calls.read_bytes()


def test_a_space_is_drawn_from_all_over() -> None:
    random = RandomLayers(PACKED, 3)
    layers = [random.layer(kind) for kind in ALL_KINDS for _ in range(40)]
    assert {x.inputs[0].type_name for x in layers} == {"u2", "i4", "u8", "i16"}
    assert {x.output.type_name for x in layers} >= {"i2", "u4", "u8", "i16", "i32"}
    assert {len(x.op.requants) for x in layers} == {0, 1, 2}
    assert {getattr(x.op, "weight_bits", 8) for x in layers} == {2, 4, 8}
    assert {x.op.name for x in layers} == set(ALL_KINDS)
    assert any(x.output.height == x.output.width == 1 for x in layers)


def test_equal_seeds_give_equal_layers() -> None:
    first, second = (RandomLayers(PACKED, 5).layer("depthwise") for _ in range(2))
    assert first == second


class Faulty(Kernel):
    """The portable kernel of a layer with a fault seeded into its call or its constants."""

    def __init__(self, inner: Kernel, old: str, new: Argument) -> None:
        self.inner, self.old, self.new = inner, old, new
        self.name = inner.name

    def accepts(self, layer):
        return self.inner.accepts(layer)

    def traits(self, layer):
        return self.inner.traits(layer)

    def weight_bytes(self, layer, tile):
        return self.inner.weight_bytes(layer, tile) + (8 if self.old == "weight_bytes" else 0)

    def weight_block(self, layer, c_out, c_in) -> WeightBlock | None:
        return self.inner.weight_block(layer, c_out, c_in)

    def cycles(self, layer, tile):
        return 1

    def symbol(self, layer):
        return self.inner.symbol(layer)

    def call(self, layer):
        call = self.inner.call(layer)
        arguments = {n: self.new if n == self.old else v for n, v in call.arguments.items()}
        before = tuple(
            replace(local, value=self._changed(local.value))
            if isinstance(local, Local) and local.name == "tile"
            else local
            for local in call.before
        )
        return replace(call, arguments=arguments, before=before)

    def _changed(self, value: Argument) -> Argument:
        if not isinstance(value, Struct) or self.old not in value.members:
            return value
        return replace(value, members={**value.members, self.old: self.new})

    def headers(self, layer):
        return self.inner.headers(layer)

    def sources(self, layer):
        return self.inner.sources(layer)


class Misspelt(Faulty):
    """The kernel in C that no compiler reads."""

    def sources(self, layer):
        files = self.inner.sources(layer)
        return tuple(replace(f, content=str(f.content).replace("for (", "fore (")) for f in files)


class Writing(Faulty):
    """The kernel behind a call that writes the first byte of the input."""

    def call(self, layer):
        call = super().call(layer)
        write = FunctionCall("memset", {"x": Operand("x"), "value": 0xA5, "count": 1})
        return replace(call, before=(write, *call.before))

    def headers(self, layer):
        return (*super().headers(layer), "string.h")


def faulty(old: str, new: Argument, cores: int = 1) -> KernelCase:
    """Return a depthwise case in tiles whose kernel has a fault."""
    random = RandomLayers(LayerSpace(), 2)
    layer = random.layer("depthwise")
    while layer.op.window.pads[0] == 0:
        layer = random.layer("depthwise")
    case = whole_case(Faulty(kernel_of(layer), old, new), layer)
    assert old == "weight_bytes" or old in kernel_of(layer).call(layer).names
    return replace(case, tile=(*case.tile[:1], 2, 2, case.tile[3]))


def test_a_wrong_element_is_named() -> None:
    with pytest.raises(AssertionError, match=r"dory_portable_conv.* differ, first \[\d+ \d+ \d+\]"):
        HostLibrary([faulty("pad_top", 0)]).check()


def test_a_block_of_another_size_than_announced_is_named() -> None:
    with pytest.raises(AssertionError, match=r"weight_bytes \d+, block of \d+"):
        HostLibrary([faulty("weight_bytes", 0)]).check()


def test_what_the_compiler_says_of_a_kernel_is_shown() -> None:
    case = sample(1, LayerSpace(), 1)[0]
    kernel = Misspelt(case.kernel, "", Operand("x"))
    with pytest.raises(AssertionError, match=r"(?s)compiling kernels/.*fore"):
        HostLibrary([replace(case, kernel=kernel)])


def test_an_input_that_is_written_is_named() -> None:
    case = faulty("x", Operand("x"))
    with pytest.raises(AssertionError, match="x was written"):
        HostLibrary(
            [replace(case, kernel=Writing(kernel_of(case.layer), "x", Operand("x")))]
        ).check()


@pytest.mark.sanitizer
def test_a_read_behind_the_input_fails_under_the_address_sanitizer() -> None:
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run_sanitized(["-m", "tests.testing.test_kernel_cases"], Path(__file__).parents[2])


def test_values_reach_both_ends_of_their_range() -> None:
    x = Tensor("x", 8, 10, 10, -300, 999, 16, True)
    values = values_of(x, np.random.default_rng(0))
    assert (values.shape, values.min(), values.max()) == (x.shape, x.lo, x.hi)
    assert 20 < np.count_nonzero(values == x.hi) < 80


if __name__ == "__main__":
    beyond = faulty("x", Operand("x", offset=size("x_h") * size("x_w") * size("x_c")))
    HostLibrary([beyond], SANITIZE).check()
    sys.exit("the sanitizer found nothing")
