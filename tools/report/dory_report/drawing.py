"""Drawing Vega-Lite specifications: as images, and the library that draws them in a page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.api import ToolMissing, UsageError, cli, simulate

if TYPE_CHECKING:
    from dory_report.page import Figure

IMAGE_FORMATS = ("svg", "png")
_PNG_SCALE = 2.0


def image(spec: dict[str, Any], format_: str) -> bytes:
    """Return a specification as an image. format_: one of IMAGE_FORMATS. Raises UsageError."""
    import vl_convert

    if format_ not in IMAGE_FORMATS:
        raise UsageError(f"no images of type {format_!r}", f"known: {', '.join(IMAGE_FORMATS)}")
    if format_ == "svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=_PNG_SCALE))


def write_images(folder: Path, format_: str, figures: Sequence[Figure]) -> list[Path]:
    """Write charts as images; return their paths. Raises UsageError."""
    drawn = {folder / f"{f.name}.{format_}": image(f.spec, format_) for f in figures}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}", "choose another DIR"
        ) from error
    for path, content in drawn.items():
        cli.write_file(path, content)
    return list(drawn)


def javascript() -> str:
    """Return the library that draws specifications in a page, about 0.9 MB.

    Putting it together takes seconds, so it is kept in the cache of this user.
    """
    version = metadata.version("vl-convert-python")
    path = simulate.cache_dir() / "report" / f"vega-{version}.js"
    try:
        whole = simulate.cached_file(path, lambda file: _write(file, _bundle()))
        return whole.read_text(encoding="utf-8")
    except OSError:
        return _bundle()  # a cache that cannot be written costs time, nothing else


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


@cache
def _bundle() -> str:
    """Return the bundle, put together by another process: the library aborts without memory."""
    text = "import sys, vl_convert; sys.stdout.reconfigure(encoding='utf-8')\n"
    text += "sys.stdout.write(vl_convert.javascript_bundle())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise ToolMissing(
            f"the library that draws charts ended with status {done.returncode}"
            + "".join(f": {line}" for line in last),
            "give it more memory (ulimit -v), or install dory-report again",
        )
    return done.stdout.decode("utf-8")
