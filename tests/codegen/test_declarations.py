"""Declarations in headers say of a variable what its definition says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dory_core.simulate.build import FLAGS, INCLUDE_FOLDERS
from dory_core.simulate.compiler import find_compiler
from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases
from tests.codegen.test_strict_warnings import every_kind
from tests.toy.chip import NAME, ToyChip, three_levels
from tests.toy.limited import four_levels

#: A variable with its attributes; macros of attributes are words in capitals.
DECLARED = re.compile(r"^extern ([^;={(]*?)(\w+)((?:\[[^]]*\])*)((?: [A-Z_]+)*);", re.MULTILINE)
DEFINED = re.compile(
    r"^((?!extern|static|typedef)\w[^;={(\n]*?)(\w+)((?:\[[^]]*\])*)((?: [A-Z_]+)*) =", re.MULTILINE
)


@pytest.mark.parametrize(
    "chip",
    [ToyChip(), three_levels(), four_levels({"alignment_bytes": 8})],
    ids=["two levels", "three levels", "four levels"],
)
def test_declarations_have_the_attributes_of_definitions(chip: ToyChip, tmp_path: Path) -> None:
    build_app(every_kind().graph(), NAME, tmp_path / "app", plugins=chip.plugins())
    files = sorted((tmp_path / "app").glob("[!b]*/**/*.[ch]"))
    declared, defined = (
        {
            name: (type_, attributes)
            for file in files
            for type_, name, _, attributes in pattern.findall(file.read_text())
        }
        for pattern in (DECLARED, DEFINED)
    )
    shared = {name for name in declared if name in defined}
    assert {"dory_tables", "dory_table_count", *linked(tmp_path / "app")} <= shared
    assert {name: declared[name] for name in shared} == {name: defined[name] for name in shared}


def linked(app: Path) -> list[str]:
    """Return the tables of constants that are linked."""
    return sorted(file.stem for file in app.glob("weights/*.c"))


def test_who_includes_the_header_expects_no_more_than_there_is(tmp_path: Path) -> None:
    """Some ABIs align large arrays by 16 unless they are told otherwise; compilers build on it."""
    app = tmp_path / "app"
    graph = next(case for case in network_cases() if case.name == "residual").build()
    build_app(graph, NAME, app, plugins=ToyChip().plugins())
    names = linked(app)
    assert names
    rows = "".join(f'  printf("%u\\n", (unsigned)__alignof__({name}));\n' for name in names)
    probe = tmp_path / "probe.c"
    probe.write_text(
        f'#include <stdio.h>\n#include "network.h"\nint main(void)\n{{\n{rows}  return 0;\n}}\n'
    )
    folders = [f"-I{app / folder}" for folder in INCLUDE_FOLDERS]
    flags = [flag for flag in FLAGS if flag != "-Wpedantic"]
    command = [
        *find_compiler().command,
        *flags,
        *folders,
        str(probe),
        "-o",
        str(tmp_path / "probe"),
    ]
    subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "probe"], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == ["8"] * len(names)
