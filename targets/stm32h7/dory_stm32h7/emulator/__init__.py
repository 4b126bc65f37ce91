"""An STM32H743 that runs the image: Cortex-M7 by unicorn, memories, MDMA and system registers."""
