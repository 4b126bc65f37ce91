/* Owners of bytes: beside L1 and L2 lies what they shall hold. Transfers write there what they move,
 * and a kernel may change the bytes that it was said to write. Whatever else differs was written by
 * somebody who does not own it: a kernel one row too far, say, into the buffer beside its own. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that a kernel writes; `meetings` of all cores took place before. */
typedef struct {
  sim_arena_t *arena;
  uint32_t offset, bytes, meetings;
} written_t;

static written_t *written;
static uint32_t written_count, written_room;

#ifdef SIM_TSAN /* it sees such writes as races, and shall not see ours */
void sim_expect(const sim_arena_t *arena, const void *from, uint32_t bytes) {
  (void)arena, (void)from, (void)bytes;
}
void sim_expect_all(void) {}
void sim_allow(sim_arena_t *arena, uint32_t offset, uint32_t bytes, uint32_t meetings) {
  (void)arena, (void)offset, (void)bytes, (void)meetings;
  (void)written, (void)written_count, (void)written_room;
}
void sim_end_writes(void) {}
void sim_check_owners(int also_l2) { (void)also_l2; }
void sim_check_at_barrier(void) {}
#else

void sim_expect(const sim_arena_t *arena, const void *from, uint32_t bytes) {
  if (arena != NULL && arena->expected != NULL)
    memcpy(arena->expected + ((const uint8_t *)from - arena->base), from, bytes);
}

void sim_expect_all(void) {
  dory_sim_l1_begin();
  for (uint32_t i = 0; i < sim_memory_count; ++i)
    sim_expect(&sim_memories[i], sim_memories[i].base, sim_memories[i].size);
  dory_sim_l1_end();
  written_count = 0;
}

void sim_allow(sim_arena_t *arena, uint32_t offset, uint32_t bytes, uint32_t meetings) {
  if (written_count == written_room) {
    written_room = 2 * written_room + 16;
    written = realloc(written, written_room * sizeof *written);
    if (written == NULL) dory_sim_fault(NULL, 0, "no memory for %u writes", written_room);
  }
  const written_t one = {arena, offset, bytes, meetings};
  written[written_count++] = one;
}

/* Leaves in the list what some core may still write: the cores have not met since. */
static void forget_ended(void) {
  const uint32_t meetings = sim_meetings();
  uint32_t left = 0;
  for (uint32_t i = 0; i < written_count; ++i)
    if (sim_config.cores > 1 && written[i].meetings == meetings) written[left++] = written[i];
  written_count = left;
}

void sim_end_writes(void) {
  sim_lock();
  forget_ended();
  sim_unlock();
}

static void take_over(void) {
  for (uint32_t i = 0; i < written_count; ++i)
    sim_expect(written[i].arena, written[i].arena->base + written[i].offset, written[i].bytes);
}

static int may_change(const sim_arena_t *arena, uint32_t at) {
  if (arena->shadow[at] & SIM_WRITING) return 1;
  for (uint32_t i = 0; i < written_count; ++i)
    if (written[i].arena == arena && at - written[i].offset < written[i].bytes) return 1;
  return 0;
}

static void check(const sim_arena_t *arena) {
  if (memcmp(arena->base, arena->expected, arena->size) == 0) return;
  for (uint32_t at = 0; at < arena->size; ++at) {
    if (arena->base[at] == arena->expected[at] || may_change(arena, at)) continue;
    dory_sim_fault(NULL, 0, "something wrote byte %lu of %s, which %s", (unsigned long)at,
                   arena->name,
                   arena->shadow[at] == 0 ? "belongs to no buffer in use"
                                          : "holds data of others: it is not the kernel's output");
  }
}

void sim_check_owners(int also_l2) {
  dory_sim_l1_begin();
  sim_lock();
  take_over();
  forget_ended();
  for (uint32_t i = 0; i < (also_l2 ? sim_memory_count : 1); ++i) check(&sim_memories[i]);
  sim_unlock();
  dory_sim_l1_end();
}

void sim_check_at_barrier(void) {
  sim_lock();
  take_over();
  check(&sim_l1);
  sim_unlock();
}
#endif
