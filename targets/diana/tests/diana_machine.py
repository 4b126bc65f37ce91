"""The functional model of Diana's arrays as a shared library, called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import dory_diana
import numpy as np

from dory_core.testing.compilers import host_compiler

PACKAGE = Path(dory_diana.__file__).parent
HERE = Path(__file__).parent
MODEL = tuple(
    PACKAGE / "model" / f"dory_diana_{part}.c" for part in ("job", "digital", "analog", "memcpy")
)
INCLUDES = (PACKAGE / "driver", PACKAGE / "model", PACKAGE / "hal", HERE / "c")
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
CALLS = (
    "digital_conv_2d",
    "digital_depthwise_conv_2d",
    "digital_fully_connected",
    "element_wise_sum",
    "analog_conv_2d",
    "analog_fully_connected",
    "dory_cores_barrier_digital",
    "dory_cores_barrier_analog",
    "memcpy_dig",
    "memcpy_analog",
)
FIELDS = (
    *("padding", "c", "k", "cx", "cy", "fx", "fy", "ox", "oy", "ox_unroll"),
    *("activation_function", "output_shift", "dilation", "stride"),
)
_KEPT: list[tempfile.TemporaryDirectory[str]] = []


class BrokenRule(Exception):
    """A call that the contract forbids, with the model's words."""


class Parameters(ctypes.Structure):
    """``Layer_parameters``."""

    _fields_ = [(name, ctypes.c_int) for name in FIELDS]


class Counts(ctypes.Structure):
    """``dory_diana_counts_t``."""

    _fields_ = [("jobs", ctypes.c_uint64), ("macs", ctypes.c_uint64)]


@functools.cache
def library(flags: tuple[str, ...] = ("-O2",), compiler: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile the model without a warning and load it."""
    folder = tempfile.TemporaryDirectory()
    _KEPT.append(folder)
    target = Path(folder.name) / "model.so"
    command = [*(compiler or host_compiler()), *WARNINGS, *flags, "-fPIC", "-shared"]
    command += [f"-I{path}" for path in INCLUDES]
    command += [str(path) for path in (*MODEL, HERE / "c" / "diana_port.c")]
    done = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    loaded = ctypes.CDLL(str(target))
    loaded.try_call.restype = ctypes.c_char_p
    loaded.dory_diana_counts.restype = Counts
    return loaded


class Machine:
    """A chip: L1 of ``l1_bytes``, memory of L2 as tests add it, and the calls of the driver.

    late: jobs compute at their barrier, not at their start.
    """

    def __init__(
        self,
        *,
        l1_bytes: int = 262144,
        adc_scale: int = 16,
        late: bool = False,
        loaded: ctypes.CDLL | None = None,
    ):
        self.lib = loaded or library()
        self.l1 = np.full(l1_bytes, 0xA5, np.uint8)
        self.written = np.zeros(l1_bytes, np.uint8)
        self.lib.port_open(
            ctypes.c_void_p(self.l1.ctypes.data),
            ctypes.c_void_p(self.written.ctypes.data),
            ctypes.c_uint32(l1_bytes),
            ctypes.c_int32(adc_scale),
            ctypes.c_int(late),
        )
        self.l2_bytes: dict[int, np.ndarray] = {}  # by address, to look at and to change

    def l2(self, data: np.ndarray, *, writable: bool = False) -> int:
        """Put bytes into L2, aligned to 16, and return their address."""
        room = np.zeros(len(data) + 16, np.uint8)
        start = -room.ctypes.data % 16
        placed = room[start : start + len(data)]
        placed[:] = data
        self.l2_bytes[placed.ctypes.data] = placed
        assert (
            self.lib.port_l2(
                ctypes.c_void_p(placed.ctypes.data), ctypes.c_uint64(len(data)), int(writable)
            )
            == 0
        )
        return int(placed.ctypes.data)

    def put(self, l1: int, data: np.ndarray) -> None:
        """Write bytes to L1 as a transfer does."""
        self.l1[l1 : l1 + len(data)] = data
        self.written[l1 : l1 + len(data)] = 1

    def get(self, l1: int, count: int) -> np.ndarray:
        """Return bytes of L1, all of which were written."""
        assert self.written[l1 : l1 + count].all()
        return self.l1[l1 : l1 + count].copy()

    def start(self, call: str, *arguments: int, **fields: int) -> None:
        """Make a call; ``fields`` are those of ``Layer_parameters``, which is changed afterwards.

        Raises: BrokenRule with the model's words.
        """
        assert set(fields) <= set(FIELDS)
        parameters = Parameters(**fields)
        numbers = (ctypes.c_size_t * 6)(*arguments)
        broken = self.lib.try_call(CALLS.index(call), numbers, ctypes.byref(parameters))
        ctypes.memset(ctypes.byref(parameters), 0x5A, ctypes.sizeof(parameters))
        if broken is not None:
            raise BrokenRule(broken.decode())

    def run(self, call: str, *arguments: int, **fields: int) -> None:
        """Make a call and wait for it."""
        self.start(call, *arguments, **fields)
        array = "analog" if "analog" in call else "digital"
        self.start(f"dory_cores_barrier_{array}")

    def counts(self, array: int) -> tuple[int, int]:
        """Return (jobs, products) of the digital array, 0, or the analog one, 1, so far."""
        counts = self.lib.dory_diana_counts(ctypes.c_int(array))
        return int(counts.jobs), int(counts.macs)
