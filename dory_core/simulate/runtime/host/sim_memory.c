/* Arenas between guard pages, their shadow maps, and the checks of reads and writes by kernels. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

dory_sim_config_t sim_config;
sim_arena_t sim_memories[SIM_MEMORIES], sim_l3;
uint32_t sim_memory_count;
uint32_t sim_l3_image, sim_l3_end;

#define MAX_BUFFERS 8
static sim_arena_t buffers[MAX_BUFFERS];
static uint32_t buffer_count;

typedef struct {
  const uint8_t *base;
  uint32_t bytes;
  int writable;
} region_t;
static region_t *regions;
static uint32_t region_count, region_room;

/* Where L1 is mapped if nothing else is there: some libraries keep addresses in 32 bits. */
#define L1_ADDRESS ((void *)0x10000000)

/* The arena's end is flush with the guard page, but for the bytes that its size lacks to a multiple
 * of the alignment; those, and the rest of the first page, are canaries. */
static void arena_create_at(sim_arena_t *arena, void *where, const char *name, uint32_t size,
                            uint32_t align, int shadow) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t aligned = ((size_t)size + align - 1) / align * align;
  const size_t inner = aligned ? (aligned + page - 1) / page * page : page;
  uint8_t *map = mmap(where, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED || mprotect(map + page, inner, PROT_READ | PROT_WRITE) != 0)
    dory_sim_fault(NULL, 0, "no memory for %s of %lu bytes", name, (unsigned long)size);
  arena->name = name;
  arena->map = map;
  arena->map_end = map + inner + 2 * page;
  arena->front = map + page;
  arena->back = map + page + inner;
  arena->base = arena->back - aligned;
  arena->size = size;
  memset(arena->front, SIM_POISON, inner);
  arena->shadow = NULL;
  arena->expected = NULL;
  if (shadow) {
    arena->shadow = calloc(size ? size : 1, sizeof *arena->shadow);
    if (arena->shadow == NULL) dory_sim_fault(NULL, 0, "no memory for the shadow of %s", name);
    arena->expected = arena == &sim_l3 ? NULL : malloc(size ? size : 1);
    if (arena->expected == NULL && arena != &sim_l3)
      dory_sim_fault(NULL, 0, "no memory for a copy of %s", name);
  }
}

static void arena_create(sim_arena_t *arena, const char *name, uint32_t size, int shadow) {
  arena_create_at(arena, NULL, name, size, DORY_ARENA_ALIGN, shadow);
}

static int l1_hidden, l1_users;

static void l1_protect(int access) {
  if (mprotect(sim_l1.front, (size_t)(sim_l1.back - sim_l1.front), access) != 0)
    dory_sim_fault(NULL, 0, "L1 cannot be hidden");
}

void dory_sim_hide_l1(void) { l1_hidden = 1; }

void dory_sim_l1_begin(void) {
  if (l1_hidden && l1_users++ == 0) l1_protect(PROT_READ | PROT_WRITE);
}

void dory_sim_l1_end(void) {
  if (l1_hidden && --l1_users == 0) l1_protect(PROT_NONE);
}

void dory_sim_open(const dory_sim_config_t *config) {
  sim_config = *config;
  if (sim_config.cores < 1 || sim_config.cores > DORY_SIM_MAX_CORES)
    dory_sim_fault(NULL, 0, "%lu cores: 1 to %d can be simulated",
                   (unsigned long)sim_config.cores, DORY_SIM_MAX_CORES);
  if (sim_config.dma_in_flight < 1 || sim_config.dma_in_flight > DORY_SIM_MAX_IN_FLIGHT)
    sim_config.dma_in_flight = DORY_SIM_MAX_IN_FLIGHT;
  if (sim_config.dma_align < 1) sim_config.dma_align = 1;
  if (sim_config.ext_align < 1) sim_config.ext_align = 1;
  if (sim_config.barrier_timeout_s < 1) sim_config.barrier_timeout_s = 60;
  arena_create_at(&sim_l1, L1_ADDRESS, "L1", sim_config.l1_size, DORY_ARENA_ALIGN, 1);
  arena_create(&sim_memories[1], "L2", sim_config.l2_size, 1);
  static const char *const names[DORY_SIM_MAX_MORE_L2] = {
      "memory 1 of L2", "memory 2 of L2", "memory 3 of L2", "memory 4 of L2"};
  if (sim_config.more_l2 > DORY_SIM_MAX_MORE_L2)
    dory_sim_fault(NULL, 0, "L2 has %lu further memories, %d can be simulated",
                   (unsigned long)sim_config.more_l2, DORY_SIM_MAX_MORE_L2);
  for (uint32_t i = 0; i < sim_config.more_l2; ++i)
    arena_create(&sim_memories[2 + i], names[i], sim_config.more_l2_size[i], 1);
  sim_memory_count = 2 + sim_config.more_l2;
  arena_create(&sim_l3, "L3", sim_config.l3_size, 1);
  if (l1_hidden) {
    if (sim_config.cores != 1)
      dory_sim_fault(NULL, 0, "L1 can be hidden from one core, not from %lu",
                     (unsigned long)sim_config.cores);
    l1_protect(PROT_NONE);
  }
  sim_report_init();
}

void *dory_sim_alloc(const char *name, uint32_t bytes) {
  if (buffer_count == MAX_BUFFERS) dory_sim_fault(NULL, 0, "too many buffers for the simulation");
  /* Elements need no more alignment than their sum has; so reading one byte too many is a fault. */
  arena_create_at(&buffers[buffer_count], NULL, name, bytes, 1, 0);
  return buffers[buffer_count++].base;
}

static void region_add(const void *ptr, uint32_t bytes, int writable) {
  if (bytes == 0) return;
  if (region_count == region_room) {
    region_room = region_room ? 2 * region_room : 64;
    regions = realloc(regions, region_room * sizeof *regions);
    if (regions == NULL) dory_sim_fault(NULL, 0, "no memory for the table of constants");
  }
  regions[region_count].base = ptr;
  regions[region_count].bytes = bytes;
  regions[region_count++].writable = writable;
}

void dory_sim_const(const void *ptr, uint32_t bytes) { region_add(ptr, bytes, 0); }

void dory_sim_mutable(void *ptr, uint32_t bytes) { region_add(ptr, bytes, 1); }

static struct {
  const uint8_t *from, *to;
} *replaced;
static uint32_t replaced_count;

void dory_sim_replaced(const void *ptr, uint32_t bytes) {
  replaced = realloc(replaced, (replaced_count + 1) * sizeof *replaced);
  if (replaced == NULL) dory_sim_fault(NULL, 0, "no memory for %u states", replaced_count + 1);
  replaced[replaced_count].from = ptr;
  replaced[replaced_count++].to = (const uint8_t *)ptr + bytes;
}

int sim_has_owner(const sim_arena_t *arena, uint32_t offset) {
  if (arena == &sim_l1 || arena == &sim_l3) return 0;
  if ((arena->shadow[offset] & (SIM_DEFINED | SIM_REPLACED)) != SIM_DEFINED) return 0;
  const uint8_t *const byte = arena->base + offset;
  for (uint32_t i = 0; i < replaced_count; ++i)
    if (byte >= replaced[i].from && byte < replaced[i].to) return 0;
  return 1;
}

void *dory_sim_l1(void) { return sim_l1.base; }

void *dory_sim_l2(void) { return sim_memories[1].base; }

void *dory_sim_more_l2(uint32_t number) { return sim_memories[2 + number].base; }

static void shadow_set(sim_arena_t *arena, uint32_t offset, uint32_t bytes, sim_shadow_t value) {
  for (uint32_t i = 0; i < bytes; ++i) arena->shadow[offset + i] = value;
}

void *dory_sim_l3(uint32_t bytes) {
  if (bytes > sim_l3.size)
    dory_sim_fault(NULL, 0, "%lu bytes do not fit L3 of %lu bytes", (unsigned long)bytes,
                   (unsigned long)sim_l3.size);
  shadow_set(&sim_l3, 0, bytes, SIM_DEFINED);
  sim_l3_image = bytes;
  return sim_l3.base;
}

/* What the caller puts into L3 before a run; it stays defined when the others are forgotten. */
#define MAX_L3_INPUTS 16
static struct {
  uint32_t offset, bytes;
} l3_inputs[MAX_L3_INPUTS];
static uint32_t l3_input_count;

static void l3_check(const char *what, uint32_t offset, uint32_t bytes) {
  if (offset > sim_l3.size || bytes > sim_l3.size - offset)
    dory_sim_fault(NULL, 0, "the %s at %lu of %lu bytes lies outside of L3 of %lu bytes", what,
                   (unsigned long)offset, (unsigned long)bytes, (unsigned long)sim_l3.size);
}

void dory_sim_l3_input(uint32_t offset, const void *data, uint32_t bytes) {
  l3_check("input", offset, bytes);
  memcpy(sim_l3.base + offset, data, bytes);
  uint32_t i = 0;
  while (i < l3_input_count && l3_inputs[i].offset != offset) ++i;
  if (i == MAX_L3_INPUTS) dory_sim_fault(NULL, 0, "more than %d inputs lie in L3", MAX_L3_INPUTS);
  if (i == l3_input_count) ++l3_input_count;
  l3_inputs[i].offset = offset;
  l3_inputs[i].bytes = bytes;
}

void dory_sim_l3_output(uint32_t offset, void *data, uint32_t bytes) {
  l3_check("output", offset, bytes);
  for (uint32_t i = 0; i < bytes; ++i)
    if (!(sim_l3.shadow[offset + i] & SIM_DEFINED))
      dory_sim_fault(NULL, 0, "byte %lu of the output in L3 was never written", (unsigned long)i);
  memcpy(data, sim_l3.base + offset, bytes);
}

void sim_forget_arenas(void) {
  for (uint32_t i = 0; i < sim_memory_count; ++i)
    shadow_set(&sim_memories[i], 0, sim_memories[i].size, 0);
  if (sim_l3_end > sim_l3_image)
    shadow_set(&sim_l3, sim_l3_image, sim_l3_end - sim_l3_image, 0);
  sim_l3_end = 0;
  for (uint32_t i = 0; i < l3_input_count; ++i)
    shadow_set(&sim_l3, l3_inputs[i].offset, l3_inputs[i].bytes, SIM_DEFINED);
}

/* What the next layer finds in L1. */
typedef struct {
  uint32_t offset, bytes;
} kept_t;
static kept_t *kept;
static uint32_t kept_count, kept_room;

void sim_keep(uint32_t offset, uint32_t bytes) {
  if (kept_count == kept_room) {
    kept_room = 2 * kept_room + 4;
    kept = realloc(kept, kept_room * sizeof *kept);
    if (kept == NULL) dory_sim_fault(NULL, 0, "no memory for %u blocks in L1", kept_room);
  }
  kept[kept_count].offset = offset;
  kept[kept_count++].bytes = bytes;
}

static void poison_part(uint32_t offset, uint32_t bytes) {
  memset(sim_l1.base + offset, SIM_POISON, bytes);
  sim_expect(&sim_l1, sim_l1.base + offset, bytes);
  sim_lock();
  shadow_set(&sim_l1, offset, bytes, 0);
  sim_unlock();
}

void sim_poison_l1(void) {
  dory_sim_l1_begin();
  for (uint32_t at = 0; at < sim_l1.size;) {
    uint32_t end = sim_l1.size, next = end; /* poison [at, end), go on at next */
    for (uint32_t i = 0; i < kept_count; ++i) {
      const uint32_t behind = kept[i].offset + kept[i].bytes;
      if (kept[i].offset <= at && at < behind) {
        end = at;
        next = behind;
        break;
      }
      if (kept[i].offset > at && kept[i].offset < end) end = next = kept[i].offset;
    }
    poison_part(at, end - at);
    at = next;
  }
  dory_sim_l1_end();
  kept_count = 0;
}

static int inside(const uint8_t *base, uint64_t size, const void *ptr, uint64_t bytes) {
  const uintptr_t low = (uintptr_t)base, address = (uintptr_t)ptr;
  return address >= low && bytes <= size && address - low <= size - bytes;
}

sim_place_t sim_locate(const void *ptr, uint64_t bytes) {
  sim_place_t place = {NULL, 0, 0, 0};
  for (uint32_t i = 0; i < sim_memory_count; ++i) {
    sim_arena_t *const arena = &sim_memories[i];
    if (inside(arena->base, arena->size, ptr, bytes)) {
      place.arena = arena;
      place.offset = (uint32_t)((uintptr_t)ptr - (uintptr_t)arena->base);
      place.found = place.writable = 1;
      return place;
    }
  }
  for (uint32_t i = 0; i < region_count; ++i) {
    if (inside(regions[i].base, regions[i].bytes, ptr, bytes)) {
      place.found = 1;
      place.writable = regions[i].writable;
      return place;
    }
  }
  return place;
}

int dory_sim_in_l2(const void *ptr, uint64_t bytes, int to_write) {
  const sim_place_t place = sim_locate(ptr, bytes);
  return place.found && place.arena != &sim_l1 && (place.writable || !to_write);
}

static void check_canary(const sim_arena_t *arena, const uint8_t *from, const uint8_t *to,
                         const char *file, int line) {
  for (const uint8_t *p = from; p != to; ++p) {
    if (*p == SIM_POISON) continue;
    if (p < arena->base)
      dory_sim_fault(file, line, "something wrote %ld bytes before the start of %s",
                     (long)(arena->base - p), arena->name);
    dory_sim_fault(file, line, "something wrote %ld bytes behind the end of %s",
                   (long)(p - arena->base) - (long)arena->size + 1, arena->name);
  }
}

void sim_check_canaries(const char *file, int line) {
  const sim_arena_t *arenas[SIM_MEMORIES + 1 + MAX_BUFFERS] = {&sim_l3};
  uint32_t count = 1;
  for (uint32_t i = 0; i < sim_memory_count; ++i) arenas[count++] = &sim_memories[i];
  for (uint32_t i = 0; i < buffer_count; ++i) arenas[count++] = &buffers[i];
  dory_sim_l1_begin();
  for (uint32_t i = 0; i < count; ++i) {
    check_canary(arenas[i], arenas[i]->front, arenas[i]->base, file, line);
    check_canary(arenas[i], arenas[i]->base + arenas[i]->size, arenas[i]->back, file, line);
  }
  dory_sim_l1_end();
}

const sim_arena_t *sim_guarding(const void *address) {
  const uint8_t *const at = address;
  for (uint32_t i = 0; i < sim_memory_count; ++i)
    if (at >= sim_memories[i].map && at < sim_memories[i].map_end) return &sim_memories[i];
  if (at >= sim_l3.map && at < sim_l3.map_end) return &sim_l3;
  for (uint32_t i = 0; i < buffer_count; ++i)
    if (at >= buffers[i].map && at < buffers[i].map_end) return &buffers[i];
  return NULL;
}

/* Length of the run of bytes from offset whose shadow, masked, equals value. */
static uint32_t run_length(const sim_arena_t *arena, uint32_t offset, uint32_t end,
                           sim_shadow_t mask, sim_shadow_t value) {
  uint32_t i = offset;
  while (i < end && (arena->shadow[i] & mask) == value) ++i;
  return i - offset;
}

void dory_sim_read(const void *ptr, uint32_t bytes, const char *file, int line) {
  if (bytes == 0) return;
  const sim_place_t place = sim_locate(ptr, bytes);
  if (!place.found)
    dory_sim_fault(file, line, "tile reads %lu bytes outside L1 and L2", (unsigned long)bytes);
  if (place.arena == NULL) return;
  const uint32_t end = place.offset + bytes;
  sim_lock();
  const uint32_t at = place.offset + run_length(place.arena, place.offset, end,
                                                SIM_DEFINED | SIM_WRITING, SIM_DEFINED);
  if (at < end) {
    if (place.arena->shadow[at] & SIM_WRITING)
      sim_conflict("tile reads", place.arena, at, file, line);
    const uint32_t run =
        run_length(place.arena, at, end, SIM_DEFINED | SIM_WRITING, 0);
    dory_sim_fault(file, line, "tile reads bytes of %s that nothing wrote: bytes %lu..%lu",
                   place.arena->name, (unsigned long)at, (unsigned long)(at + run - 1));
  }
  sim_unlock();
}

void sim_l1_keep(const void *ptr, uint32_t bytes, const char *file, int line) {
  if (bytes == 0) return;
  const sim_place_t place = sim_locate(ptr, bytes);
  if (!place.found || place.arena != &sim_l1)
    dory_sim_fault(file, line, "a layer finds %lu bytes outside L1", (unsigned long)bytes);
  dory_sim_read(ptr, bytes, file, line);
  sim_keep(place.offset, bytes);
}

/* Checks that no transfer in flight touches the range, then gives it a new shadow. */
static void redefine(const char *action, const void *ptr, uint32_t bytes, sim_shadow_t value,
                     int only_l2, const char *file, int line) {
  if (bytes == 0) return;
  const sim_place_t place = sim_locate(ptr, bytes);
  if (!place.found || !place.writable || (only_l2 && place.arena == &sim_l1))
    dory_sim_fault(file, line, "%s %lu bytes %s", action, (unsigned long)bytes,
                   place.found && !place.writable ? "of constants"
                   : only_l2                      ? "outside L2"
                                                  : "outside L1 and L2");
  if (place.arena == NULL) return;
  const uint32_t end = place.offset + bytes, meetings = sim_meetings();
  sim_lock();
  const uint32_t at = place.offset + run_length(place.arena, place.offset, end,
                                                SIM_WRITING | SIM_READERS, 0);
  if (at < end) sim_conflict(action, place.arena, at, file, line);
  shadow_set(place.arena, place.offset, bytes, value);
  if (value != 0) sim_allow(place.arena, place.offset, bytes, meetings);
  sim_unlock();
}

void dory_sim_write(const void *ptr, uint32_t bytes, const char *file, int line) {
  redefine("tile writes", ptr, bytes, SIM_DEFINED, 0, file, line);
}

void dory_sim_l2_define(const void *ptr, uint32_t bytes, const char *file, int line) {
  if (dory_core_id() != 0) return;
  redefine("the CPU writes", ptr, bytes, SIM_DEFINED, 1, file, line);
  sim_expect(sim_locate(ptr, bytes).arena, ptr, bytes);
}

void dory_sim_copy(void *to, const void *from, uint32_t bytes, const char *file, int line) {
  dory_sim_read(from, bytes, file, line);
  dory_sim_write(to, bytes, file, line);
  memcpy(to, from, bytes);
}

void dory_sim_l2_dead(void *ptr, uint32_t bytes, const char *file, int line) {
  if (bytes == 0 || dory_core_id() != 0) return;
  redefine("the network gives up", ptr, bytes, 0, 1, file, line);
  memset(ptr, SIM_POISON, bytes);
  sim_expect(sim_locate(ptr, bytes).arena, ptr, bytes);
}

void sim_l2_replaced(const void *ptr, uint32_t bytes, const char *file, int line) {
  const sim_place_t place = sim_locate(ptr, bytes);
  if (!place.found || place.arena == NULL || place.arena == &sim_l1)
    dory_sim_fault(file, line, "a part writes over %lu bytes outside L2", (unsigned long)bytes);
  sim_lock();
  for (uint32_t i = 0; i < bytes; ++i)
    if (place.arena->shadow[place.offset + i] & SIM_DEFINED)
      place.arena->shadow[place.offset + i] |= SIM_REPLACED;
  sim_unlock();
}

/* The bytes from `to` to the end of the source: the moved ones are at their start, the others dead. */
void dory_sim_move(void *to, const void *from, uint32_t bytes, const char *file, int line) {
  uint8_t *const start = to;
  const uint32_t span = (uint32_t)((const uint8_t *)from - start) + bytes;
  const sim_place_t source = sim_locate(from, bytes);
  sim_lock();
  const uint32_t written =
      source.arena == NULL ? bytes
                           : run_length(source.arena, source.offset, source.offset + bytes,
                                        SIM_DEFINED, SIM_DEFINED);
  sim_unlock();
  if (written < bytes)
    dory_sim_fault(file, line, "the CPU moves bytes of %s that nothing wrote, from byte %lu",
                   source.arena->name, (unsigned long)(source.offset + written));
  memmove(to, from, bytes);
  redefine("the CPU moves rows in", to, span, 0, 1, file, line);
  memset(start + bytes, SIM_POISON, span - bytes);
  redefine("the CPU moves rows to", to, bytes, SIM_DEFINED, 1, file, line);
  sim_expect(sim_locate(to, span).arena, to, span);
}
