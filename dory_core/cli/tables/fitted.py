"""Tables as wide as the terminal: columns are omitted by priority, and rows are never broken."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from dory_core.quoting import shortened

_GAP = "  "
# Least width of names, and of wrapped prose.
_LEAST_NAME, _LEAST_PROSE = 10, 24


class FittedTable:
    """A table for the terminal.

    Attributes:
        titles: Titles of the columns.
        right: Titles of columns of numbers, aligned to the right.
        drop: Titles of columns that a narrow terminal omits, the least important first; a line
            below the table names them.
        wrap: Title of the column of sentences, which are wrapped; other texts lose their middle.
    """

    def __init__(
        self,
        titles: Sequence[str],
        right: Sequence[str] = (),
        drop: Sequence[str] = (),
        wrap: str = "",
    ) -> None:
        self.titles = tuple(titles)
        self.right = frozenset(right)
        self.drop = tuple(title for title in drop if title in titles)
        self.wrap = wrap
        self._rows: list[tuple[list[Text], str]] = []

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """Add a row of a cell for each column."""
        if len(cells) != len(self.titles):
            raise ValueError(f"{len(cells)} cells for {len(self.titles)} columns")
        texts = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
        self._rows.append((texts, style))

    def add_line(self, text: str) -> None:
        """Add a sentence below the last row."""
        self._rows.append(([Text(text)], ""))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, without blanks at their ends."""
        widths, dropped = self._fit(options.max_width)
        yield self._line([Text(title) for title in self.titles], widths, "bold")
        yield Text("─" * (sum(widths.values()) + len(_GAP) * (len(widths) - 1)))
        for cells, style in self._rows:
            if len(cells) == 1 < len(self.titles):
                yield from _wrapped(cells[0], options.max_width, "    ")
            else:
                yield from self._row(cells, widths, style)
        if dropped:
            note = f"(a wider terminal also shows: {', '.join(dropped)})"
            yield from _wrapped(Text(note, style="dim"), options.max_width)

    def _fit(self, most: int) -> tuple[dict[int, int], list[str]]:
        """Return the widths of the shown columns by number, and the titles of the others."""
        widths = {n: self._width(n) for n in range(len(self.titles))}
        dropped = []

        def excess() -> int:
            return sum(widths.values()) + len(_GAP) * (len(widths) - 1) - most

        for title in self.drop:
            if excess() > 0:
                widths.pop(self.titles.index(title))
                dropped.append(title)
        least = {n: self._least(n) for n in widths}
        while excess() > 0:
            room = [n for n, width in widths.items() if width > least[n]]
            if room:
                widest = max(room, key=lambda n: widths[n])
                widths[widest] -= 1
            elif len(widths) > 1:
                last, _ = widths.popitem()
                dropped.append(self.titles[last])
            else:
                break
        return widths, [title for title in dropped if title]

    def _width(self, column: int) -> int:
        cells = (cells[column].plain for cells, _ in self._rows if len(cells) == len(self.titles))
        return max(map(cell_len, (self.titles[column], *cells)))

    def _least(self, column: int) -> int:
        """Return the least width of a column."""
        title, width = self.titles[column], self._width(column)
        if title in self.right:
            return width
        least = _LEAST_PROSE if title and title == self.wrap else _LEAST_NAME
        return min(width, max(least, cell_len(title)))

    def _row(self, cells: Sequence[Text], widths: dict[int, int], style: str) -> Iterator[Text]:
        """Yield the lines of a row: one, and more where sentences are wrapped."""
        wrapped = self.titles.index(self.wrap) if self.wrap in self.titles else -1
        if wrapped not in widths or cell_len(cells[wrapped].plain) <= widths[wrapped]:
            yield self._line(cells, widths, style)
            return
        for number, part in enumerate(_wrapped(cells[wrapped], widths[wrapped])):
            shown = [cell if number == 0 else Text() for cell in cells]
            shown[wrapped] = part
            yield self._line(shown, widths, style)

    def _line(self, cells: Sequence[Text], widths: dict[int, int], style: str) -> Text:
        line = Text(style=style)
        for n, width in widths.items():
            cell = cells[n]
            if cell_len(cell.plain) > width:
                cell = Text(shortened(cell.plain, width), style=cell.style)
            fill = " " * (width - cell_len(cell.plain))
            parts = (fill, cell) if self.titles[n] in self.right else (cell, fill)
            line.append_text(Text.assemble(*parts, _GAP))
        line.rstrip()
        return line


def _wrapped(text: Text, width: int, indent: str = "") -> Iterator[Text]:
    """Yield the lines of a sentence, the further ones indented twice."""
    for line in textwrap.wrap(
        text.plain, max(width, 20), initial_indent=indent, subsequent_indent=indent * 2
    ):
        yield Text(line, style=text.style)
