"""The kit finds wrong kernels: faults that people make, seeded into two plugins outside the core.

One plugin is ``examples/vendor_target``, the other the accelerator of ``tests/toy``, with layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import dory_kite.plugin
import numpy as np
import pytest

from dory_core.errors import UsageError
from dory_core.hardware.target import OutputFile
from dory_core.ir import Array, Conv, Layer, Linear
from dory_core.kernels import portable_kernels
from dory_core.kernels.call import Argument, FunctionCall, Struct, size
from dory_core.kernels.kernel import Kernel, Rejection, WeightBlock
from dory_core.testing import Plugins
from dory_core.testing.coverage import Ran, ran_in
from dory_core.testing.draws import Candidates, Draws, kernels_of_target, names_of
from dory_core.testing.kernels import SANITIZE, HostLibrary, KernelCase
from tests.toy.array import array_first

SEEDS, COUNT = (0, 1), 24  # as KernelConformance draws them
SAMPLE = 4


def array_kernels(layer: Layer) -> list[Kernel]:
    return [Sound(kernel) for kernel in array_first(layer) if kernel.name.startswith("array")]


def kite_kernels() -> Candidates:
    return kernels_of_target("kite", plugins=Plugins.from_objects(kite=dory_kite.plugin))


class Edited(Kernel):
    """A kernel with a fault. Methods that a subclass does not have are those of the sound one."""

    def __init__(self, sound: Kernel) -> None:
        self.sound = sound
        self.name, self.engine, self.features = sound.name, sound.engine, sound.features

    def accepts(self, layer):
        return self.sound.accepts(layer)

    def traits(self, layer):
        return self.sound.traits(layer)

    def constraints(self, layer, tile):
        return self.sound.constraints(layer, tile)

    def weight_bytes(self, layer, tile):
        return self.sound.weight_bytes(layer, tile)

    def weight_block(self, layer, c_out, c_in):
        return self.sound.weight_block(layer, c_out, c_in)

    def cycles(self, layer, tile):
        return self.sound.cycles(layer, tile)

    def symbol(self, layer):
        return self.sound.symbol(layer)

    def call(self, layer):
        return self.sound.call(layer)

    def headers(self, layer):
        return self.sound.headers(layer)

    def sources(self, layer):
        return self.sound.sources(layer)


class Text(Edited):
    """Its C has ``new`` in place of ``old``."""

    def __init__(self, sound: Kernel, old: str, new: str) -> None:
        super().__init__(sound)
        self.old, self.new = old, new

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        files = self.sound.sources(layer)
        assert any(self.old in str(file.content) for file in files), self.old
        return tuple(OutputFile(f.path, str(f.content).replace(self.old, self.new)) for f in files)


class Sound(Text):
    """The array with a weight memory for every layer that is drawn."""

    def __init__(self, sound: Kernel) -> None:
        super().__init__(sound, "#define WEIGHT_BYTES 4096", "#define WEIGHT_BYTES 4000000")


class Called(Edited):
    """Its call has ``new`` in place of the value of an argument."""

    def __init__(self, sound: Kernel, argument: str, new: Argument) -> None:
        super().__init__(sound)
        self.argument, self.new = argument, new

    def call(self, layer: Layer) -> FunctionCall:
        call = self.sound.call(layer)
        struct = call.arguments["arguments"]
        assert isinstance(struct, Struct)
        assert self.argument in struct.members
        members = {**struct.members, self.argument: self.new}
        return replace(call, arguments={"arguments": replace(struct, members=members)})


class WithoutBias(Edited):
    """It forgets the bias of the layer."""

    def weight_block(self, layer, c_out, c_in):
        plain = replace(layer, op=replace(layer.op, bias=None))
        return self.sound.weight_block(plain, c_out, c_in)


class ForeignChannels(Edited):
    """Tiles get the constants of the first channels."""

    def weight_block(self, layer, c_out, c_in):
        return self.sound.weight_block(layer, (0, c_out[1] - c_out[0]), c_in)


class ShortBlock(Edited):
    """Its block is 8 bytes longer than it says."""

    def weight_block(self, layer, c_out, c_in):
        block = self.sound.weight_block(layer, c_out, c_in)
        return WeightBlock(block.data + bytes(8), block.parts)


class AnyGroups(Edited):
    """It accepts layers with groups, and computes them without."""

    def accepts(self, layer):
        if isinstance(layer.op, Conv):
            layer = replace(layer, op=replace(layer.op, groups=1))
        return self.sound.accepts(layer)


class AnyWeights(Edited):
    """It accepts weights of any size, and keeps their lower 8 bits."""

    def accepts(self, layer):
        if isinstance(layer.op, (Conv, Linear)):
            weights = Array(np.clip(layer.op.weights.values, -128, 127))
            layer = replace(layer, op=replace(layer.op, weights=weights))
        return self.sound.accepts(layer)

    def weight_block(self, layer, c_out, c_in):
        weights = Array(layer.op.weights.values.astype(np.int8).astype(np.int64))
        layer = replace(layer, op=replace(layer.op, weights=weights))
        return self.sound.weight_block(layer, c_out, c_in)


class WithoutCycles(Edited):
    """A call costs nothing."""

    def cycles(self, layer, tile):
        return 0 * self.sound.cycles(layer, tile)


@dataclass(frozen=True)
class Mutant:
    """A fault. plugin, kernel: of what; make: of the sound kernel."""

    plugin: str
    kernel: str
    make: Callable[[Kernel], Kernel]
    redraw: bool = False


def kite(old: str, new: str) -> Mutant:
    return Mutant("kite", "dory_kite_conv3x3", lambda sound: Text(sound, old, new))


def called(argument: str, new: Argument) -> Mutant:
    return Mutant("kite", "dory_kite_conv3x3", lambda sound: Called(sound, argument, new))


def python(make: Callable[[Kernel], Kernel], redraw: bool = False) -> Mutant:
    return Mutant("kite", "dory_kite_conv3x3", make, redraw)


def array(kernel: str, old: str, new: str) -> Mutant:
    return Mutant("array", f"array_{kernel}", lambda sound: Text(sound, old, new))


SHIFT = "value < 0 ? ~(~value >> tile->shift) : value >> tile->shift"
MUTANTS = {
    "swaps strides": kite("ox * tile->stride_w", "ox * tile->stride_h"),
    "knows no stride": kite("oy * tile->stride_h", "oy"),
    "knows no padding": kite("- tile->pad_top", "- 0 * tile->pad_top"),
    "takes the other padding": kite("- tile->pad_left", "- tile->pad_top"),
    "does not clip below": kite("if (y < tile->lo)", "if (y < tile->lo - 100000)"),
    "does not clip above": kite("(y > tile->hi ? tile->hi : y)", "y"),
    "takes the pitch of the input": kite("oy * tile->y_pitch", "oy * tile->x_pitch"),
    "takes the pitch of the output": kite(
        "(uint32_t)iy * tile->x_pitch", "(uint32_t)iy * tile->y_pitch"
    ),
    "rounds to nearest": kite(SHIFT, "(value + (((int64_t)1 << tile->shift) >> 1)) >> tile->shift"),
    "rounds towards zero": kite(SHIFT, "value / ((int64_t)1 << tile->shift)"),
    "forgets the tail of channels": kite("c < channels", "c < channels / 4 * 4"),
    "forgets the last channel": kite("c < channels", "c + 1 < channels"),
    "reads a row behind the tile": kite("iy >= (int32_t)tile->x_h", "iy > (int32_t)tile->x_h"),
    "takes the next row for padding": kite("ix >= (int32_t)tile->x_w", "ix > (int32_t)tile->x_w"),
    "does not clear its sums": kite("int32_t sums[4] = {0, 0, 0, 0}", "static int32_t sums[4]"),
    "leaves its sums undefined": kite("int32_t sums[4] = {0, 0, 0, 0}", "int32_t sums[4]"),
    "knows no sign": kite("(int32_t)(int8_t)x[c]", "(int32_t)x[c]"),
    "multiplies in 32 bits": kite(
        "(int64_t)tile->mul[channel] * sum",
        "(int64_t)(int32_t)((uint32_t)tile->mul[channel] * (uint32_t)sum)",
    ),
    "sums in 16 bits": kite(
        "sums[k] += value * weights[4 * c + k]",
        "sums[k] = (int16_t)(sums[k] + value * weights[4 * c + k])",
    ),
    "transposes its weights": kite("weights[4 * c + k]", "weights[channels * k + c]"),
    "leaves out a row of the window": kite("ky < 3", "ky < 2"),
    "takes the weights of the first four": kite("channel / 4 * group", "channel / 4 * 0 * group"),
    "adds what the first channel adds": kite("tile->add + 8 * channel", "tile->add + 0 * channel"),
    "writes behind its output": kite(
        "y[channel + k] = requantised(tile, sums[k], channel + k);",
        "y[channel + k] = requantised(tile, sums[k], channel + k);\n"
        "          y[channel + k + tile->y_c] = 0;",
    ),
    "writes far away": kite("oy * tile->y_pitch", "oy * tile->y_pitch + ((size_t)1 << 40)"),
    "writes its input": kite(
        "const int32_t value = is_signed",
        "((uint8_t *)x)[c] ^= 1;\n    const int32_t value = is_signed",
    ),
    "is called without padding": called("pad_top", 0),
    "is called with signed inputs": called("x_signed", 1),
    "is called with the rows of the output": called("x_h", size("y_h")),
    "is called with a fixed shift": called("shift", 12),
    "forgets the bias": python(WithoutBias),
    "has constants of other channels": python(ForeignChannels),
    "has more constants than it says": python(ShortBlock),
    "accepts what it cannot compute": python(AnyGroups, redraw=True),
    "cuts weights to 8 bits": python(AnyWeights, redraw=True),
    "cuts weights of an array to 8 bits": Mutant("array", "array_conv", AnyWeights, redraw=True),
    "costs nothing": python(WithoutCycles),
    "counts columns in a byte": kite("ox < tile->y_w", "ox < (uint8_t)tile->y_w"),
    "counts rows in a byte": kite("oy < tile->y_h", "oy < (uint8_t)tile->y_h"),
    "counts inputs in a byte": kite("c < channels", "c < (uint8_t)channels"),
    "counts outputs in a byte": kite("channel < tile->y_c", "channel < (uint8_t)tile->y_c"),
    "counts bytes of a tensor in 16 bits": Mutant(
        "in place",
        "dory_portable_conv",
        lambda sound: Text(sound, "x + place * pixel_bytes", "x + (uint16_t)(place * pixel_bytes)"),
    ),
    "ignores the padding of rows": array(
        "conv", "padded(width, layout->width_multiple)", "width + 0 * layout->width_multiple"
    ),
    "ignores the blocks of channels": array(
        "conv", "c / block * rows", "c / block * (rows - rows)"
    ),
    "ignores the order of bytes": array("conv", "(layout->reversed_bytes - 1);", "0;"),
    "reads the padding of rows": array("conv", "w >= end", "w > end"),
    "knows no stride in a layout": array("conv", "row * layer->stride_h", "row"),
    "mistakes the width of the window": array(
        "conv", "tap / layer->kernel_w", "tap / layer->kernel_h"
    ),
    "is always dense": array("conv", "layer->depthwise ? k : c", "c"),
    "knows no sign in a layout": array("conv", "layer->x_signed && ", "layer->x_signed > 1 && "),
    "fetches too few constants": array(
        "linear", "fetch(constants, tile->y_c * (16 + inputs))", "fetch(constants, tile->y_c * 16)"
    ),
    "leaves junk in channels": array("add", "w < layer->y_width ? 0 : JUNK", "JUNK"),
    "subtracts": array("add", "+ value(layer, x2[at])", "- value(layer, x2[at])"),
    "does not clip a sum": array("add", "if (y > layer->hi) y = layer->hi;", ""),
}
FAST = ("swaps strides", "rounds towards zero", "writes far away", "reads the padding of rows")


@cache
def sources_of(plugin: str) -> Candidates:
    if plugin == "in place":
        return lambda layer: portable_kernels(1, in_place=True)
    return kite_kernels() if plugin == "kite" else array_kernels


@cache
def drawn(plugin: str, kernel: str) -> tuple[tuple[KernelCase, ...], ...]:
    """Return the cases of each seed, and those for sanitizers."""
    draws = Draws(sources_of(plugin), kernel)
    counts = (*((seed, COUNT) for seed in SEEDS), (7, SAMPLE))
    return tuple(tuple(draws.cases(*one)) for one in counts)


def failure_of(cases: Sequence[KernelCase], flags: tuple[str, ...] = ()) -> str:
    """Return what the kit says of the cases; nothing when it finds nothing."""
    try:
        HostLibrary(cases, flags).check()
    except AssertionError as error:
        return str(error)
    return ""


def found(mutant: Mutant) -> str:
    """Return what the tests of KernelConformance say of a mutant."""
    sound = drawn(mutant.plugin, mutant.kernel)
    if mutant.redraw:
        candidates = sources_of(mutant.plugin)
        draws = Draws(lambda layer: [mutant.make(k) for k in candidates(layer)], mutant.kernel)
        sets = [draws.cases(seed, COUNT) for seed in SEEDS]
    else:
        sets = [[replace(c, kernel=mutant.make(c.kernel)) for c in cases] for cases in sound]
    *quick, sample = sets if not mutant.redraw else (*sets, [])
    for cases in quick:
        message = failure_of(cases)
        if message:
            return message
    return failure_of(sample, SANITIZE) if sample else ""


@pytest.mark.sample(2)
@pytest.mark.parametrize("plugin", ["kite", "array"])
def test_sound_kernels_pass_and_the_kit_says_what_ran(plugin: str) -> None:
    names = names_of(sources_of(plugin))
    ran: dict[str, Ran] = {}
    for name in names:
        library = HostLibrary(drawn(plugin, name)[0])
        library.check()
        ran |= ran_in(library)
    assert tuple(ran) == names
    conv = ran[next(name for name in names if "conv" in name)]
    assert conv.calls > conv.layers > COUNT
    assert {"1x1", "2x2"} <= conv.strides
    assert "0,0,0,0" in conv.pads
    assert len(conv.pads) > 3
    assert any(one.startswith(("16", "32", "64")) for one in conv.multiples)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in MUTANTS]
)
def test_a_wrong_kernel_is_found(name: str) -> None:
    message = found(MUTANTS[name])
    assert message, f"a kernel that {name} passes"


def test_a_layer_of_one_pixel_windows_is_padded_too() -> None:
    draws = Draws(sources_of("in place"), "dory_portable_conv")
    layers = draws.layers(0, 200, np.random.default_rng(0))
    windows = [layer.window for layer in layers]
    assert any(window.kernel == (1, 1) and any(window.pads) for window in windows)


def test_a_crash_is_a_failure_with_the_name_of_the_kernel() -> None:
    message = found(MUTANTS["writes far away"])
    assert "dory_kite_conv3x3 crashed: SIGSEGV" in message


def test_a_kernel_that_accepts_nothing_never_ran() -> None:
    class Shy(Edited):
        def accepts(self, layer):
            return Rejection("it is shy", other_kind=True)

    candidates = sources_of("kite")
    shy = Draws(lambda layer: [Shy(k) for k in candidates(layer)], "dory_kite_conv3x3")
    with pytest.raises(UsageError, match="kernel dory_kite_conv3x3 never ran"):
        shy.cases(0, 1)
