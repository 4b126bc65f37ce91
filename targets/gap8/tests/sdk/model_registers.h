/* Puts the models in the place of the cluster's registers: the chip's header gives the addresses and
 * bits, its accesses are replaced. Included in front of every file. */
#ifndef MODEL_REGISTERS_H
#define MODEL_REGISTERS_H

#define dory_gap8_read chip_read
#define dory_gap8_write chip_write
#define dory_gap8_sleep chip_sleep
#define dory_gap8_core chip_core
#include "dory_gap8_registers.h"
#undef dory_gap8_read
#undef dory_gap8_write
#undef dory_gap8_sleep
#undef dory_gap8_core

#undef DORY_GAP8_ADDRESS
#define DORY_GAP8_ADDRESS(pointer) model_address(pointer)

uint32_t dory_gap8_read(uint32_t address);
void dory_gap8_write(uint32_t address, uint32_t value);
uint32_t dory_gap8_sleep(uint32_t address);
uint32_t dory_gap8_core(void);

/* What a function of the HAL has on a stack in L1. */
#define DORY_GAP8_ON_STACK(name, words) uint32_t *const name = model_stack(4 * (words))
uint32_t *model_stack(uint32_t bytes);

/* Where static memory of the program lies, in 32 bits. */
uint32_t model_address(const void *pointer);

#endif
