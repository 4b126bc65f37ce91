"""What the scripts that write pages of docs/ share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def written(texts: Mapping[Path, str], arguments: list[str]) -> int:
    """Write the files that are stale, or name them with --check; return the exit status.

    Args:
        texts: What each file should hold.
        arguments: Those of the command line.
    """
    stale = [
        path
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" not in arguments:
        for path in stale:
            path.write_text(texts[path], encoding="utf-8")
        return 0
    if stale:
        names = ", ".join(path.name for path in stale)
        print(f"stale: {names}; run python docs/{Path(sys.argv[0]).name}", file=sys.stderr)
    return int(bool(stale))
