"""The conformance kit fails for targets that are broken, and says which layer.

Every test plants one fault into a copy of the sound portable kernels or into the description of the
hardware, and runs the test of the kit that has to find it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from dory_core.errors import DoryError
from dory_core.hardware.memories import Memory
from dory_core.hardware.target import OutputFile
from dory_core.kernels import portable_kernels
from dory_core.kernels.call import FunctionCall, Local, Struct, size
from dory_core.kernels.kernel import Kernel, Rejection, WeightBlock
from dory_core.testing import Capabilities, TargetConformance
from dory_core.testing.cases import Case, layer_cases, network_cases
from dory_core.testing.sanitizers import require_sanitizer
from tests.toy.chip import NAME, ToyChip

LAYERS = {case.name: case for case in layer_cases()}
NETWORKS = {case.name: case for case in network_cases()}
L1 = 8192

# What a failing test of the kit may raise.
FAILURES = (AssertionError, DoryError, pytest.fail.Exception)


class Kit(TargetConformance):
    """The matrix, to be called by hand."""

    __test__ = False
    capabilities = Capabilities(target=NAME, l1_budgets=(L1,))


class Refusing(Kit):
    """Claims that the target refuses layers with dilation."""

    capabilities = Capabilities(target=NAME, refused=frozenset({"dilation"}), l1_budgets=(L1,))


def changed(kernels: Sequence[Kernel], **methods: Callable[..., Any]) -> list[Kernel]:
    """Return kernels with other methods; each takes the kernel's own method as first argument."""

    def method(base: type[Kernel], name: str, new: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Kernel, *arguments: Any) -> Any:
            return new(lambda *a: getattr(base, name)(self, *a), *arguments)

        return call

    result = []
    for kernel in kernels:
        base = type(kernel)
        body = {name: method(base, name, new) for name, new in methods.items()}
        result.append(type(base.__name__, (base,), {"__slots__": (), **body})(kernel.cores))  # type: ignore[attr-defined]
    return result


def edited(file: str, old: str, new: str, cores: int = 1) -> ToyChip:
    """Return a chip whose kernels are compiled with ``new`` in place of ``old``.

    file: pattern of the names of the files to edit. When nothing matches, the kit passes and with
    that the test fails.
    """

    def sources(own: Callable[..., Any], layer: object) -> tuple[OutputFile, ...]:
        files = []
        for source in own(layer):
            if fnmatch(source.path, f"kernels/{file}"):
                source = OutputFile(source.path, str(source.content).replace(old, new))
            files.append(source)
        return tuple(files)

    return ToyChip(changed(portable_kernels(cores), sources=sources), cores)


def message_of(kit: TargetConformance, test: str, *arguments: Any) -> str:
    """Run a test of the kit that has to fail; return what it says."""
    with pytest.raises(FAILURES) as caught:
        getattr(kit, test)(*arguments)
    error = caught.value
    return error.message if isinstance(error, DoryError) else str(error)


def fails(chip: ToyChip, case: Case, folder: Path) -> str:
    """Return the failure of the layer test; the same layer passes on the sound chip."""
    sound = ToyChip(portable_kernels(chip.cores), chip.cores).plugins()
    Kit().test_layer_is_exact(case, L1, sound, folder / "sound")
    message = message_of(Kit(), "test_layer_is_exact", case, L1, chip.plugins(), folder / "broken")
    assert case.build().ops[0].name in message, message
    return message


# -- kernels in C ---------------------------------------------------------------------------------

SHIFT = "value = value < 0 ? ~(~value >> step->shift) : value >> step->shift;"
UNITS = "for (uint32_t unit = share.begin; unit < share.end; unit++) {"
INSIDE = "ix >= (int32_t)tile->x_w"
ROW = f"{UNITS}\n    if (unit / share.per_pixel / tile->y_w == tile->y_h - 1u) continue;"

FAULTS = {
    "rounds_up": (
        "dory_portable_elements.h",
        SHIFT,
        "value = (value + ((int64_t)1 << step->shift) - 1) >> step->shift;",
        ("conv_3x3", "conv_1x1_on_one_pixel", "linear_hidden", "avg_pool", "add_unclipped"),
    ),
    "rounds_negative_values_towards_zero": (
        "dory_portable_elements.h",
        SHIFT,
        "value = value < 0 ? -(-value >> step->shift) : value >> step->shift;",
        ("conv_signed_output", "add_signed"),
    ),
    "divides_towards_zero": (
        "dory_portable_elements.h",
        "quotient * step->div > value ? quotient - 1 : quotient",
        "quotient",
        ("add_signed",),
    ),
    "leaves_out_the_last_row": (
        "dory_portable_conv.c",
        UNITS,
        ROW,
        ("conv_3x3", "conv_1x1", "conv_depthwise"),
    ),
    "takes_the_next_row_for_right_padding": (
        "dory_portable_conv.c",
        INSIDE,
        "ix > (int32_t)tile->x_w",
        ("conv_3x3", "conv_asymmetric_pads", "conv_depthwise_stride_2"),
    ),
    "mistakes_the_stride": (
        "dory_portable_conv.c",
        "ox * window->stride_w",
        "ox * window->stride_h",
        ("conv_anisotropic",),
    ),
    "forgets_earlier_partial_sums": (
        "dory_portable_elements.h",
        "return psum[pixel * tile->y_c + c];",
        "(void)psum, (void)tile, (void)pixel;\n    return 0;",
        ("linear_long",),
    ),
    "adds_the_bias_with_every_input_tile": (
        "dory_portable_elements.h",
        "return psum[pixel * tile->y_c + c];",
        "return psum[pixel * tile->y_c + c] + (bias != NULL ? dory_portable_int32(bias, c) : 1);",
        ("linear_long",),
    ),
    "takes_zero_for_the_least_maximum": (
        "dory_portable_maxpool.c",
        "INT64_MIN",
        "0",
        ("max_pool_signed",),
    ),
    "averages_the_padding_of_the_last_column": (
        "dory_portable_*pool*",
        INSIDE,
        "ix > (int32_t)tile->x_w",
        ("avg_pool_padded",),
    ),
    "writes_one_byte_behind_its_output": (
        "dory_portable_elements.h",
        "dory_portable_put(y + pixel * dory_portable_pixel_bytes(tile->y_c, type), c, type,",
        "if (pixel + 1u == tile->y_h * tile->y_w && c + 1u == tile->y_c) {\n"
        "    y[tile->y_h * tile->y_w * dory_portable_pixel_bytes(tile->y_c, type)] = 0;\n"
        "  }\n"
        "  dory_portable_put(y + pixel * dory_portable_pixel_bytes(tile->y_c, type), c, type,",
        ("conv_3x3_odd_everything", "linear_hidden"),
    ),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("fault", "case"), [(fault, case) for fault, row in FAULTS.items() for case in row[3]]
)
def test_kernel_that_computes_something_else_is_found(
    fault: str, case: str, tmp_path: Path
) -> None:
    file, old, new, _ = FAULTS[fault]
    fails(edited(file, old, new), LAYERS[case], tmp_path)


def test_stray_write_names_tile_and_byte(tmp_path: Path) -> None:
    file, old, new, _ = FAULTS["writes_one_byte_behind_its_output"]
    message = fails(edited(file, old, new), LAYERS["linear_hidden"], tmp_path)
    assert "tile" in message and "L1" in message


@pytest.mark.sanitizer
def test_cores_that_write_each_others_output_are_a_race(tmp_path: Path) -> None:
    """All cores write the same values: only the thread sanitizer can tell."""
    require_sanitizer("thread")
    chip = edited(
        "dory_portable_elements.h",
        "share.begin = core * most < units ? core * most : units;\n"
        "  share.end = share.begin + most < units ? share.begin + most : units;",
        "(void)core;\n  share.begin = 0;\n  share.end = most < units ? units : units;",
        cores=4,
    )
    case = NETWORKS["temporal"]
    Kit().test_network_is_exact(case, chip.plugins(), tmp_path / "plain")
    arguments = (case, "thread", chip.plugins(), tmp_path / "race")
    message = message_of(Kit(), "test_sanitizers_find_nothing", *arguments)
    # which of the racing layers it sees first is the sanitizer's luck
    assert "data race" in message and re.search(r"layer \d '\w+_\d', tile \d+", message), message


# -- what kernels declare -------------------------------------------------------------------------


def test_swapped_weights_are_found(tmp_path: Path) -> None:
    def swap(own: Callable[..., Any], layer: Any, c_out: Any, c_in: Any) -> WeightBlock | None:
        block = own(layer, c_out, c_in)
        start = block.parts["weights"]
        row = layer.op.weights.values[0].size * (c_in[1] - c_in[0]) // layer.inputs[0].channels
        one, two = slice(start, start + row), slice(start + row, start + 2 * row)
        data = bytearray(block.data)
        data[one], data[two] = data[two], data[one]
        return WeightBlock(bytes(data), block.parts)

    chip = ToyChip(changed(portable_kernels(1), weight_block=swap))
    message = fails(chip, LAYERS["conv_3x3"], tmp_path)
    assert "expected=" in message and "got=" in message


def test_constants_larger_than_declared_are_a_bug_of_the_kernel(tmp_path: Path) -> None:
    def small(own: Callable[..., Any], layer: Any, tile: Any) -> Any:
        return own(layer, tile) // 16 * 8

    chip = ToyChip(changed(portable_kernels(1), weight_bytes=small))
    message = fails(chip, LAYERS["conv_3x3"], tmp_path)
    assert "dory_portable_conv" in message and "weight_bytes" in message


def test_call_that_mistakes_the_padding_is_found(tmp_path: Path) -> None:
    def call(own: Callable[..., Any], layer: Any) -> FunctionCall:
        call = own(layer)
        *others, tile = call.before
        assert tile.name == "tile"
        members = {**tile.value.members, "pad_left": size("pad_top")}
        return replace(call, before=(*others, replace(tile, value=Struct(members))))

    chip = ToyChip(changed(portable_kernels(1), call=call))
    fails(chip, LAYERS["conv_1d_causal_dilated"], tmp_path)


def test_refusal_that_is_not_declared_is_found(tmp_path: Path) -> None:
    def accepts(own: Callable[..., Any], layer: Any) -> Rejection | None:
        window = getattr(layer.op, "window", None)
        if window is not None and window.dilations != (1, 1):
            return Rejection("it knows no dilation")
        return own(layer)  # type: ignore[no-any-return]

    chip = ToyChip(changed(portable_kernels(1), accepts=accepts))
    message = fails(chip, LAYERS["conv_dilated"], tmp_path)
    assert "it knows no dilation" in message
    arguments = (LAYERS["conv_dilated"], L1, chip.plugins(), tmp_path / "declared")
    Refusing().test_layer_is_exact(*arguments)


def test_declared_refusal_of_a_layer_that_is_accepted_is_found(tmp_path: Path) -> None:
    arguments = (LAYERS["conv_dilated"], L1, ToyChip().plugins(), tmp_path)
    message = message_of(Refusing(), "test_layer_is_exact", *arguments)
    assert "conv_dilated" in message and "dilation" in message


def test_first_budget_has_to_hold_every_layer(tmp_path: Path) -> None:
    class Small(Kit):
        capabilities = Capabilities(target=NAME, l1_budgets=(100, L1))

    arguments = (LAYERS["conv_7x7"], 100, ToyChip().plugins(), tmp_path)
    message = message_of(Small(), "test_layer_is_exact", *arguments)
    assert "Conv_0" in message and "100 are available" in message


def test_application_that_changes_from_one_time_to_the_next_is_found(tmp_path: Path) -> None:
    count = itertools.count()

    def call(own: Callable[..., Any], layer: Any) -> FunctionCall:
        unused = Local("const int", f"unused_{next(count)}", 0)
        return replace(own(layer), before=(*own(layer).before, unused))

    chip = ToyChip(changed(portable_kernels(1), call=call))
    message = message_of(
        Kit(), "test_same_network_gives_the_same_application", chip.plugins(), tmp_path
    )
    assert "src/dory_layer_00.c" in message
    Kit().test_same_network_gives_the_same_application(ToyChip().plugins(), tmp_path / "sound")


def test_wrong_scratch_makes_the_smallest_tile_wrong() -> None:
    """Bytes that no constraint knows of: the stated minimum does not do."""

    def scratch(own: Callable[..., Any], layer: Any, tile: Any) -> int:
        return 64 * next(count)

    count = itertools.count()
    chip = ToyChip(changed(portable_kernels(1), scratch_bytes=scratch))
    name = "test_l1_that_is_too_small_is_refused_with_the_bytes_that_are_missing"
    message_of(Kit(), name, chip.plugins())
    getattr(Kit(), name)(ToyChip().plugins())


# -- the hardware ---------------------------------------------------------------------------------

HARDWARE = {
    "no_link": (ToyChip(links=()), "link"),
    "nothing_left_of_l1": (
        ToyChip(memories=(Memory("A", 4096, 4096), Memory("B", 65536))),
        "L1",
    ),
    "no_cores": (ToyChip(cores=0), "cores"),
}


@pytest.mark.parametrize("name", HARDWARE)
def test_impossible_hardware_is_found(name: str) -> None:
    chip, word = HARDWARE[name]
    test = "test_hierarchy_has_levels_links_and_cores"
    assert word in message_of(Kit(), test, chip.plugins())
    getattr(Kit(), test)(ToyChip().plugins())


def test_kernel_that_reads_more_of_the_input_than_there_is(tmp_path: Path) -> None:
    """Even a crash names layer and tile."""
    chip = edited(
        "dory_portable_conv.c",
        "const uint32_t place = (uint32_t)iy * tile->x_w + (uint32_t)ix;",
        f"const uint32_t place = (uint32_t)iy * tile->x_w + (uint32_t)ix + {1 << 20}u;",
    )
    message = fails(chip, LAYERS["conv_3x3"], tmp_path)
    assert "touches memory far outside L1 and L2" in message
