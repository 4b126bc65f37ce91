"""The legend beside generated kernels explains every part of their names and their macros."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from dory_core.testing.apps import build_app
from tests.codegen.test_strict_warnings import every_kind

# Windows, types, channels, steps, padding and other numbers, whose forms the legend shows.
_NUMBERS = re.compile(r"\d+|\d+x\d+(xs\d+)?|[sd]\d+(x\d+)?|[uim]\d+(x2)?|c\d+|padm?\d+")
_SHORT = re.compile(r"t?c?(l|q32)[sun]")  # of the 4x4 block
_FORMS = (_NUMBERS, _SHORT, re.compile(r"(q|even)\d+(up)?|q\d+steps|(odd|tables|planar)\d*"))


@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
def test_parts_of_kernel_names_and_macros_are_explained(target: str, tmp_path: Path) -> None:
    pytest.importorskip(f"dory_{target}", reason=f"the plugin {target} is not installed")
    build_app(every_kind().graph(), target, tmp_path / "app")
    folder = tmp_path / "app" / "kernels"
    legend = (folder / "README.md").read_text()
    known = set(re.findall(r"`([^`]+)`", legend))
    instances = [file for file in folder.glob("*.c") if "#define DORY_KERNEL " in file.read_text()]
    assert len(instances) > 5
    for file in instances:
        parts = file.stem.split("_")[2:-1]
        unknown = {p for p in parts if p not in known and not any(f.fullmatch(p) for f in _FORMS)}
        assert not unknown, file.name
        for macro in re.findall(r"#define (DORY_\w+)", file.read_text()):
            explained = any(macro in text.read_text() for text in folder.glob("*_impl.h"))
            assert explained or any(fnmatch(macro, pattern) for pattern in known), macro
