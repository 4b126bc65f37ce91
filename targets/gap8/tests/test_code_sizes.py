"""Sizes of code in L2 are those of objects: of the SDK's compiler where it is, else of zig's.

zig compiles for RISC-V without the extension of the chip: its objects of layers are larger by a
third, those of kernels have C in place of assembly and keep to no rule.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest
from dory_gap8.code_sizes import (
    KERNELS,
    PORTABLE,
    RUNNING,
    SIZES,
    UNPACKED,
    kernel_bytes,
    running_bytes,
    template_of,
)
from gap8_layers import SPACE, kernels_for

from dory_core.api import ops, portable_kernels
from dory_core.testing import Plan, event_count, function_bytes
from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.random_layers import KINDS, RandomLayers

SDK = Path(__file__).parent / "sdk"
INCLUDES = ("inc", "src", "hal/include", "hal/gap8", "kernels", str(SDK / "include"))
CHIP = os.environ.get("GAP_RISCV_GCC_TOOLCHAIN", "")
CHIP_GCC = shutil.which("riscv32-unknown-elf-gcc", path=f"{CHIP}/bin") if CHIP else None
ZIG = (
    *(sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-linux-musl"),
    *("-DDORY_GAP8_XPULPV2=0", "-include", str(SDK / "model_registers.h"), f"-I{SDK}"),
)
#: What zig makes of a function of a layer, by what the chip's compiler makes of it.
ZIG_RATIO = (1.0, 1.9)
_ALLOC, _NOBITS = 2, 8


SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))


def loaded_bytes(path: Path) -> int:
    """Return the bytes of the sections of an object that are loaded: code, constants, data."""
    data = path.read_bytes()
    [start] = struct.unpack_from("<I", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x2E)
    total = 0
    for n in range(count):
        _, kind, flags, _, _, length = struct.unpack_from("<6I", data, start + n * size)
        total += length if flags & _ALLOC and kind != _NOBITS else 0
    return total


def compiled_bytes(app: Path, source: str, command: tuple[str, ...], optimise: str) -> int:
    """Return the loaded bytes of a source of an application, its frames for debuggers apart."""
    out = app / "object.o"
    flags = ("-std=gnu99", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-w", optimise)
    includes = (f"-I{path}" for path in INCLUDES)
    done = subprocess.run(
        [*command, *flags, *includes, "-c", source, "-o", str(out)],
        cwd=app,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return loaded_bytes(out)


def chip_command() -> tuple[str, ...]:
    if CHIP_GCC is None:
        pytest.skip("GAP_RISCV_GCC_TOOLCHAIN names no compiler of the chip")
    return (
        *(CHIP_GCC, "-march=rv32imcxgap8", "-mPE=8", "-mFC=1", "-D__riscv__", "-fno-jump-tables"),
        *("-ffunction-sections", "-fdata-sections", "-fno-tree-loop-distribute-patterns"),
    )


def mobile(tmp_path: Path, l2: int | None) -> Plan:
    """Return a network of the usual layers, streamed with a small L2."""
    b = GraphBuilder((3, 32, 32))
    same = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    b.conv(16, ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    for channels in (16, 24, 24, 32):
        b.conv(channels, ops.Window(kernel=(1, 1)))
        b.conv(channels, same, groups=channels)
    first = b.conv(32, ops.Window(kernel=(1, 1)))
    b.add(first, b.conv(32, same))
    b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    b.linear(10)
    return build_app(b.graph(), "gap8", tmp_path, budgets={} if l2 is None else {2: l2})


def functions_of(app: Path, plan: Plan, command: tuple[str, ...]) -> tuple[int, int]:
    """Return the bytes of the functions of all layers: compiled, and by the rule."""
    files = [f"src/{path.name}" for path in sorted((app / "src").glob("dory_layer*.c"))]
    assert len(files) == len(plan.program.functions)
    compiled = sum(compiled_bytes(app, name, command, "-Os") for name in files)
    return compiled, sum(function_bytes(one, plan.steps, SIZES) for one in plan.program.functions)


@pytest.mark.sample(2)
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
@pytest.mark.parametrize("l2", [None, 24_000])
def test_functions_of_layers_grow_as_the_rule_says(l2: int | None, tmp_path: Path) -> None:
    plan = mobile(tmp_path, l2)
    assert bool(plan.transfers) == (l2 is not None)
    compiled, rule = functions_of(tmp_path, plan, ZIG)
    assert ZIG_RATIO[0] * rule <= compiled <= ZIG_RATIO[1] * rule, (compiled, rule)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_an_entry_of_the_table_of_transfers_has_its_size(tmp_path: Path) -> None:
    """The chip's compiler lays the struct out alike: three words behind four bytes."""
    plan = mobile(tmp_path, 24_000)
    source = tmp_path / "src/network.c"
    whole = compiled_bytes(tmp_path, "src/network.c", ZIG, "-Os")
    text = source.read_text()
    head, _, rest = text.partition("events[] = {")
    _, _, rest = rest.partition("};")
    source.write_text(f"{head}events[] = {{DORY_RUN}};{rest}")
    shortened = compiled_bytes(tmp_path, "src/network.c", ZIG, "-Os")
    assert whole - shortened == SIZES.event * (event_count(plan.program) - 1)


@pytest.mark.parametrize("l2", [None, 24_000])
def test_functions_of_layers_have_the_size_of_the_rule(l2: int | None, tmp_path: Path) -> None:
    command = chip_command()
    compiled, rule = functions_of(tmp_path, mobile(tmp_path, l2), command)
    assert rule == pytest.approx(compiled, rel=0.2)


def kernels_of(plan: Plan) -> int:
    """Return the bytes of the kernels that a plan counts."""
    functions = sum(function_bytes(one, plan.steps, SIZES) for one in plan.program.functions)
    events = SIZES.event * event_count(plan.program)
    fixed = SIZES.network + SIZES.layer * len(plan.steps)
    return plan.code_bytes - functions - events - fixed


def kernel_level(app: Path, source: str) -> str:
    """Return the optimisation of a kernel in the application's Makefile."""
    return "-Os" if "DORY_STRIP_ASM 1" in (app / source).read_text() else "-O3"


def test_kernels_have_the_sizes_of_the_table(tmp_path: Path) -> None:
    command = chip_command()
    network = next(case for case in network_cases() if case.name == "residual").build()
    for number, plan in enumerate(
        (mobile(tmp_path / "0", None), build_app(network, "gap8", tmp_path / "1"))
    ):
        app = tmp_path / str(number)
        sources = {f"kernels/{s.kernel.symbol}.c" for s in plan.steps if not s.is_view}
        compiled = sum(
            compiled_bytes(app, name, command, kernel_level(app, name)) for name in sorted(sources)
        )
        assert kernels_of(plan) == pytest.approx(compiled, rel=0.15)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_portable_kernels_take_no_more_than_the_table_says(tmp_path: Path) -> None:
    mobile(tmp_path, None)
    assert set(PORTABLE) == {kernel.name for kernel in portable_kernels(8)}
    for file in (files("dory_core") / "kernels" / "c").iterdir():
        (tmp_path / "kernels" / file.name).write_bytes(file.read_bytes())
    for name, size in PORTABLE.items():
        compiled = compiled_bytes(tmp_path, f"kernels/{name}.c", ZIG, "-O3")
        assert 0.2 * size <= compiled <= size, (name, compiled, size)


def packed(tmp_path: Path, layers: int) -> Plan:
    """Return a network of different kernels on tensors of 4 bits."""
    b = GraphBuilder((16, 12, 12), values=(0, 15))
    for number in range(layers):
        window = ops.Window(kernel=(1, 1)) if number % 2 else SAME
        b.conv(16, window, output=(0, 15))
    return build_app(b.graph(), "gap8", tmp_path)


def instance_bytes(app: Path, symbol: str) -> int:
    text = (app / "kernels" / f"{symbol}.c").read_text()
    macros = dict(re.findall(r"#define (DORY_\w+) (\S+)", text))
    [kind] = re.findall(r'"dory_gap8_(\w+)_impl.h"', text)
    return kernel_bytes(kind, macros)


@pytest.mark.parametrize("layers", [1, 2])
def test_functions_that_unpack_count_once(layers: int, tmp_path: Path) -> None:
    plan = packed(tmp_path, layers)
    kernels = {step.kernel.symbol for step in plan.steps if not step.is_view}
    assert len(kernels) == layers
    shared = kernels_of(plan)
    shared -= sum(instance_bytes(tmp_path, symbol) for symbol in kernels)
    names = re.findall(
        r"dory_gap8_(?:un)?pack_\w+(?=\()",
        "".join(path.read_text() for path in (tmp_path / "src").glob("*.c")),
    )
    assert shared == sum(UNPACKED[name] for name in set(names)) > 0


@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_functions_that_unpack_take_no_more_than_the_table_says(tmp_path: Path) -> None:
    packed(tmp_path, 1)
    compiled = compiled_bytes(tmp_path, "kernels/dory_gap8_unpacked.c", ZIG, "-O3")
    assert 0.5 * sum(UNPACKED.values()) <= compiled <= sum(UNPACKED.values())


@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_large_depthwise_kernels_of_64_bits_keep_to_the_table(tmp_path: Path) -> None:
    b = GraphBuilder((16, 12, 12))
    b.conv(16, ops.Window(kernel=(5, 5), pads=(2, 2, 2, 2)), groups=16)
    [step] = build_app(b.graph(), "gap8", tmp_path).steps
    source = tmp_path / "kernels" / f"{step.kernel.symbol}.c"
    head, _, rest = source.read_text().partition("#define DORY_STEPS")
    head = head.replace("#define DORY_STRIP_ASM 1", "#define DORY_STRIP_ASM 0")
    wide = {"STEPS": 2, "Q_BITS": 64, "Q_FORM": "DORY_Q_STEPS", "PER_CHANNEL": 1, "Q_TURNED": 0}
    wide |= {
        f"{name}{n}": value for n in (1, 2) for name, value in (("DIV", "DORY_SHIFT"), ("CLIP", 1))
    }
    defines = "".join(f"#define DORY_{name} {value}\n" for name, value in wide.items())
    source.write_text(f"{head}{defines}#include{rest.partition('#include')[2]}")
    compiled = compiled_bytes(tmp_path, f"kernels/{source.name}", ZIG, "-O3")
    assert 0.3 * KERNELS["depthwise_5x5"][2] <= compiled <= KERNELS["depthwise_5x5"][2]


def test_what_every_tile_runs_lies_together(tmp_path: Path) -> None:
    """Sections lie in the order of their beginnings: strips, the kernel's function, the others."""
    command = chip_command()
    b = GraphBuilder((16, 12, 12))
    b.conv(32, SAME, groups=16)
    [step] = build_app(b.graph(), "gap8", tmp_path).steps
    symbol, text = step.kernel.symbol, tmp_path / "kernel.s"
    includes = (f"-I{path}" for path in INCLUDES)
    source = f"kernels/{symbol}.c"
    subprocess.run(
        [*command, "-std=gnu99", "-w", "-O3", *includes, "-S", source, "-o", str(text)],
        cwd=tmp_path,
        check=True,
    )
    begun = re.findall(r"section\s+\.text\.(\w+)", text.read_text())
    strips, kernel, half, *others = dict.fromkeys(begun)
    assert (strips, kernel, half) == (f"{symbol}_strip", symbol, f"{symbol}_half")
    assert "dory_multiplied" in "".join(others)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "grouped"])
def test_every_instance_has_a_size(kind: str) -> None:
    random, sizes = RandomLayers(SPACE, 3), set()
    for _ in range(20):
        layer = random.layer(kind)
        for kernel in kernels_for(kind):
            if kernel.accepts(layer) is None:
                size = kernel.code_bytes(layer)
                assert size is not None and 200 <= size < 25_000
                sizes.add(size)
    assert sizes


@pytest.mark.parametrize("template", RUNNING)
def test_a_tile_runs_a_part_of_the_code(template: str) -> None:
    kind, _, way = template.partition(" ")
    macros = {"DORY_KERNEL_H": "1", "DORY_KERNEL_W": "1"} if way == "1x1" else {}
    macros |= {"DORY_KERNEL_H": "3", "DORY_KERNEL_W": "3"} if not way else {}
    macros |= {"DORY_STRIDE": "2" if way == "s2" else "1", "DORY_APART": str(int(way == "apart"))}
    assert template_of(kind, macros) == template
    assert 0 < running_bytes(kind, macros) == RUNNING[template] <= max(KERNELS[template])


@pytest.mark.parametrize("template", ["depthwise_3x3", "depthwise_5x5", "depthwise_any"])
def test_code_around_assembly_is_compiled_for_size(template: str) -> None:
    plain = {"DORY_STRIDE": "1", "DORY_Q_FORM": "DORY_Q_NARROW", "DORY_STEPS": "1"}
    strips = plain | {"DORY_STRIP_ASM": "1"}
    assert kernel_bytes(template, strips) < kernel_bytes(template, plain)
    assert running_bytes(template, strips) < running_bytes(template, plain)


def test_more_requantisation_is_no_less_code() -> None:
    plain = {"DORY_Q_FORM": "DORY_Q_NARROW", "DORY_Q_BITS": "32", "DORY_STEPS": "1"}
    wide = plain | {"DORY_Q_FORM": "DORY_Q_STEPS", "DORY_Q_BITS": "64"}
    even = plain | {"DORY_Q_FORM": "DORY_Q_BINARY32"}
    sizes = [kernel_bytes("depthwise_any", macros) for macros in (plain, wide, even)]
    assert sizes == sorted(sizes) and sizes == list(KERNELS["depthwise_any"])
