"""The C of every real network, on every target that takes it: nothing to say to programs that
analyse C, and no more stack than a core has.

Files that networks share, which are most kernels, are looked at once.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from dory_diana.hardware import STACK_BYTES as DIANA_STACK_BYTES
from dory_gap8.hardware import STACK_CORE_BYTES
from dory_stm32h7.hardware import STACK_BYTES as STM32_STACK_BYTES

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.plugins.manager import load_plugins
from dory_core.simulate.build import INCLUDE_FOLDERS
from dory_core.testing.compilers import deepest_stack, require_gcc
from tests.codegen.test_strict_warnings import STRICT
from tests.nets import net, net_names, onnx_names, onnx_net, tflite_names, tflite_net
from tests.system.test_static_analysis import (
    NOT_CPPCHECK,
    NOT_GCC,
    TIDY,
    UNSIGNED_TILES,
    files,
    installed,
    said,
)

ARM = "arm-none-eabi-gcc"
#: Stack of the core that has least, in bytes, less what is not the network's: interrupts, and the
#: main program of gap8.
STACK_BYTES = {
    "gap8": STACK_CORE_BYTES - 16,
    "stm32h7": STM32_STACK_BYTES * 3 // 4,
    "diana": DIANA_STACK_BYTES * 3 // 4,
}
#: Files that were looked at, by program and content.
_SEEN: set[tuple[str, str]] = set()

NETWORKS = [*net_names(), *tflite_names(), *onnx_names("")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize(
        ("network", "target"),
        [(name, sorted(STACK_BYTES)[n % 3]) for n, name in enumerate(NETWORKS)],  # in turns
    ),
]


def options(network: str, target: str, app: Path) -> CompileOptions:
    if network in net_names():
        found = net(network)
        return CompileOptions(
            found.onnx, target, found.frontend, app, input_signed=found.input_signed
        )
    if network in tflite_names():
        return CompileOptions(tflite_net(network).path, target, "tflite", app)
    return CompileOptions(onnx_net(network).path, target, "qdq", app)


def new(app: Path, program: str) -> list[str]:
    """Return the files that a program has not seen in another network."""
    found = []
    for name in files(app):
        key = (program, sha256((app / name).read_bytes()).hexdigest())
        if name.startswith("src/") or key not in _SEEN:
            found.append(name)
        _SEEN.add(key)
    return found


def test_programs_that_analyse_c_find_nothing_and_the_stack_suffices(
    network: str, target: str, tmp_path: Path
) -> None:
    app = tmp_path / "app"
    try:
        compile_network(options(network, target, app), load_plugins())
    except (DoesNotFit, NotSupported) as error:
        pytest.skip(error.message)
    folders = [f"-I{folder}" for folder in INCLUDE_FOLDERS]
    gcc = require_gcc()
    fresh = new(app, "files")
    asked = ("--enable=warning,portability", "--std=c99", "--quiet", *NOT_CPPCHECK)
    assert said(app, installed("cppcheck"), *asked, *folders, *fresh) == ""
    own = said(app, *gcc, "-print-file-name=include").strip()
    tidy = (installed("clang-tidy"), "--quiet", f"--checks={TIDY},clang-diagnostic-*")
    for folder in ("src", "kernels"):
        some = [name for name in fresh if name.startswith(f"{folder}/")]
        strict = ("-std=c99", "-Wall", "-Wextra", *STRICT, *UNSIGNED_TILES[folder], *folders)
        if some:
            assert said(app, *gcc, "-O1", "-fanalyzer", *NOT_GCC, *strict, "-S", *some) == ""
            text = said(app, *tidy, *some, "--", *strict, "-isystem", own)
            found = (" warning: ", " error: ")
            assert [one for one in text.splitlines() if any(map(one.__contains__, found))] == []
    assert 0 < stack_bytes(app, tmp_path) <= STACK_BYTES[target]


def stack_bytes(app: Path, folder: Path) -> int:
    """Return the most bytes of stack that an inference needs.

    Another 32-bit target stands for the chips.
    """
    if shutil.which(ARM) is None:
        pytest.skip(f"no {ARM} (package gcc-arm-none-eabi)")
    includes = [f"-I{app / path}" for path in INCLUDE_FOLDERS]
    sources = [app / name for name in files(app)]
    command = (ARM, "-mcpu=cortex-m4", "-Os", "-std=gnu99", *includes)
    return deepest_stack([*command, *map(str, sources)], folder, "dory_network_run")
