"""The plugin module of a toy chip with three levels; an entry point can name it."""

from tests.toy.chip import three_levels

_CHIP = three_levels()

dory_targets = _CHIP.dory_targets
dory_memory_hierarchy = _CHIP.dory_memory_hierarchy
dory_dma_hal = _CHIP.dory_dma_hal
dory_kernels = _CHIP.dory_kernels
