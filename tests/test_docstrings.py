"""Docstrings of the core say what fields, arguments and errors are.

That an ``Args`` section names all arguments, and the form of the text, is checked by ruff (``D`` in
pyproject.toml).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[1] / "dory_core"
ROOMS = (
    "checks",
    "expr",
    "hardware",
    "ir",
    "kernels",
    "passes",
    "plan",
    "planning",
    "schedule",
    "tiling",
)
#: Of functions with as many arguments, each one is described.
MANY = 4

Definition = ast.ClassDef | ast.FunctionDef


def _public(body: list[ast.stmt]) -> Iterator[Definition]:
    """Yield public classes, their public methods, and public functions."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body)


def _definitions(room: str) -> Iterator[tuple[str, Definition, str]]:
    """Yield each public definition of a room with its place and its docstring."""
    for path in sorted((CORE / room).rglob("*.py")):
        for node in _public(ast.parse(path.read_text(encoding="utf-8")).body):
            where = f"{path.relative_to(CORE)}:{node.lineno}: {node.name}"
            yield where, node, ast.get_docstring(node) or ""


def _fields(node: ast.ClassDef) -> set[str]:
    """Return the public fields that a class adds to those of its bases."""
    return {
        line.target.id
        for line in node.body
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and not line.target.id.startswith("_")
        and "ClassVar" not in ast.unparse(line.annotation)
    }


def _arguments(node: ast.FunctionDef) -> list[str]:
    names = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def _named(doc: str, section: str) -> set[str]:
    """Return the names that a section describes."""
    found = re.search(rf"^{section}:\n((?:(?: .*)?(?:\n|$))*)", doc, re.MULTILINE)
    lines = re.findall(r"^    (\w+(?:, \w+)*): ", found[1] if found else "", re.MULTILINE)
    return {name for line in lines for name in line.split(", ")}


@pytest.mark.parametrize("room", ROOMS)
def test_classes_describe_all_their_fields(room: str) -> None:
    classes = [one for one in _definitions(room) if isinstance(one[1], ast.ClassDef)]
    assert classes
    missing = {
        where: sorted(left)
        for where, node, doc in classes
        if isinstance(node, ast.ClassDef) and (left := _fields(node) - _named(doc, "Attributes"))
    }
    assert not missing


@pytest.mark.parametrize("room", ROOMS)
def test_functions_with_many_arguments_describe_them(room: str) -> None:
    functions = [one for one in _definitions(room) if isinstance(one[1], ast.FunctionDef)]
    assert functions
    missing = [
        where
        for where, node, doc in functions
        if isinstance(node, ast.FunctionDef)
        and len(_arguments(node)) >= MANY
        and doc
        and not _named(doc, "Args")
    ]
    assert not missing


@pytest.mark.parametrize("room", ROOMS)
def test_errors_stand_in_a_section(room: str) -> None:
    inline = [where for where, _, doc in _definitions(room) if re.search(r"Raises:? [A-Z]", doc)]
    assert not inline, "write a section: Raises, then the errors with their reasons"
