/* What the driver asks of the program, which all networks of the program share. */
#ifndef DORY_STM32H7_DRIVER_H
#define DORY_STM32H7_DRIVER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Status of a transfer that has not ended after DORY_MDMA_POLLS looks at its flags. */
#define DORY_STM32H7_TIMEOUT 0x80000000u

/* The MDMA reports an error in a transfer: its channel, its error status register or
 * DORY_STM32H7_TIMEOUT. The program may define it; board/main.c has one that ends the program. Where
 * it returns, and without any, all transfers are stopped and the run ends with DORY_EDMA; its output
 * and what it kept as state are then nothing. */
void dory_stm32h7_fault(uint32_t channel, uint32_t status);

/* Called again and again while the core waits for a transfer. Does nothing; define another one to
 * sleep until an interrupt or to yield to other tasks. */
void dory_stm32h7_wait(void);

#ifdef __cplusplus
}
#endif

#endif
