"""Write the files that pages of docs/ show, between two comments: file: PATH, and end of file.

python docs/included.py            writes them
python docs/included.py --check    says which pages are stale, status 1 when one is
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generated import written

ROOT = Path(__file__).resolve().parents[1]
_LANGUAGES = {".py": "python", ".c": "c", ".h": "c"}
_BLOCK = re.compile(r"<!-- file: (\S+) -->\n.*?<!-- end of file -->\n", re.DOTALL)


def shown(match: re.Match[str]) -> str:
    """Return a block with its file as it is."""
    path = ROOT / match[1]
    text = path.read_text(encoding="utf-8").rstrip("\n")
    language = _LANGUAGES[path.suffix]
    return f"<!-- file: {match[1]} -->\n```{language}\n{text}\n```\n<!-- end of file -->\n"


def texts() -> dict[Path, str]:
    """Return what each page should hold."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    return {page: _BLOCK.sub(shown, page.read_text(encoding="utf-8")) for page in pages}


if __name__ == "__main__":
    sys.exit(written(texts(), sys.argv[1:]))
