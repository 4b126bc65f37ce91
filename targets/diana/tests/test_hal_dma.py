"""The HAL of the chip on the model of its DMA: copies of all shapes are exact and touch no more."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from diana_machine import HERE, INCLUDES, MODEL, WARNINGS, BrokenRule, Machine

from dory_core.testing import runtime
from dory_core.testing.compilers import host_compiler

RUNTIME = Path(runtime.__file__).parent / "include"
L1, L2 = 8192, 16384
TO_L1, TO_L2 = 0, 1


class Descriptor(ctypes.Structure):
    """``dory_copy_t``."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("dst", "src")),
        *((name, ctypes.c_uint32) for name in ("n0", "n1", "n2")),
        *((name, ctypes.c_int32) for name in ("dst_s1", "dst_s2", "src_s1", "src_s2")),
        ("elem", ctypes.c_uint32),
        ("dir", ctypes.c_uint8),
    ]


@functools.cache
def hal() -> ctypes.CDLL:
    """Compile HAL and model without a warning and load them."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "hal.so"
        command = [*host_compiler(), *WARNINGS, "-O1", "-fPIC", "-shared"]
        command += [f"-I{path}" for path in (*INCLUDES, RUNTIME)]
        command += [str(path) for path in MODEL]
        command += [str(HERE / "c" / name) for name in ("diana_port.c", "diana_hal_port.c")]
        done = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
        loaded = ctypes.CDLL(str(target))
    loaded.try_copy.restype = ctypes.c_char_p
    loaded.hal_l1.restype = ctypes.c_void_p
    return loaded


@dataclass(frozen=True)
class Shape:
    """A copy: rows of ``bytes``, (rows, planes), and from row to row, from plane to plane.

    l1, l2: offset of the first byte in each memory.
    """

    bytes: int
    rows: int = 1
    planes: int = 1
    l1: int = 0
    l2: int = 0
    l1_steps: tuple[int, int] = (0, 0)
    l2_steps: tuple[int, int] = (0, 0)

    def offsets(self, start: int, steps: tuple[int, int]) -> np.ndarray:
        """Return the offset of every byte, in the order of the copy."""
        plane, row, byte = np.ogrid[: self.planes, : self.rows, : self.bytes]
        return (start + plane * steps[1] + row * steps[0] + byte).reshape(-1)

    @classmethod
    def dense(cls, size: int, rows: int, planes: int, **more: object) -> Shape:
        """Return a tile that is one piece in L1 and a part of larger planes in L2."""
        steps = (size, size * rows)
        return cls(size, rows, planes, l1_steps=steps, **more)


def copied(shape: Shape, direction: int, *, late: bool) -> int:
    """Make a copy, compare all bytes of both memories, and return the DMA's commands."""
    loaded = hal()
    machine = Machine(l1_bytes=L1, late=late, loaded=loaded)
    random = np.random.default_rng(1)
    machine.put(0, random.integers(0, 256, L1, dtype=np.uint8))
    l2 = machine.l2(random.integers(0, 256, L2, dtype=np.uint8), writable=True)
    near, far = machine.l1.copy(), machine.l2_bytes[l2].copy()
    at_l1 = shape.offsets(shape.l1, shape.l1_steps)
    at_l2 = shape.offsets(shape.l2, shape.l2_steps)
    if direction == TO_L1:
        near[at_l1] = far[at_l2]
    else:
        far[at_l2] = near[at_l1]
    ends = {
        "dst": (loaded.hal_l1(shape.l1), shape.l1_steps),
        "src": (l2 + shape.l2, shape.l2_steps),
    }
    if direction == TO_L2:
        ends = {"dst": ends["src"], "src": ends["dst"]}
    copy = Descriptor(
        n0=shape.bytes,
        n1=shape.rows,
        n2=shape.planes,
        elem=1,
        dir=direction,
        **{name: pointer for name, (pointer, _) in ends.items()},
        **{f"{name}_s1": steps[0] for name, (_, steps) in ends.items()},
        **{f"{name}_s2": steps[1] for name, (_, steps) in ends.items()},
    )
    broken = loaded.try_copy(ctypes.byref(copy))
    if broken is not None:
        raise BrokenRule(broken.decode())
    assert np.array_equal(machine.l1, near)
    assert np.array_equal(machine.l2_bytes[l2], far)
    return int(loaded.hal_commands())


@pytest.mark.parametrize("direction", [TO_L1, TO_L2], ids=["load", "store"])
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_random_tiles_are_copied_and_nothing_else(direction: int, late: bool) -> None:
    random = np.random.default_rng(5)
    for _ in range(150):
        size = 16 * int(random.integers(1, 8))
        rows, planes = int(random.integers(1, 5)), int(random.integers(1, 5))
        row_step = size + 16 * int(random.integers(0, 3))
        plane_step = row_step * rows + 16 * int(random.integers(0, 3))
        shape = Shape.dense(
            *(size, rows, planes),
            l1=16 * int(random.integers(0, 40)),
            l2=4 * int(random.integers(0, 200)),
            l2_steps=(row_step, plane_step),
        )
        copied(shape, direction, late=late)


@pytest.mark.parametrize(
    ("shape", "commands"),
    [
        (Shape(4096), 1),
        (Shape.dense(16, 8, 16, l2_steps=(16, 128)), 1),  # a whole tensor
        (Shape.dense(32, 3, 16, l2_steps=(32, 320)), 16),  # rows of 32 columns
        (Shape.dense(16, 4, 16, l2_steps=(16, 160)), 16),  # an even number of rows of 16
        (Shape.dense(16, 3, 16, l2_steps=(16, 160)), 32),  # an odd one: 48 bytes are 32 and 32
        (Shape(48), 2),
    ],
)
def test_a_copy_takes_as_few_commands_as_its_shape_allows(shape: Shape, commands: int) -> None:
    for direction in (TO_L1, TO_L2):
        assert copied(shape, direction, late=True) == commands


def test_sixteen_bytes_make_a_detour() -> None:
    for l1 in (0, 16, L1 - 16):
        assert copied(Shape(16, l1=l1), TO_L1, late=True) == 2
        assert copied(Shape(16, l1=l1), TO_L2, late=True) == 1


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(24), "a row is no multiple of 16 bytes"),
        (Shape(32, l1=8), "a row does not start on a multiple of 16 bytes of L1"),
        (Shape(32, 2, l1_steps=(40, 0), l2_steps=(32, 0)), "multiple of 16 bytes of L1"),
        (Shape(32, 1, 2, l1_steps=(0, 40), l2_steps=(0, 32)), "multiple of 16 bytes of L1"),
        (Shape(32, l2=2), "a row does not start on a multiple of 4 bytes of L2"),
        (Shape(32, 2, l1_steps=(32, 0), l2_steps=(34, 0)), "multiple of 4 bytes of L2"),
    ],
)
def test_copies_that_the_dma_cannot_make_are_refused(shape: Shape, words: str) -> None:
    for direction in (TO_L1, TO_L2):
        with pytest.raises(BrokenRule, match=words):
            copied(shape, direction, late=False)
