"""Tables of cells that terminal and page show alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import cli

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: what it shows, what it is sorted by, and a text for the mouse."""

    text: str
    key: float | str
    hint: str = ""

    @property
    def number(self) -> bool:
        """True when the cell is aligned and sorted as a number."""
        return not isinstance(self.key, str)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, and the sections that explain it when it is opened."""

    cells: tuple[Cell, ...]
    details: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table that sorts by the column that is clicked."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def label_cell(text: str, hint: str = "") -> Cell:
    """Return a cell of text."""
    return Cell(text, text, hint)


def number_cell(value: float | None, digits: int = 2) -> Cell:
    """Return a cell with so many digits behind the point; a dash for None."""
    return Cell("-", 0.0) if value is None else Cell(f"{value:.{digits}f}", value)


def count_cell(count: int | None, unit: str = "") -> Cell:
    """Return a cell with a count in three digits, all of them for the mouse; a dash for None."""
    if count is None:
        return Cell("-", 0)
    return Cell(cli.count_text(count), count, f"{count:,} {unit}".rstrip())


def print_table(table: Table, out: Console) -> None:
    """Print a table on the terminal."""
    from rich.text import Text

    from dory_core.api import cli

    first = table.rows[0].cells
    numbers = tuple(n for n, cell in zip(table.columns, first, strict=True) if cell.number)
    shown = cli.new_table(*table.columns, right=numbers)
    for row in table.rows:
        shown.add_row(*(Text(cell.text) for cell in row.cells))
    out.print(shown)
