"""The plugin module of a toy chip with three levels; an entry point can name it."""

from dory_core.api import DmaHal, OutputFile, hookimpl
from tests.toy.chip import NAME, three_levels

_CHIP = three_levels()

dory_targets = _CHIP.dory_targets
dory_memory_hierarchy = _CHIP.dory_memory_hierarchy
dory_kernels = _CHIP.dory_kernels


@hookimpl(target=NAME)
def dory_dma_hal() -> DmaHal:
    """Return what stands for a driver: nothing runs on a toy."""
    return DmaHal((OutputFile("board/hal.c", "/* the driver of a toy */\n"),), _CHIP.any_core)


@hookimpl(target=NAME)
def dory_application() -> list[OutputFile]:
    """Return what stands for a main program."""
    return [OutputFile("board/main.c", "/* the main program of a toy */\n")]
