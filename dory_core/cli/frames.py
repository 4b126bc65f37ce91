"""Rows of a result as a table of pandas, and pictures: what notebooks make of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dory_core.cli.files import write_file
from dory_core.errors import ToolMissing

#: Rows of a result, such as its layers.
Rows = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart, which a notebook draws.

    Attributes:
        svg: The chart as SVG.
    """

    svg: str

    def save(self, path: str | Path) -> None:
        """Write the chart to a file; raises UsageError."""
        write_file(Path(path), self.svg.encode())

    def __repr__(self) -> str:
        return f"<Picture: {len(self.svg):,} characters of SVG>"

    def _repr_svg_(self) -> str:
        return self.svg


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a DataFrame of pandas; raises ToolMissing without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ToolMissing(
            "to_pandas() needs the package pandas, which is not installed",
            "pip install pandas, or read the rows of `layers`",
        ) from error
    return pandas.DataFrame.from_records([dict(row) for row in rows])
