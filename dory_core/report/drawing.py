"""Drawing Vega-Lite specifications: as images, and the library that draws them in a page.

The library comes with the optional extra ``dory-core[report]`` and needs no network.
"""

from __future__ import annotations

import os
import tempfile
from importlib import metadata
from typing import Any

from dory_core.errors import ToolMissing, UsageError

PACKAGE = "vl-convert-python"
IMAGE_FORMATS = ("svg", "png")
_PNG_SCALE = 2.0


def available() -> bool:
    """Return whether the extra is installed, without importing it."""
    try:
        metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return False
    return True


def _library() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise ToolMissing(
            f"pages and images need the package {PACKAGE}, which is not installed",
            'pip install "dory-core[report]"; tables and JSON need nothing more',
        ) from None
    return vl_convert


def image(spec: dict[str, Any], format_: str) -> bytes:
    """Return a specification as an image. format_: one of IMAGE_FORMATS.

    Raises: ToolMissing without the extra, UsageError for another format.
    """
    if format_ not in IMAGE_FORMATS:
        raise UsageError(f"no images of type {format_!r}", f"known: {', '.join(IMAGE_FORMATS)}")
    library = _library()
    if format_ == "svg":
        return str(library.vegalite_to_svg(spec)).encode()
    return bytes(library.vegalite_to_png(spec, scale=_PNG_SCALE))


def javascript() -> str:
    """Return the library that draws specifications in a page, about 0.9 MB.

    Putting it together takes seconds, so it is kept in the cache of this user. Raises: ToolMissing
    without the extra.
    """
    from dory_core.simulate.cache import cache_dir

    if not available():
        _library()
    path = cache_dir() / "report" / f"vega-{metadata.version(PACKAGE)}.js"
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        text = str(_library().javascript_bundle())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError:
        return text  # a cache that cannot be written costs time, nothing else
    return text
