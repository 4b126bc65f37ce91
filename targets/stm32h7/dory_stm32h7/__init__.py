"""The STM32H7 target of dory: DTCM as L1, SRAM as L2, flash for constants, moved by the MDMA."""
