"""Finds numbers of an application's C that are narrower than 32 bits.

A compiler for a chip may multiply a byte by a constant of 128 to 255 as two bytes, and take the
constant for a negative one: numbers that enter arithmetic have 32 bits.
"""

from __future__ import annotations

import re
from pathlib import Path

#: What is compared or an index, and bytes that are data.
FLAGS = frozenset(
    {
        *("kind", "memory", "number", "dir", "is_signed", "halves", "state_is_set"),
        *("mul_per_channel", "add_per_channel", "two_addends", "negative_per_channel"),
        *("float32", "per_channel", "inside", "is_real", "one_row", "one_column", "one_channel"),
        *("perm", "axis", "active", "busy", "from_file", "order", "is_turned", "one_x", "one_x2"),
        *("has_bias", "is_centred", "by_root", "of_sum", "turns"),
    }
)
_DATA = re.compile(r"initial_\d+")
_FOLDERS = ("src", "inc", "hal/include", "hal/gap8", "hal/stm32h7", "hal/diana")
_TYPES = re.compile(r"dory_\w*(types|portable|kinds)\.h")
_NARROW = re.compile(
    r"^[ \t]*(?:(?:static|const|volatile) )*"
    r"(?:u?int(?:8|16)_t|(?:(?:un)?signed )?char|(?:unsigned )?short)\b(?: const)? "
    r"([^*();={]+)[;={]",
    re.MULTILINE,
)


def narrow_names(text: str) -> set[str]:
    """Return the variables, fields and tables of less than 32 bits that C text declares."""
    names = {
        re.sub(r"\[.*", "", name).strip()
        for declared in _NARROW.findall(text)
        for name in re.sub(r"\[[^]]*\]", "", declared).split(",")
    }
    return {name for name in names if name not in FLAGS and not _DATA.fullmatch(name)}


def narrow_numbers(app: Path) -> dict[str, set[str]]:
    """Return them by file: of generated C, of the HAL, and of the arguments of kernels."""
    files = [file for folder in _FOLDERS for file in app.glob(f"{folder}/*.[ch]")]
    files += [file for file in app.glob("kernels/*.h") if _TYPES.fullmatch(file.name)]
    assert any(file.parent.name == "src" for file in files), "no generated C"
    found = {str(file.relative_to(app)): narrow_names(file.read_text()) for file in files}
    return {file: names for file, names in found.items() if names}
