/* Transfers in flight: checks at their start, adversarial moments of the copy, tickets.
 *
 * A core copies only its own transfers, inside its own calls, and outside the lock: a kernel on
 * another core that touches the same bytes without a barrier in between stays a race that
 * ThreadSanitizer sees. */
#include "sim_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 14
#define CORE_BITS 5
#define SLOT_MASK ((1 << SLOT_BITS) - 1)
#define CORE_MASK ((1 << CORE_BITS) - 1)
#define SERIAL_MASK 0xFFF

typedef enum { KIND_DMA, KIND_EXT } kind_t;

typedef struct {
  dory_ticket_t ticket; /* DORY_NO_TICKET: the slot is free */
  int32_t joined;       /* slot of the copy that joined before this one, -1: none */
  kind_t kind;
  dory_copy_t copy;                       /* an external transfer is one row */
  sim_arena_t *dst_arena, *src_arena;     /* NULL: not followed */
  uint32_t padding;                       /* last bytes of the row that nothing wrote */
  int done;                               /* the bytes have moved; its own core's affair */
  int ahead;                              /* the next layer waits for it; its own core's affair */
  sim_source_t start;
  int32_t tile;
} transfer_t;

/* Of each core: its transfers, how many there is room for, and one more than the last in use. The
 * core alone touches its own, and others under the lock. */
static transfer_t *transfers[DORY_SIM_MAX_CORES];
static uint32_t room[DORY_SIM_MAX_CORES], used[DORY_SIM_MAX_CORES];
static uint32_t first_free[DORY_SIM_MAX_CORES]; /* no slot below is free */
static uint32_t open_count[DORY_SIM_MAX_CORES]; /* tickets of each core, touched by it alone */
static dory_ticket_t last_ticket[DORY_SIM_MAX_CORES]; /* that each core took for a copy */
static uint32_t tickets_open; /* between L2 and L1, of all cores */
static uint64_t random_state[DORY_SIM_MAX_CORES];
static uint32_t serial;

typedef struct {
  int64_t low, end; /* byte offsets from the base pointer: first byte and one past the last */
} box_t;

static uint32_t row_bytes(const dory_copy_t *copy) { return copy->n0 * copy->elem; }

static uint64_t copy_bytes(const dory_copy_t *copy) {
  return (uint64_t)row_bytes(copy) * copy->n1 * copy->n2;
}

/* The smallest range that holds every row of one side. */
static box_t bounding_box(const dory_copy_t *copy, int32_t s1, int32_t s2) {
  const int64_t reach1 = (int64_t)(copy->n1 - 1) * s1, reach2 = (int64_t)(copy->n2 - 1) * s2;
  box_t box;
  box.low = (reach1 < 0 ? reach1 : 0) + (reach2 < 0 ? reach2 : 0);
  box.end = (reach1 > 0 ? reach1 : 0) + (reach2 > 0 ? reach2 : 0) + (int64_t)row_bytes(copy);
  return box;
}

static const uint8_t *row_of(const void *base, int32_t s1, int32_t s2, uint32_t row,
                             uint32_t plane) {
  return (const uint8_t *)base + (int64_t)plane * s2 + (int64_t)row * s1;
}

static const uint8_t *src_row(const dory_copy_t *copy, uint32_t row, uint32_t plane) {
  return row_of(copy->src, copy->src_s1, copy->src_s2, row, plane);
}

static uint8_t *dst_row(const dory_copy_t *copy, uint32_t row, uint32_t plane) {
  return (uint8_t *)copy->dst + (int64_t)plane * copy->dst_s2 + (int64_t)row * copy->dst_s1;
}

/* --- moving bytes --- */

static void move(transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->copy;
  const uint32_t bytes = row_bytes(copy);
  dory_sim_l1_begin();
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      const uint8_t *const src = src_row(copy, row, plane);
      uint8_t *const dst = dst_row(copy, row, plane);
      if (bytes > 8)
        memcpy(dst, src, bytes);
      else
        for (uint32_t i = 0; i < bytes; ++i) dst[i] = src[i];
      sim_expect(transfer->dst_arena, dst, bytes);
    }
  }
  dory_sim_l1_end();
  transfer->done = 1;
}

/* A destination holds nothing useful while its transfer is in flight. */
static void poison_destination(const transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->copy;
  dory_sim_l1_begin();
  for (uint32_t plane = 0; plane < copy->n2; ++plane)
    for (uint32_t row = 0; row < copy->n1; ++row) {
      memset(dst_row(copy, row, plane), SIM_POISON, row_bytes(copy));
      sim_expect(transfer->dst_arena, dst_row(copy, row, plane), row_bytes(copy));
    }
  dory_sim_l1_end();
}

static uint32_t random_below(uint32_t core, uint32_t limit) {
  uint64_t x = random_state[core];
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  random_state[core] = x;
  return (uint32_t)(x >> 33) % limit;
}

static void *grown(void *memory, size_t bytes) {
  memory = realloc(memory, bytes);
  if (memory == NULL) dory_sim_fault(NULL, 0, "no memory for transfers in flight");
  return memory;
}

void sim_progress(void) {
  const uint32_t core = dory_core_id();
  if (sim_config.dma != DORY_SIM_RANDOM || open_count[core] == 0) return;
  static uint32_t *lists[DORY_SIM_MAX_CORES], lengths[DORY_SIM_MAX_CORES];
  if (lengths[core] < used[core]) {
    lengths[core] = room[core];
    lists[core] = grown(lists[core], lengths[core] * sizeof *lists[core]);
  }
  uint32_t *const pending = lists[core];
  uint32_t count = 0;
  for (uint32_t i = 0; i < used[core]; ++i)
    if (transfers[core][i].ticket != 0 && !transfers[core][i].done)
      pending[count++] = i;
  while (count > 0) {
    const uint32_t pick = random_below(core, count);
    if (random_below(core, 2)) move(&transfers[core][pending[pick]]);
    pending[pick] = pending[--count];
  }
}

/* --- shadow --- */

/* True when the address lies in a row of the side of the transfer. */
static int covers(const transfer_t *transfer, int destination, const uint8_t *address) {
  const dory_copy_t *const copy = &transfer->copy;
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      const uint8_t *const start =
          destination ? dst_row(copy, row, plane) : src_row(copy, row, plane);
      if (address >= start && address < start + row_bytes(copy)) return 1;
    }
  }
  return 0;
}

/* Where and when a transfer was started, for messages. */
static const char *start_of(const transfer_t *transfer, char text[160]) {
  const char *const file = sim_basename(transfer->start.file);
  if (transfer->tile < 0)
    snprintf(text, 160, "%.100s:%d before the first tile", file, transfer->start.line);
  else
    snprintf(text, 160, "%.100s:%d during tile %ld", file, transfer->start.line,
             (long)transfer->tile);
  return text;
}

void sim_conflict(const char *action, const sim_arena_t *arena, uint32_t offset,
                  const char *file, int line) {
  const int written = (arena->shadow[offset] & SIM_WRITING) != 0;
  char text[160];
  for (uint32_t core = 0; core < sim_config.cores; ++core) {
    for (uint32_t i = 0; i < used[core]; ++i) {
      const transfer_t *const other = &transfers[core][i];
      if (other->ticket == 0 || (written ? other->dst_arena : other->src_arena) != arena) continue;
      if (covers(other, written, arena->base + offset))
        dory_sim_fault(file, line,
                       "%s byte %lu of %s while the transfer started at %s, not yet waited for, "
                       "%s it",
                       action, (unsigned long)offset, arena->name, start_of(other, text),
                       written ? "writes" : "reads");
    }
  }
  dory_sim_fault(file, line, "%s byte %lu of %s twice: its rows overlap", action,
                 (unsigned long)offset, arena->name);
}

/* The alignment of starts and lengths of a kind of transfers. */
static uint32_t alignment_of(kind_t kind) {
  return kind == KIND_DMA ? sim_config.dma_align : sim_config.ext_align;
}

/* Bytes at the end of a transfer of one row that nothing wrote, fewer than the alignment: padding of
 * its block, up to which the length was rounded. What is read there counts as not written. */
static uint32_t padding_of(const transfer_t *transfer, const sim_shadow_t *shadow,
                           uint32_t bytes) {
  const uint32_t most = alignment_of(transfer->kind) - 1;
  uint32_t padding = 0;
  if (transfer->copy.n1 != 1 || transfer->copy.n2 != 1) return 0;
  while (padding < most && padding + 1 < bytes &&
         (shadow[bytes - 1 - padding] & (SIM_DEFINED | SIM_WRITING)) == 0)
    ++padding;
  return padding;
}

static void claim_source(transfer_t *transfer, const uint8_t *row, uint32_t bytes,
                         const char *file, int line) {
  const sim_arena_t *const arena = transfer->src_arena;
  const uint32_t offset = (uint32_t)(row - arena->base);
  sim_shadow_t *const shadow = arena->shadow + offset;
  transfer->padding = padding_of(transfer, shadow, bytes);
  bytes -= transfer->padding;
  for (uint32_t i = 0; i < bytes; ++i) {
    if ((shadow[i] & (SIM_DEFINED | SIM_WRITING)) != SIM_DEFINED) {
      if (shadow[i] & SIM_WRITING)
        sim_conflict("transfer reads", arena, offset + i, file, line);
      uint32_t end = i;
      while (end < bytes && (shadow[end] & (SIM_DEFINED | SIM_WRITING)) == 0) ++end;
      dory_sim_fault(file, line, "transfer reads %s bytes %lu..%lu that nothing wrote",
                     arena->name, (unsigned long)(offset + i), (unsigned long)(offset + end - 1));
    }
    if ((shadow[i] & SIM_READERS) == SIM_READERS)
      dory_sim_fault(file, line, "too many transfers read byte %lu of %s at once",
                     (unsigned long)(offset + i), arena->name);
    shadow[i] = (sim_shadow_t)(shadow[i] + SIM_READER);
  }
}

static void claim_destination(const transfer_t *transfer, const uint8_t *row, uint32_t bytes,
                              const char *file, int line) {
  const sim_arena_t *const arena = transfer->dst_arena;
  const uint32_t offset = (uint32_t)(row - arena->base);
  sim_shadow_t *const shadow = arena->shadow + offset;
  for (uint32_t i = 0; i < bytes; ++i) {
    if (shadow[i] & (SIM_WRITING | SIM_READERS))
      sim_conflict("transfer writes", arena, offset + i, file, line);
    if (sim_has_owner(arena, offset + i))
      dory_sim_fault(file, line, "transfer writes byte %lu of %s, which holds a live tensor",
                     (unsigned long)(offset + i), arena->name);
    shadow[i] = SIM_WRITING;
  }
}

static void claim(transfer_t *transfer, const char *file, int line) {
  const dory_copy_t *const copy = &transfer->copy;
  const uint32_t bytes = row_bytes(copy);
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      if (transfer->src_arena)
        claim_source(transfer, src_row(copy, row, plane), bytes, file, line);
      if (transfer->dst_arena)
        claim_destination(transfer, dst_row(copy, row, plane), bytes, file, line);
    }
  }
}

/* What byte i of a row counts as that a transfer brought. */
static sim_shadow_t brought(const transfer_t *transfer, const uint8_t *row, uint32_t i) {
  const int constant = transfer->src_arena == &sim_l3 && row + i < sim_l3.base + sim_l3_image;
  return constant ? SIM_DEFINED | SIM_CONSTANT : SIM_DEFINED;
}

static void release(const transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->copy;
  const uint32_t bytes = row_bytes(copy) - transfer->padding;
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      if (transfer->src_arena) {
        sim_shadow_t *const shadow =
            transfer->src_arena->shadow + (src_row(copy, row, plane) - transfer->src_arena->base);
        for (uint32_t i = 0; i < bytes; ++i) shadow[i] = (sim_shadow_t)(shadow[i] - SIM_READER);
      }
      if (transfer->dst_arena) {
        sim_shadow_t *const shadow =
            transfer->dst_arena->shadow + (dst_row(copy, row, plane) - transfer->dst_arena->base);
        for (uint32_t i = 0; i < bytes; ++i)
          shadow[i] = brought(transfer, src_row(copy, row, plane), i);
        for (uint32_t i = bytes; i < bytes + transfer->padding; ++i) shadow[i] = 0;
        if (transfer->padding > 0) {
          dory_sim_l1_begin();
          memset(dst_row(copy, row, plane) + bytes, SIM_POISON, transfer->padding);
          sim_expect(transfer->dst_arena, dst_row(copy, row, plane) + bytes, transfer->padding);
          dory_sim_l1_end();
        }
      }
    }
  }
}

/* --- start and wait --- */

/* Returns a free slot of a core. Called with the lock. */
static uint32_t free_slot(uint32_t core, const char *file, int line) {
  uint32_t slot = first_free[core];
  while (slot < used[core] && transfers[core][slot].ticket != DORY_NO_TICKET) ++slot;
  if (slot > SLOT_MASK)
    dory_sim_fault(file, line, "core %lu has %lu transfers in flight, which cannot be simulated",
                   (unsigned long)core, (unsigned long)slot);
  if (slot >= room[core]) {
    room[core] = room[core] ? 2 * room[core] : 64;
    transfers[core] = grown(transfers[core], room[core] * sizeof **transfers);
  }
  first_free[core] = slot + 1;
  return slot;
}

/* Starts a transfer. ticket: the one that it joins, DORY_NO_TICKET for one of its own. */
static dory_ticket_t launch(transfer_t *draft, dory_ticket_t ticket, const char *file, int line) {
  const uint32_t core = dory_core_id();
  sim_progress();
  if (ticket == DORY_NO_TICKET && open_count[core] >= sim_config.dma_in_flight)
    dory_sim_fault(file, line, "core %lu has %lu transfers in flight, the limit",
                   (unsigned long)core, (unsigned long)open_count[core]);
  if (draft->kind == KIND_DMA && !sim_has_met())
    dory_sim_fault(file, line, "a transfer starts before the barrier at which the layer begins: "
                   "other cores may still compute the layer before");
  draft->done = draft->ahead = 0;
  draft->start.file = file;
  draft->start.line = line;
  sim_lock();
  const uint32_t slot = free_slot(core, file, line);
  claim(draft, file, line);
  draft->tile = sim_current_tile();
  sim_count_transfer(draft->kind == KIND_EXT ? SIM_EXTERNAL : sim_current_layer(),
                     copy_bytes(&draft->copy));
  draft->joined = -1;
  if (ticket == DORY_NO_TICKET) {
    do serial = (serial + 1) & SERIAL_MASK;
    while (serial == 0);
    ticket = (dory_ticket_t)(serial << (SLOT_BITS + CORE_BITS) | core << SLOT_BITS | slot);
    if (draft->kind == KIND_DMA) {
      if (sim_config.dma_tickets && tickets_open >= sim_config.dma_tickets)
        dory_sim_fault(file, line, "the cores have %lu tickets open, the DMA's limit",
                       (unsigned long)tickets_open);
      ++tickets_open;
      last_ticket[core] = ticket;
    }
  } else {
    transfer_t *const first = &transfers[core][(uint32_t)ticket & SLOT_MASK];
    draft->joined = first->joined;
    first->joined = (int32_t)slot;
  }
  draft->ticket = ticket;
  transfers[core][slot] = *draft;
  if (slot >= used[core]) used[core] = slot + 1;
  sim_unlock();
  if (((uint32_t)ticket & SLOT_MASK) == slot) ++open_count[core]; /* it joined none */
  if (sim_config.dma == DORY_SIM_EARLY)
    move(&transfers[core][slot]);
  else
    poison_destination(draft);
  return ticket;
}

static void finish(dory_ticket_t ticket, kind_t kind, const char *file, int line) {
  const uint32_t core = dory_core_id();
  const uint32_t owner = (uint32_t)ticket >> SLOT_BITS & CORE_MASK;
  const uint32_t slot = (uint32_t)ticket & SLOT_MASK;
  if (ticket <= 0 || owner >= sim_config.cores)
    dory_sim_fault(file, line, "wait for %ld, which is no ticket", (long)ticket);
  if (owner != core)
    dory_sim_fault(file, line, "core %lu waits for a transfer that core %lu started",
                   (unsigned long)core, (unsigned long)owner);
  if (slot >= used[core] || transfers[core][slot].ticket != ticket)
    dory_sim_fault(file, line, "the transfer of ticket %ld was already waited for", (long)ticket);
  transfer_t *transfer = &transfers[core][slot];
  if (transfer->kind != kind)
    dory_sim_fault(file, line, "the ticket of a transfer between %s is given to %s",
                   kind == KIND_DMA ? "L3 and L2" : "L2 and L1",
                   kind == KIND_DMA ? "dory_dma_wait" : "dory_ext_wait");
  sim_progress();
  for (int32_t next = (int32_t)slot; next >= 0;) {
    transfer = &transfers[core][next];
    const uint32_t here = (uint32_t)(transfer - transfers[core]);
    next = transfer->joined;
    if (!transfer->done) move(transfer);
    sim_lock();
    release(transfer);
    transfer->ticket = DORY_NO_TICKET;
    if (here < first_free[core]) first_free[core] = here;
    while (used[core] > 0 && transfers[core][used[core] - 1].ticket == DORY_NO_TICKET)
      --used[core];
    sim_unlock();
  }
  --open_count[core];
  if (kind == KIND_DMA) {
    sim_lock();
    --tickets_open;
    sim_unlock();
  }
}

static int rows_aligned(const void *base, const sim_arena_t *arena, int32_t s1, int32_t s2,
                        const dory_copy_t *copy) {
  const uintptr_t address = (uintptr_t)base - (arena ? (uintptr_t)arena->base : 0);
  const int64_t align = (int64_t)sim_config.dma_align;
  return address % (uintptr_t)align == 0 && (copy->n1 == 1 || s1 % align == 0) &&
         (copy->n2 == 1 || s2 % align == 0);
}

static uint32_t dimensions_of(const dory_copy_t *copy) {
  return copy->n2 > 1 ? 3 : copy->n1 > 1 ? 2 : 1;
}

static dory_ticket_t start_copy(dory_ticket_t ticket, const dory_copy_t *copy, const char *file,
                                int line) {
  transfer_t draft;
  memset(&draft, 0, sizeof draft);
  draft.kind = KIND_DMA;
  draft.copy = *copy;
  if (dory_core_id() != 0 && !sim_config.dma_each_core)
    dory_sim_fault(file, line, "core %lu starts a transfer; only core 0 may",
                   (unsigned long)dory_core_id());
  if (copy->n0 == 0 || copy->n1 == 0 || copy->n2 == 0 || copy->elem == 0)
    dory_sim_fault(file, line, "empty transfer: %lu planes of %lu rows of %lu elements of %u bytes",
                   (unsigned long)copy->n2, (unsigned long)copy->n1, (unsigned long)copy->n0,
                   (unsigned)copy->elem);
  if (copy->dir != DORY_L2_TO_L1 && copy->dir != DORY_L1_TO_L2)
    dory_sim_fault(file, line, "transfer in unknown direction %u", (unsigned)copy->dir);
  if (sim_config.dma_none)
    dory_sim_fault(file, line, "transfer of %llu bytes, but there is no DMA between L2 and L1",
                   (unsigned long long)copy_bytes(copy));
  if (sim_config.dma_dimensions && dimensions_of(copy) > sim_config.dma_dimensions)
    dory_sim_fault(file, line, "transfer of %lu dimensions, the DMA has %lu",
                   (unsigned long)dimensions_of(copy), (unsigned long)sim_config.dma_dimensions);
  if (sim_config.dma_max_bytes && copy_bytes(copy) > sim_config.dma_max_bytes)
    dory_sim_fault(file, line, "transfer of %llu bytes, more than the limit of %lu",
                   (unsigned long long)copy_bytes(copy), (unsigned long)sim_config.dma_max_bytes);

  const int inbound = copy->dir == DORY_L2_TO_L1;
  const box_t dst = bounding_box(copy, copy->dst_s1, copy->dst_s2);
  const box_t src = bounding_box(copy, copy->src_s1, copy->src_s2);
  const sim_place_t to =
      sim_locate((const void *)((uintptr_t)copy->dst + (uintptr_t)dst.low),
                 (uint64_t)(dst.end - dst.low));
  const sim_place_t from =
      sim_locate((const void *)((uintptr_t)copy->src + (uintptr_t)src.low),
                 (uint64_t)(src.end - src.low));
  if (!to.found || (to.arena == &sim_l1) != inbound)
    dory_sim_fault(file, line, "destination of a transfer of %lld bytes does not lie inside %s",
                   (long long)(dst.end - dst.low), inbound ? "L1" : "L2");
  if (!from.found || (from.arena == &sim_l1) == inbound)
    dory_sim_fault(file, line, "source of a transfer of %lld bytes does not lie inside %s",
                   (long long)(src.end - src.low), inbound ? "L2" : "L1");
  if (!to.writable) dory_sim_fault(file, line, "transfer writes to constants");
  draft.dst_arena = to.arena;
  draft.src_arena = from.arena;
  if (!rows_aligned(copy->dst, to.arena, copy->dst_s1, copy->dst_s2, copy) ||
      !rows_aligned(copy->src, from.arena, copy->src_s1, copy->src_s2, copy))
    dory_sim_fault(file, line, "rows of a transfer do not start on multiples of %lu bytes",
                   (unsigned long)sim_config.dma_align);
  if (row_bytes(copy) % sim_config.dma_align)
    dory_sim_fault(file, line, "rows of a transfer have %lu bytes, no multiple of %lu",
                   (unsigned long)row_bytes(copy), (unsigned long)sim_config.dma_align);
  return launch(&draft, ticket, file, line);
}

dory_ticket_t dory_sim_dma_start(const dory_copy_t *copy, const char *file, int line) {
  return start_copy(DORY_NO_TICKET, copy, file, line);
}

dory_ticket_t dory_sim_dma_join(dory_ticket_t ticket, const dory_copy_t *copy, const char *file,
                                int line) {
  const uint32_t core = dory_core_id();
  if (ticket != DORY_NO_TICKET && (ticket != last_ticket[core] ||
                                   ((uint32_t)ticket & SLOT_MASK) >= used[core] ||
                                   transfers[core][(uint32_t)ticket & SLOT_MASK].ticket != ticket))
    dory_sim_fault(file, line, "a copy joins ticket %ld, which is not the one core %lu took last",
                   (long)ticket, (unsigned long)core);
  return start_copy(ticket, copy, file, line);
}

dory_ticket_t dory_sim_ext_start(void *l2, uint32_t l3_offset, uint32_t bytes, int dir,
                                 const char *file, int line) {
  if (dory_core_id() != 0)
    dory_sim_fault(file, line, "core %lu starts an L3 transfer; only core 0 may",
                   (unsigned long)dory_core_id());
  if (bytes == 0) dory_sim_fault(file, line, "empty transfer between L3 and L2");
  if (dir != DORY_L3_TO_L2 && dir != DORY_L2_TO_L3)
    dory_sim_fault(file, line, "L3 transfer in unknown direction %d", dir);
  if (sim_config.ext_max_bytes && bytes > sim_config.ext_max_bytes)
    dory_sim_fault(file, line, "L3 transfer of %lu bytes, more than the limit of %lu",
                   (unsigned long)bytes, (unsigned long)sim_config.ext_max_bytes);
  if (l3_offset > sim_l3.size || bytes > sim_l3.size - l3_offset)
    dory_sim_fault(file, line, "transfer of L3 bytes %lu..%lu, outside L3 of %lu bytes",
                   (unsigned long)l3_offset, (unsigned long)l3_offset + bytes - 1,
                   (unsigned long)sim_l3.size);
  if (dir == DORY_L2_TO_L3) {
    if (l3_offset < sim_l3_image)
      dory_sim_fault(file, line, "transfer writes L3 byte %lu, part of the weights",
                     (unsigned long)l3_offset);
    if (l3_offset + bytes > sim_l3_end) sim_l3_end = l3_offset + bytes;
  }
  const sim_place_t place = sim_locate(l2, bytes);
  if ((place.arena == NULL || place.arena == &sim_l1) &&
      (!place.found || place.arena == &sim_l1 || (dir == DORY_L3_TO_L2 && !place.writable)))
    dory_sim_fault(file, line, "L3 transfer of %lu bytes does not lie inside L2",
                   (unsigned long)bytes);
  const uint32_t align = sim_config.ext_align;
  const uintptr_t address = place.arena ? place.offset : (uintptr_t)l2;
  if (address % align || l3_offset % align || bytes % align)
    dory_sim_fault(file, line,
                   "address, offset or length of an L3 transfer is no multiple of %lu bytes",
                   (unsigned long)align);
  transfer_t draft;
  memset(&draft, 0, sizeof draft);
  draft.kind = KIND_EXT;
  draft.copy.n0 = bytes;
  draft.copy.n1 = draft.copy.n2 = draft.copy.elem = 1;
  draft.copy.dst = dir == DORY_L3_TO_L2 ? l2 : sim_l3.base + l3_offset;
  draft.copy.src = dir == DORY_L3_TO_L2 ? (const void *)(sim_l3.base + l3_offset) : l2;
  draft.dst_arena = dir == DORY_L3_TO_L2 ? place.arena : &sim_l3;
  draft.src_arena = dir == DORY_L3_TO_L2 ? &sim_l3 : place.arena;
  return launch(&draft, DORY_NO_TICKET, file, line);
}

void dory_sim_dma_wait(dory_ticket_t ticket, const char *file, int line) {
  finish(ticket, KIND_DMA, file, line);
}

void dory_sim_ext_wait(dory_ticket_t ticket, const char *file, int line) {
  finish(ticket, KIND_EXT, file, line);
}

/* Whether a transfer reads constants alone: of a table, or fetched from those in L3. */
static int reads_constants(const transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->copy;
  const uint32_t bytes = row_bytes(copy) - transfer->padding;
  if (transfer->src_arena == NULL) return !sim_locate(copy->src, 1).writable;
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      const sim_shadow_t *const shadow =
          transfer->src_arena->shadow + (src_row(copy, row, plane) - transfer->src_arena->base);
      for (uint32_t i = 0; i < bytes; ++i)
        if (!(shadow[i] & SIM_CONSTANT)) return 0;
    }
  }
  return 1;
}

void dory_sim_ahead(dory_ticket_t ticket, const char *file, int line) {
  if (dory_core_id() != 0) return;
  const uint32_t slot = (uint32_t)ticket & SLOT_MASK;
  if (slot >= used[0] || transfers[0][slot].ticket != ticket)
    dory_sim_fault(file, line, "ticket %ld for the next layer or part is not open", (long)ticket);
  for (int32_t next = (int32_t)slot; next >= 0; next = transfers[0][next].joined) {
    if (transfers[0][next].dst_arena != &sim_l1 || !reads_constants(&transfers[0][next]))
      dory_sim_fault(file, line,
                     "a transfer for the next layer or part brings no constants into L1");
    transfers[0][next].ahead = 1;
  }
}

void sim_take_ahead(void) {
  for (uint32_t i = 0; i < used[0]; ++i) {
    transfer_t *const open = &transfers[0][i];
    if (open->ticket == 0 || !open->ahead) continue;
    open->ahead = 0;
    sim_keep((uint32_t)((const uint8_t *)open->copy.dst - sim_l1.base), row_bytes(&open->copy));
  }
}

void sim_require_idle(int both_kinds, int ahead, const char *file, int line) {
  char text[160];
  sim_lock();
  for (uint32_t core = 0; core < sim_config.cores; ++core) {
    for (uint32_t i = 0; i < used[core]; ++i) {
      const transfer_t *const open = &transfers[core][i];
      if (open->ticket == 0 || (open->kind == KIND_EXT && !both_kinds)) continue;
      if (ahead && open->ahead) continue;
      dory_sim_fault(file, line,
                     "the transfer started at %s by core %lu was never waited for",
                     start_of(open, text), (unsigned long)core);
    }
  }
  sim_unlock();
}

void sim_transfers_reset(void) {
  for (uint32_t core = 0; core < DORY_SIM_MAX_CORES; ++core)
    random_state[core] =
        (sim_config.seed + 1) * 0x9E3779B97F4A7C15u + (core + 1) * 0xD1B54A32D192ED03u;
}

/* The functions behind the macros, for code that takes their address. */
dory_ticket_t (dory_dma_start)(const dory_copy_t *copy) {
  return dory_sim_dma_start(copy, NULL, 0);
}
dory_ticket_t (dory_dma_join)(dory_ticket_t ticket, const dory_copy_t *copy) {
  return dory_sim_dma_join(ticket, copy, NULL, 0);
}
void (dory_dma_wait)(dory_ticket_t ticket) { dory_sim_dma_wait(ticket, NULL, 0); }
dory_ticket_t (dory_ext_start)(void *l2, uint32_t l3_offset, uint32_t bytes, int dir) {
  return dory_sim_ext_start(l2, l3_offset, bytes, dir, NULL, 0);
}
void (dory_ext_wait)(dory_ticket_t ticket) { dory_sim_ext_wait(ticket, NULL, 0); }
