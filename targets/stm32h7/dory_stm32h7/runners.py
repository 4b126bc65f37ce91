"""Ways to run the image for the chip without one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.api import ToolMissing, simulate
from dory_stm32h7.toolchain import has_toolchain

if TYPE_CHECKING:
    from dory_core.api import TargetContext, simulate


def has_emulator() -> bool:
    """True when the Python package of the emulator is installed."""
    return importlib.util.find_spec("unicorn") is not None


def _cortex_m7(app_dir: Path, request: simulate.RunRequest) -> simulate.RunResult:
    if not has_emulator():
        raise ToolMissing(
            "the emulator of the Cortex-M7 is missing (Python package unicorn)",
            "pip install 'dory-stm32h7[emulator]', or use --runner host",
        )
    from dory_stm32h7.emulator.runner import run_cortex_m7

    return run_cortex_m7(app_dir, request)


def _qemu(app_dir: Path, request: simulate.RunRequest) -> simulate.RunResult:
    from dory_stm32h7.qemu import run_qemu

    return run_qemu(app_dir, request)


def runners(ctx: TargetContext) -> list[simulate.Runner]:
    """Return the emulated chip, preferred when its tools are installed, and QEMU."""
    has_main = ctx.options.get("form") != "library"
    missing = "" if has_main else "an application of form library has no image"
    if has_main and not (has_emulator() and has_toolchain()):
        what = "arm-none-eabi-gcc or ziglang" if has_emulator() else "the Python package unicorn"
        missing = f"{what} is not installed (pip install 'dory-stm32h7[emulator]')"
    return [
        simulate.Runner(
            "cortex-m7",
            "the image for the part on an emulated chip that insists on the rules of its hardware",
            _cortex_m7,
            preferred=not missing,
            missing=missing,
        ),
        simulate.Runner(
            "qemu", "the same C on the Cortex-M7 board of QEMU, copies instead of MDMA", _qemu
        ),
    ]
