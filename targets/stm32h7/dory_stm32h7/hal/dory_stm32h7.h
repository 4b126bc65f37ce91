/* The network on the chip of dory_stm32h7_part.h: memories, preparation of the chip, one call per inference.
 *
 * With a main of your own, for example in a CubeIDE project, call dory_stm32h7_init once and
 * dory_stm32h7_run for each input. The linker script has to place the sections of
 * dory_sections.ld. */
#ifndef DORY_STM32H7_H
#define DORY_STM32H7_H

#include <stdint.h>

#include "dory_io.h"
#include "dory_stm32h7_config.h"
#include "dory_stm32h7_part.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As far as the part has them: clocks of MDMA and D2 SRAM, the erratum of AXI SRAM in chips before
 * revision V, MPU regions of the arenas, zeros in the arenas, cycle counter (one that runs already
 * goes on). Caches are left as they are. Regions of the MPU are taken unless the arenas are cached;
 * they lie above all regions of lower numbers. dory_stm32h7_config.h says which, and has all other choices. */
void dory_stm32h7_init(void);

/* Runs the network on the arenas of this application; results as of dory_network_run. An output
 * that is dory_stm32h7_output() is not copied. */
int dory_stm32h7_run(const void *input, void *output,
                     void (*on_layer)(void *user, int layer, const void *data, uint32_t bytes),
                     void *user);

/* Where the last layer leaves the output, with DORY_OUTPUT_IN_PLACE; valid until the next run. */
void *dory_stm32h7_output(void);

/* Status of a transfer that has not ended after DORY_MDMA_POLLS looks at its flags. */
#define DORY_STM32H7_TIMEOUT 0x80000000u

/* The MDMA reports an error in a transfer: its channel, its error status register or
 * DORY_STM32H7_TIMEOUT. Does not return. The program may define it; board/main.c has one that ends
 * the program. Without any the core stays in an endless loop. */
void dory_stm32h7_fault(uint32_t channel, uint32_t status);

/* Called again and again while the core waits for a transfer. Does nothing; define another one to
 * sleep until an interrupt or to yield to other tasks. */
void dory_stm32h7_wait(void);

/* Called by dory_stm32h7_init: forgets all transfers. */
void dory_dma_init(void);

#ifdef __cplusplus
}
#endif

#endif
