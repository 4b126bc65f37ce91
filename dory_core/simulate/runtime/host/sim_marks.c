/* What the kernel reads and writes in the tile that core 0 is at, as generated code declares it: it
 * writes nothing that it reads, and nothing twice. */
#include "sim_internal.h"

#include <stdlib.h>

typedef struct {
  const uint8_t *base;
  uint32_t bytes;
  int written;
} mark_t;

static mark_t *marks;
static uint32_t mark_count, mark_room;
static int in_tile;
static uint32_t ended; /* number of the meeting before which the kernel has not ended */

void sim_marks_begin(int tile, uint32_t meetings) {
  in_tile = tile;
  ended = sim_meetings() + meetings;
  mark_count = 0;
}

void sim_marks_meet(const uint8_t *base, uint32_t bytes, const char *file, int line) {
  if (!in_tile || dory_core_id() != 0 || sim_meetings() >= ended) return;
  for (uint32_t i = 0; i < mark_count; ++i) {
    const mark_t *const one = &marks[i];
    if (base >= one->base + one->bytes || one->base >= base + bytes) continue;
    (one->written ? dory_sim_write : dory_sim_read)(one->base, one->bytes, file, line);
  }
}

static void add(const void *ptr, uint32_t bytes, int written) {
  if (mark_count == mark_room) {
    mark_room = 2 * mark_room + 16;
    marks = realloc(marks, mark_room * sizeof *marks);
    if (marks == NULL) dory_sim_fault(NULL, 0, "no memory for %u marks", mark_room);
  }
  const mark_t one = {ptr, bytes, written};
  marks[mark_count++] = one;
}

static void check_apart(const uint8_t *base, uint32_t bytes, const char *file, int line) {
  for (uint32_t i = 0; i < mark_count; ++i) {
    const mark_t *const one = &marks[i];
    if (base >= one->base + one->bytes || one->base >= base + bytes) continue;
    const uint8_t *const first = base > one->base ? base : one->base;
    const sim_place_t place = sim_locate(first, 1);
    dory_sim_fault(file, line, "tile writes byte %lu of %s, %s", (unsigned long)place.offset,
                   place.arena ? place.arena->name : "the network's output",
                   one->written ? "which it also writes as another buffer" : "which it reads");
  }
}

void sim_marks_add(const dory_sim_mark_t *added, size_t count, const char *file, int line) {
  for (size_t i = 0; i < count; ++i) {
    if (added[i].kind == DORY_MARK_READS)
      dory_sim_tile_reads(added[i].ptr, added[i].bytes, file, line);
    else if (added[i].kind == DORY_MARK_SUMS)
      dory_sim_read(added[i].ptr, added[i].bytes, file, line);
    else
      dory_sim_tile_writes(added[i].ptr, added[i].bytes, file, line);
  }
}

void dory_sim_tile_reads(const void *ptr, uint32_t bytes, const char *file, int line) {
  dory_sim_read(ptr, bytes, file, line);
  if (in_tile && dory_core_id() == 0 && bytes > 0) add(ptr, bytes, 0);
}

void dory_sim_tile_writes(const void *ptr, uint32_t bytes, const char *file, int line) {
  dory_sim_write(ptr, bytes, file, line);
  if (!in_tile || dory_core_id() != 0 || bytes == 0) return;
  check_apart(ptr, bytes, file, line);
  add(ptr, bytes, 1);
}
