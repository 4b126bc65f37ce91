"""Options that both commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a page with tables and charts."),
]
Images = Annotated[
    Path | None,
    typer.Option("--images", metavar="DIR", help="Also write the charts of the page as images."),
]
ImageFormat = Annotated[
    str, typer.Option("--image-format", metavar="svg|png", help="Type of the images.")
]
