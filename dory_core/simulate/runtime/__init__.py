"""The C runtime that every generated application contains: HAL headers and host simulation."""

from __future__ import annotations

from importlib.resources import files

#: File with a byte for each vector of a network with state: 1 when it starts from the initial
#: state, otherwise 0.
RESETS_FILE = "resets.bin"

_SUFFIXES = (".c", ".h", ".mk")


def runtime_files() -> tuple[tuple[str, bytes], ...]:
    """Return (path in the application, content) of every runtime file, sorted by path.

    ``hal/include`` holds the contract with generated code, ``hal/host`` the simulation, its main
    program and ``host.mk``, which the application's Makefile includes. Kernels are not included.
    """
    here = files(__name__)
    found = [
        (f"hal/{folder}/{entry.name}", entry.read_bytes())
        for folder in ("include", "host")
        for entry in here.joinpath(folder).iterdir()
        if entry.name.endswith(_SUFFIXES)
    ]
    return tuple(sorted(found))
