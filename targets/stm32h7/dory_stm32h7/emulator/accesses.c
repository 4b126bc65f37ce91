/* Counts loads and stores by memory, and the lines that a data cache in front of it would fill;
 * called by the emulator for every access. */
#include <stdint.h>

enum { MEMORIES = 8, MOST_WAYS = 16, WRITE = 17 };

typedef struct {
  uint64_t base, size, cached;
  uint64_t loads, stores, fills;
} memory_t;

/* tags: per set and way, the number of the line and 1, 0 for none. */
typedef struct {
  uint64_t memories;
  memory_t memory[MEMORIES];
  uint64_t sets, ways, line;
  uint64_t *tags;
  uint64_t random;
} accesses_t;

static memory_t *memory_at(accesses_t *a, uint64_t address)
{
  for (uint64_t m = 0; m < a->memories; m++) {
    if (address - a->memory[m].base < a->memory[m].size) return &a->memory[m];
  }
  return 0;
}

static uint64_t next_random(accesses_t *a)
{
  a->random ^= a->random << 13;
  a->random ^= a->random >> 7;
  a->random ^= a->random << 17;
  return a->random;
}

/* Returns 1 when the line has to be filled. A way that is free is taken first, else any. */
static int touch(accesses_t *a, uint64_t line)
{
  uint64_t *const set = a->tags + line % a->sets * a->ways;
  uint64_t empty = a->ways;
  for (uint64_t way = 0; way < a->ways; way++) {
    if (set[way] == line + 1) return 0;
    if (set[way] == 0 && empty == a->ways) empty = way;
  }
  set[empty < a->ways ? empty : next_random(a) % a->ways] = line + 1;
  return 1;
}

void dory_count_access(void *engine, int type, uint64_t address, int bytes, int64_t value,
                       void *user)
{
  accesses_t *const a = user;
  memory_t *const memory = memory_at(a, address);
  (void)engine;
  (void)value;
  if (memory == 0) return;
  if (type == WRITE) {
    memory->stores++;
  } else {
    memory->loads++;
  }
  if (!memory->cached) return;
  const uint64_t last = (address + (uint64_t)bytes - 1) / a->line;
  for (uint64_t line = address / a->line; line <= last; line++) {
    memory->fills += (uint64_t)touch(a, line);
  }
}
