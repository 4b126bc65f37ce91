"""Tables of cells, which both terminal and page show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dory_core.tools import cli

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: what it shows, what it is sorted by, and a text for the mouse.

    Attributes:
        head: True for the cell that names the row.
        share: Relative length of a bar after the text, None without a bar.
    """

    text: str
    key: float | str
    hint: str = ""
    head: bool = False
    share: float | None = None

    @property
    def number(self) -> bool:
        """True when the cell is sorted as a number."""
        return not isinstance(self.key, str)

    @property
    def sorted_by(self) -> str:
        """The key as text, reals in six digits."""
        return (
            self.key
            if isinstance(self.key, str)
            else (str(self.key) if isinstance(self.key, int) else f"{self.key:.6g}")
        )

    @property
    def right(self) -> bool:
        """True when the cell is aligned as a number."""
        return self.number and not self.head


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, and the sections that explain it when it is opened.

    link: the index of its layer, by which charts find it.
    """

    cells: tuple[Cell, ...]
    details: tuple[tuple[str, tuple[str, ...]], ...] = ()
    link: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that sorts by the column that is clicked.

    hints: what columns hold, for the mouse.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    hints: Mapping[str, str] = field(default_factory=dict)


def layer_cell(layer: Mapping[str, Any]) -> Cell:
    """Return the cell that names the row of a layer: index and node."""
    return Cell(f"{layer['index']:02d} {layer['name']}".rstrip(), layer["index"], head=True)


def label_cell(text: str, hint: str = "") -> Cell:
    """Return a cell of text."""
    return Cell(text, text, hint)


def number_cell(value: float | None, digits: int = 2) -> Cell:
    """Return a cell with a number of digits after the point; a dash for None."""
    return Cell("-", 0.0) if value is None else Cell(f"{value:.{digits}f}", value)


def count_cell(count: int | None) -> Cell:
    """Return a cell with a count in three digits; a dash for None."""
    return Cell("-", 0) if count is None else Cell(cli.count_text(count), count)


def print_table(table: Table, out: Console, drop: Sequence[str] = ()) -> None:
    """Print a table on the terminal.

    drop: columns that narrow terminals go without, the least important first.
    """
    from rich.text import Text

    from dory_core.tools import cli

    first = table.rows[0].cells
    numbers = tuple(n for n, cell in zip(table.columns, first, strict=True) if cell.right)
    shown = cli.new_table(*table.columns, right=numbers, drop=tuple(drop))
    for row in table.rows:
        shown.add_row(*(Text(cell.text) for cell in row.cells))
    out.print(shown)
