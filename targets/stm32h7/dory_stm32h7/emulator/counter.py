"""What the emulated core does: instructions, loads and stores, and lines of its D-cache."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dory_core.api import caches
from dory_stm32h7.emulator.memories import Region
from dory_stm32h7.emulator.native import add_hook

_MOST_MEMORIES = 8


class _Counter(ctypes.Structure):
    _fields_ = (
        ("instructions", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("code", ctypes.c_void_p),
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("known_size", ctypes.c_void_p),
        ("known_count", ctypes.c_void_p),
        ("executed", ctypes.c_void_p),
    )


class InstructionCounter:
    """Counts the instructions that an emulator executes from ``code``."""

    def __init__(self, code: Region) -> None:
        slots = code.size // 2
        self._base = code.base
        self._sizes, self._counts = np.zeros(slots, np.uint16), np.zeros(slots, np.uint16)
        self._executed = np.zeros(slots, np.uint64)
        tables = self._sizes, self._counts, self._executed
        self._state = _Counter(
            0, 0, code.pointer, code.base, code.size, *(t.ctypes.data for t in tables)
        )
        self._handle: object = None

    def attach(self, engine: Any) -> None:
        """Hook the unicorn engine. Raises ToolMissing without a C compiler for this machine."""
        from unicorn import UC_HOOK_BLOCK

        self._handle = add_hook(engine, UC_HOOK_BLOCK, "count.c", "dory_count_block", self._state)

    @property
    def instructions(self) -> int:
        """Instructions executed so far."""
        return int(self._state.instructions)

    def take_back(self, address: int) -> None:
        """Do not count the block at ``address``, which was entered and left before it executed."""
        slot = (address - self._base) // 2
        self._state.blocks -= 1
        self._state.instructions -= int(self._counts[slot])
        self._executed[slot] -= np.uint64(1)

    def blocks(self) -> dict[tuple[int, int], int]:
        """Return how often each block was entered so far, by its address and its bytes."""
        (slots,) = np.nonzero(self._executed)
        return {
            (self._base + 2 * int(slot), int(self._sizes[slot])): int(self._executed[slot])
            for slot in slots
        }


class _Memory(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("base", "size", "cached", "loads", "stores", "fills")
    )


class _Accesses(ctypes.Structure):
    _fields_ = (
        ("memories", ctypes.c_uint64),
        ("memory", _Memory * _MOST_MEMORIES),
        ("sets", ctypes.c_uint64),
        ("ways", ctypes.c_uint64),
        ("line", ctypes.c_uint64),
        ("tags", ctypes.c_void_p),
        ("random", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class MemoryAccesses:
    """Loads and stores of the core to a memory, and lines of it that the cache filled."""

    loads: int
    stores: int
    fills: int

    def __sub__(self, before: MemoryAccesses) -> MemoryAccesses:
        return MemoryAccesses(
            self.loads - before.loads, self.stores - before.stores, self.fills - before.fills
        )


class AccessCounter:
    """Counts the accesses of data to memories, and the lines that ``cache`` fills.

    The cache replaces lines at random. Accesses to DTCM and those of the MDMA do not pass it.
    """

    def __init__(self, memories: Sequence[Region], cache: caches.Cache) -> None:
        self._names = [memory.name for memory in memories]
        self._tags = np.zeros(cache.sets * cache.ways, np.uint64)
        places = (_Memory * _MOST_MEMORIES)(
            *((m.base, m.size, int(not m.tcm), 0, 0, 0) for m in memories)
        )
        self._state = _Accesses(
            len(memories),
            places,
            cache.sets,
            cache.ways,
            cache.line_bytes,
            self._tags.ctypes.data,
            0x9E37_79B9_7F4A_7C15,
        )
        self._handles: list[object] = []

    def attach(self, engine: Any) -> None:
        """Hook the unicorn engine. Raises ToolMissing without a C compiler for this machine."""
        from unicorn import UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE

        kinds = UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE
        self._handles.append(
            add_hook(engine, kinds, "accesses.c", "dory_count_access", self._state)
        )

    def empty_cache(self) -> None:
        """Forget all lines that the cache holds."""
        self._tags[:] = 0

    def counts(self) -> dict[str, MemoryAccesses]:
        """Return the counts so far, by the name of the memory."""
        found = zip(self._names, self._state.memory, strict=False)
        return {name: MemoryAccesses(m.loads, m.stores, m.fills) for name, m in found}
