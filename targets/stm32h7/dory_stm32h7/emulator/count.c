/* Counts executed instructions by blocks of Thumb code; called by the emulator for every block. */
#include <stdint.h>

/* Code memory as seen by the program, and the number of instructions of blocks seen before. */
typedef struct {
  uint64_t instructions;
  uint64_t blocks;
  const uint8_t *code;
  uint64_t base, size;
  uint16_t *known_size, *known_count; /* per half-word of the memory */
  uint64_t *executed;                 /* how often the block there was entered */
} counter_t;

static uint16_t count(const uint8_t *code, uint32_t bytes)
{
  uint16_t instructions = 0;
  for (uint32_t at = 0; at < bytes; ++instructions) {
    const uint32_t top = code[at + 1] >> 3; /* 11101, 11110 and 11111 start 32-bit instructions */
    at += top >= 0x1D ? 4 : 2;
  }
  return instructions;
}

void dory_count_block(void *engine, uint64_t address, uint32_t bytes, void *user)
{
  counter_t *const counter = user;
  (void)engine;
  const uint64_t offset = address - counter->base;
  ++counter->blocks;
  if (offset >= counter->size) return;
  const uint64_t slot = offset / 2;
  if (counter->known_size[slot] != bytes) {
    counter->known_size[slot] = (uint16_t)bytes;
    counter->known_count[slot] = count(counter->code + offset, bytes);
  }
  counter->instructions += counter->known_count[slot];
  ++counter->executed[slot];
}
