"""What ARM_CC names decides the flags of an image, in runners and in Makefiles."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from dory_cortex_m55 import toolchain as m55
from dory_stm32h7 import toolchain as m7

from dory_core.errors import ToolMissing
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder

ZIG = f"{sys.executable} -m ziglang cc"
TARGETS = pytest.mark.parametrize(
    ("target", "toolchain"), [("stm32h7", m7), ("cortex_m55", m55)], ids=["stm32h7", "cortex_m55"]
)


@TARGETS
def test_runners_give_zig_its_own_flags(
    target: str, toolchain: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    monkeypatch.setenv("ARM_CC", ZIG)
    found = toolchain.find_toolchain()
    assert found.flags[0] == "-target" and found.link_flags == ()


@TARGETS
def test_another_clang_is_refused(
    target: str, toolchain: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho clang version 16.0.6\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("ARM_CC", str(compiler))
    with pytest.raises(ToolMissing, match="a clang whose flags are not known"):
        toolchain.find_toolchain()


@TARGETS
def test_makefiles_give_each_compiler_its_flags(
    target: str, toolchain: ModuleType, tmp_path: Path
) -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    builder = GraphBuilder((4, 3, 3))
    builder.linear(4)
    build_app(builder.graph(), target, tmp_path)

    def commands(*settings: str) -> str:
        command = ["make", "-n", "image", *settings]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return result.stdout + result.stderr

    for name in ("zig cc", "python3 -m ziglang cc", "/opt/zig-0.15/zig cc"):
        text = commands(f"ARM_CC={name}")
        assert "-target thumb-freestanding-eabihf" in text
        assert "-mthumb" not in text and "-lgcc" not in text
    text = commands("ARM_CC=/home/zigfried/bin/arm-none-eabi-gcc")
    assert "-mthumb" in text and "-lgcc" in text and "-target" not in text
    assert "ARM_CC is a clang" in commands("ARM_CC=/usr/bin/clang-18")
    text = commands("ARM_CC=clang", "ARM_FLAGS=--mine", "ARM_LINK_FLAGS=--also")
    assert "clang --mine" in text and "--also" in text
