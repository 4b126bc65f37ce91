"""Sizes of code in L2 are those of objects: of the SDK's compiler where it is, else of zig's.

zig compiles for RISC-V without the extension of the chip: its objects of layers are larger by a
third, those of kernels have C in place of assembly and keep to no rule.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from dory_gap8.code_sizes import KERNELS, SIZES, kernel_bytes
from gap8_layers import SPACE, kernels_for

from dory_core.api import ops
from dory_core.testing import Plan, event_count, function_bytes
from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.random_layers import KINDS, RandomLayers

SDK = Path(__file__).parent / "sdk"
INCLUDES = ("inc", "hal/include", "hal/gap8", "kernels", str(SDK / "include"))
CHIP = os.environ.get("GAP_RISCV_GCC_TOOLCHAIN", "")
CHIP_GCC = shutil.which("riscv32-unknown-elf-gcc", path=f"{CHIP}/bin") if CHIP else None
ZIG = (
    *(sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-linux-musl"),
    *("-DDORY_GAP8_XPULPV2=0", "-include", str(SDK / "model_registers.h"), f"-I{SDK}"),
)
#: What zig makes of a function of a layer, by what the chip's compiler makes of it.
ZIG_RATIO = (1.0, 1.9)
_ALLOC, _NOBITS = 2, 8


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


def test_kernels_have_the_sizes_of_the_table(tmp_path: Path) -> None:
    command = chip_command()
    network = next(case for case in network_cases() if case.name == "residual").build()
    for number, plan in enumerate(
        (mobile(tmp_path / "0", None), build_app(network, "gap8", tmp_path / "1"))
    ):
        app = tmp_path / str(number)
        sources = {f"kernels/{s.kernel.symbol}.c" for s in plan.steps if not s.is_view}
        compiled = sum(compiled_bytes(app, name, command, "-O3") for name in sorted(sources))
        functions = sum(function_bytes(one, plan.steps, SIZES) for one in plan.program.functions)
        events = SIZES.event * event_count(plan.program)
        fixed = SIZES.network + SIZES.layer * len(plan.steps)
        assert plan.code_bytes - functions - events - fixed == pytest.approx(compiled, rel=0.15)


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


def test_more_requantisation_is_no_less_code() -> None:
    plain = {"DORY_Q_FORM": "DORY_Q_NARROW", "DORY_Q_BITS": "32", "DORY_STEPS": "1"}
    wide = plain | {"DORY_Q_FORM": "DORY_Q_STEPS", "DORY_Q_BITS": "64"}
    even = plain | {"DORY_Q_FORM": "DORY_Q_EVEN"}
    sizes = [kernel_bytes("depthwise_any", macros) for macros in (plain, wide, even)]
    assert sizes == sorted(sizes) and sizes == list(KERNELS["depthwise_any"])
