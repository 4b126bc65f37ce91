"""Write the files that pages of docs/ show, between two comments: file: PATH, and end of file.

python docs/included.py            writes them
python docs/included.py --check    says which pages are stale, status 1 when one is
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LANGUAGES = {".py": "python", ".c": "c", ".h": "c"}
_BLOCK = re.compile(r"<!-- file: (\S+) -->\n.*?<!-- end of file -->\n", re.DOTALL)


def shown(match: re.Match[str]) -> str:
    """Return a block with its file as it is."""
    path = ROOT / match[1]
    text = path.read_text(encoding="utf-8").rstrip("\n")
    language = _LANGUAGES[path.suffix]
    return f"<!-- file: {match[1]} -->\n```{language}\n{text}\n```\n<!-- end of file -->\n"


def main(arguments: list[str]) -> int:
    """Write or check the pages."""
    stale = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = _BLOCK.sub(shown, text)
        if new != text and "--check" in arguments:
            stale.append(page.name)
        elif new != text:
            page.write_text(new, encoding="utf-8")
    if stale:
        print(f"stale: {', '.join(stale)}; run python docs/included.py", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
