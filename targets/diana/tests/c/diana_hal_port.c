/* The HAL of the chip on the model of the DMA; commands are counted. */
#include "diana_port.h"

static uint32_t commands;

static void counted(unsigned int *l2, unsigned int l1, unsigned int bytes, unsigned int direction,
                    unsigned int banks)
{
  ++commands;
  memcpy_dig(l2, l1, bytes, direction, banks);
}

#define memcpy_dig counted
#include "dory_diana_dma.c" /* as it is, with its buffer: memory of L2 that the model must know */
#undef memcpy_dig

static void start_and_wait(const void *copy) { dory_dma_wait(dory_dma_start(copy)); }

const char *try_copy(const dory_copy_t *copy);
uint32_t hal_commands(void);
void *hal_l1(uint32_t offset);

/* Makes a copy; NULL, or why it cannot be made. */
const char *try_copy(const dory_copy_t *copy)
{
  commands = 0;
  port_l2(bounce, sizeof bounce, 1);
  return port_try(start_and_wait, copy);
}

/* Commands of the last copy. */
uint32_t hal_commands(void) { return commands; }

/* A pointer into the arena of L1. */
void *hal_l1(uint32_t offset) { return (uint8_t *)dory_diana_l1_arena() + offset; }
