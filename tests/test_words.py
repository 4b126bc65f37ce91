"""Docstrings and comments use plain words (docs/glossary.md)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: All rooms of the core, and the folders of plugins.
ROOMS = (
    *(
        "checks",
        "cli",
        "codegen",
        "driver",
        "expr",
        "golden",
        "hardware",
        "ir",
        "kernels",
        "passes",
    ),
    *("plan", "planning", "plugins", "schedule", "simulate", "testing", "tiling"),
    *("frontends", "tools", "targets"),
)
#: What to write instead, by pattern.
PATTERNS = {
    r"\bso many\b": "a number, or 'at most N'",
    r"\banew\b": "again",
    r"\bbut for\b": "except",
    r"\bnobody\b": "the passive voice",
    r"\balike\b": "equal, both",
    r"\bbehind\b": "after",
    r", too\b": "also, before the verb",
    r"\balone(?=[.,;:)]|$)": "only, before the noun",
    r"\bbeside (?:the|its|it|what|them)\b": "next to, in addition to",
    r"\btakes? turns\b": "fused chain",
    r"\bon (?:its|their) way\b": "in flight",
    r"^Return (?:what|whether)\b": "a noun, or 'Return True when'",
}


def _files(room: str) -> list[Path]:
    folder = ROOT / room if (ROOT / room).is_dir() else ROOT / "dory_core" / room
    files = [path for path in folder.rglob("*.py") if "tests" not in path.relative_to(ROOT).parts]
    return sorted(files)


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a module, each with its first line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, nodes) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, " ".join(text.partition(">>>")[0].split())


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_use_plain_words(room: str) -> None:
    files = _files(room)
    assert files, f"{room} is no room"
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}, write {instead}: {text[:300]}"
        for path in files
        for line, text in _prose(path.read_text(encoding="utf-8"))
        for pattern, instead in PATTERNS.items()
        if (match := re.search(pattern, text))
    ]
    assert not found, "\n".join(found)
