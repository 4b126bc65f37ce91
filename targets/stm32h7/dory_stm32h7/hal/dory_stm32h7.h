/* The network on an STM32H743: memories, preparation of the chip, one call per inference.
 *
 * With a main of your own, for example in a CubeIDE project, call dory_stm32h7_init once and
 * dory_stm32h7_run for each input. The linker script has to place the sections of
 * dory_sections.ld. */
#ifndef DORY_STM32H7_H
#define DORY_STM32H7_H

#include <stdint.h>

#include "dory_network.h"
#include "dory_stm32h7_config.h"

/* Clocks of MDMA and D2 SRAM, MPU regions of the arenas, cycle counter. Caches are left as they
 * are. MPU regions 14 and 15 are taken unless the arenas are cached (dory_stm32h7_config.h). */
void dory_stm32h7_init(void);

/* Runs the network on the arenas of this application; results as of dory_network_run. An output
 * that is dory_stm32h7_output() is not copied. */
int dory_stm32h7_run(const void *input, void *output,
                     void (*on_layer)(void *user, int layer, const void *data, uint32_t bytes),
                     void *user);

/* Where the last layer leaves the output, with DORY_OUTPUT_IN_PLACE; valid until the next run. */
void *dory_stm32h7_output(void);

/* The MDMA reports an error in a transfer: its channel, its error status register. Does not
 * return. The application's version ends the program; define another one where that is wrong. */
void dory_stm32h7_fault(uint32_t channel, uint32_t status);

/* Called by dory_stm32h7_init: forgets all transfers. */
void dory_dma_init(void);

#endif
