"""Terminal output as HTML, for notebooks."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = 110
_PAGE = "<pre style='font-family:monospace;line-height:1.25'>{code}</pre>"


def html_page(show: Callable[[Console], None]) -> str:
    """Return the output of ``show`` as HTML."""
    from rich.console import Console

    out = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_jupyter=False)
    show(out)
    return out.export_html(inline_styles=True, code_format=_PAGE)
