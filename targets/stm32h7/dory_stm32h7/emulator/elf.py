"""Reading a 32-bit little-endian ELF program: what is loaded where, and its symbols."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from dory_core.api import DoryError

_PT_LOAD = 1
_SHT_SYMTAB = 2
_STT_OBJECT, _STT_FUNC = 1, 2


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or object. address: without the Thumb bit."""

    name: str
    address: int
    size: int
    is_function: bool


@dataclass(frozen=True, slots=True)
class Elf:
    """A linked program. segments: (load address, bytes)."""

    segments: tuple[tuple[int, bytes], ...]
    symbols: tuple[Symbol, ...]

    def symbol(self, name: str) -> Symbol:
        """Return a symbol. Raises DoryError when the program has none of this name."""
        for symbol in self.symbols:
            if symbol.name == name:
                return symbol
        raise DoryError(f"the image has no symbol {name}", "build the application again")

    def find(self, name: str) -> Symbol | None:
        """Return a symbol, None when there is none of this name."""
        return next((s for s in self.symbols if s.name == name), None)

    def place(self, address: int) -> str:
        """Return an address as function + offset."""
        functions = sorted((s.address, s.name) for s in self.symbols if s.is_function)
        at = bisect_right(functions, (address, "\x7f")) - 1
        if at < 0:
            return f"{address:#010x}"
        start, name = functions[at]
        return f"{name} + {address - start:#x} ({address:#010x})"


def read_elf(path: Path) -> Elf:
    """Read a program. Raises DoryError when it is none for a 32-bit little-endian machine."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x01\x01":
        raise DoryError(f"{path} is no 32-bit little-endian ELF file", "build it again")
    (program_offset, section_offset) = struct.unpack_from("<II", data, 28)
    (program_size, program_count, section_size, section_count) = struct.unpack_from("<4H", data, 42)
    segments = []
    for n in range(program_count):
        kind, offset, _, load, size, *_ = struct.unpack_from(
            "<8I", data, program_offset + n * program_size
        )
        if kind == _PT_LOAD and size:
            segments.append((load, data[offset : offset + size]))
    sections = [
        struct.unpack_from("<10I", data, section_offset + n * section_size)
        for n in range(section_count)
    ]
    symbols: list[Symbol] = []
    for section in sections:
        if section[1] == _SHT_SYMTAB:
            strings = sections[section[6]][4]
            symbols += _symbols(data, section[4], section[5], strings)
    return Elf(tuple(segments), tuple(symbols))


def _symbols(data: bytes, offset: int, size: int, strings: int) -> list[Symbol]:
    found = []
    for at in range(offset, offset + size, 16):
        name, value, length, info = struct.unpack_from("<IIIB", data, at)
        start = strings + name
        text = data[start : data.index(b"\0", start)].decode("ascii", "replace")
        kind = info & 0xF
        if not text or text.startswith("$") or kind not in (0, _STT_OBJECT, _STT_FUNC):
            continue
        is_function = kind == _STT_FUNC
        found.append(Symbol(text, value & ~1 if is_function else value, length, is_function))
    return found
