"""Write the table of operands and sizes in the calls of kernels into docs/plugins.md.

python docs/calls.py            writes it
python docs/calls.py --check    says whether it is stale, status 1 when it is
"""

from __future__ import annotations

import sys
from pathlib import Path

from generated import written

from dory_core.kernels.call import POINTERS, SIZES

PAGE = Path(__file__).parent / "plugins.md"
_BEGIN, _END = "<!-- names: docs/calls.py -->\n", "<!-- end of names -->\n"


def table() -> str:
    """Return the table."""
    names = [
        *((f'Operand("{name}")', meaning) for name, meaning in POINTERS.items()),
        *((f'size("{name}")', meaning) for name, meaning in SIZES.items()),
    ]
    rows = (f"| `{name}` | {meaning} |\n" for name, meaning in names)
    return "| argument | value |\n| --- | --- |\n" + "".join(rows)


def page(text: str) -> str:
    """Return the page with the table."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{table()}{_END}{after}"


if __name__ == "__main__":
    sys.exit(written({PAGE: page(PAGE.read_text(encoding="utf-8"))}, sys.argv[1:]))
