"""Run the notebook of the manual, and make a page of it with what each cell shows.

    python docs/notebook.py    runs every cell, and says nothing when all of them work

It runs in a folder of its own, beside a copy of the example. docs/site.py takes the page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


@dataclass(frozen=True)
class Cell:
    """A cell that was run: its text, what it printed, and the value of its last expression."""

    kind: str
    text: str
    printed: str = ""
    value: Any = None


@contextlib.contextmanager
def beside_the_example() -> Iterator[Path]:
    """Work in a temporary folder ``docs`` beside ``examples/tones``."""
    before = Path.cwd()
    with TemporaryDirectory() as name:
        shutil.copytree(ROOT / "examples/tones", Path(name, "examples/tones"))
        folder = Path(name, "docs")
        folder.mkdir()
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def run(names: dict[str, Any]) -> list[Cell]:
    """Run the cells in this folder, with ``names`` as their variables."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [_run(cell, names) for cell in document["cells"]]


def _run(cell: dict[str, Any], names: dict[str, Any]) -> Cell:
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return Cell("text", text)
    tree, last = ast.parse(text), None
    if tree.body and isinstance(end := tree.body[-1], ast.Expr):
        tree.body.pop()
        last = ast.Expression(end.value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, cell["id"], "exec"), names)
        value = None if last is None else eval(compile(last, cell["id"], "eval"), names)
    return Cell("code", text, printed.getvalue(), value)


def page(cells: list[Cell], pictures: Path) -> str:
    """Return the cells as Markdown. pictures: the folder that pictures are written to."""
    parts = []
    for number, cell in enumerate(cells):
        if cell.kind == "text":
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        if cell.printed:
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        parts += _shown(cell.value, pictures / f"notebook_{number}.svg")
    return "\n\n".join(parts) + "\n"


def _shown(value: Any, picture: Path) -> list[str]:
    if value is None:
        return []
    if hasattr(value, "_repr_svg_"):
        picture.write_text(value._repr_svg_(), encoding="utf-8")
        return [f"![{picture.stem}]({picture.name})"]
    if hasattr(value, "_repr_html_"):
        return [f'<div style="overflow-x: auto">{value._repr_html_()}</div>']
    return [f"```text\n{value!r}\n```"]


if __name__ == "__main__":
    with beside_the_example():
        run({})
    sys.exit(0)
