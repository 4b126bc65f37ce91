/* Transfers in flight: what they claim, adversarial moments of the copy, tickets.
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

typedef struct {
  dory_ticket_t ticket; /* DORY_NO_TICKET: the slot is free */
  int32_t joined;       /* slot of the copy that joined before this one, -1: none */
  sim_move_t what;
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

static sim_shadow_t *shadow_of(const sim_arena_t *arena, const uint8_t *row) {
  return arena->shadow + (row - arena->base);
}

/* --- moving bytes --- */

static void move(transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->what.copy;
  const uint32_t bytes = sim_row_bytes(copy);
  dory_sim_l1_begin();
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      const uint8_t *const src = src_row(copy, row, plane);
      uint8_t *const dst = dst_row(copy, row, plane);
      if (bytes > 8)
        memcpy(dst, src, bytes);
      else
        for (uint32_t i = 0; i < bytes; ++i) dst[i] = src[i];
      sim_expect(transfer->what.dst_arena, dst, bytes);
    }
  }
  dory_sim_l1_end();
  transfer->done = 1;
}

/* A destination holds nothing useful while its transfer is in flight. */
static void poison_destination(const transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->what.copy;
  dory_sim_l1_begin();
  for (uint32_t plane = 0; plane < copy->n2; ++plane)
    for (uint32_t row = 0; row < copy->n1; ++row) {
      memset(dst_row(copy, row, plane), SIM_POISON, sim_row_bytes(copy));
      sim_expect(transfer->what.dst_arena, dst_row(copy, row, plane), sim_row_bytes(copy));
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
  const dory_copy_t *const copy = &transfer->what.copy;
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      const uint8_t *const start =
          destination ? dst_row(copy, row, plane) : src_row(copy, row, plane);
      if (address >= start && address < start + sim_row_bytes(copy)) return 1;
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
      const sim_move_t *const what = &other->what;
      if (other->ticket == 0 || (written ? what->dst_arena : what->src_arena) != arena) continue;
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
static uint32_t alignment_of(sim_link_t kind) {
  return kind == SIM_DMA ? sim_config.dma_align : sim_config.ext_align;
}

/* Bytes at the end of a transfer of one row that nothing wrote, fewer than the alignment: padding of
 * its block, up to which the length was rounded. What is read there counts as not written. */
static uint32_t padding_of(const transfer_t *transfer, const sim_shadow_t *shadow,
                           uint32_t bytes) {
  const uint32_t most = alignment_of(transfer->what.link) - 1;
  uint32_t padding = 0;
  if (transfer->what.copy.n1 != 1 || transfer->what.copy.n2 != 1) return 0;
  while (padding < most && padding + 1 < bytes &&
         (shadow[bytes - 1 - padding] & (SIM_DEFINED | SIM_WRITING)) == 0)
    ++padding;
  return padding;
}

static void claim_source(transfer_t *transfer, const uint8_t *row, uint32_t bytes,
                         const char *file, int line) {
  const sim_arena_t *const arena = transfer->what.src_arena;
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
  const sim_arena_t *const arena = transfer->what.dst_arena;
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
  const dory_copy_t *const copy = &transfer->what.copy;
  const uint32_t bytes = sim_row_bytes(copy);
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      if (transfer->what.src_arena)
        claim_source(transfer, src_row(copy, row, plane), bytes, file, line);
      if (transfer->what.dst_arena)
        claim_destination(transfer, dst_row(copy, row, plane), bytes, file, line);
    }
  }
}

/* The tile that is computed neither reads nor writes what a transfer writes meanwhile. */
static void meet_marks(const dory_copy_t *copy, const char *file, int line) {
  for (uint32_t plane = 0; plane < copy->n2; ++plane)
    for (uint32_t row = 0; row < copy->n1; ++row)
      sim_marks_meet(dst_row(copy, row, plane), sim_row_bytes(copy), file, line);
}

/* What byte i of a row counts as that a transfer brought. */
static sim_shadow_t brought(const transfer_t *transfer, const uint8_t *row, uint32_t i) {
  const int from_l3 = transfer->what.src_arena == &sim_l3;
  return from_l3 && row + i < sim_l3.base + sim_l3_image ? SIM_DEFINED | SIM_CONSTANT : SIM_DEFINED;
}

static void release(const transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->what.copy;
  const uint32_t bytes = sim_row_bytes(copy) - transfer->padding;
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      if (transfer->what.src_arena) {
        sim_shadow_t *const shadow =
            shadow_of(transfer->what.src_arena, src_row(copy, row, plane));
        for (uint32_t i = 0; i < bytes; ++i) shadow[i] = (sim_shadow_t)(shadow[i] - SIM_READER);
      }
      if (transfer->what.dst_arena) {
        uint8_t *const target = dst_row(copy, row, plane);
        sim_shadow_t *const shadow = shadow_of(transfer->what.dst_arena, target);
        for (uint32_t i = 0; i < bytes; ++i)
          shadow[i] = brought(transfer, src_row(copy, row, plane), i);
        for (uint32_t i = bytes; i < bytes + transfer->padding; ++i) shadow[i] = 0;
        if (transfer->padding > 0) {
          dory_sim_l1_begin();
          memset(target + bytes, SIM_POISON, transfer->padding);
          sim_expect(transfer->what.dst_arena, target + bytes, transfer->padding);
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
static dory_ticket_t launch(const sim_move_t *what, dory_ticket_t ticket, const char *file,
                            int line) {
  const uint32_t core = dory_core_id();
  transfer_t draft;
  memset(&draft, 0, sizeof draft);
  draft.what = *what;
  sim_progress();
  if (ticket == DORY_NO_TICKET && open_count[core] >= sim_config.dma_in_flight)
    dory_sim_fault(file, line, "core %lu has %lu transfers in flight, the limit",
                   (unsigned long)core, (unsigned long)open_count[core]);
  if (draft.what.link == SIM_DMA && !sim_has_met())
    dory_sim_fault(file, line, "a transfer starts before the barrier at which the layer begins: "
                   "other cores may still compute the layer before");
  draft.start.file = file;
  draft.start.line = line;
  sim_lock();
  const uint32_t slot = free_slot(core, file, line);
  claim(&draft, file, line);
  draft.tile = sim_current_tile();
  sim_count_transfer(draft.what.link == SIM_EXT ? SIM_EXTERNAL : sim_open_layer(),
                     sim_copy_bytes(&draft.what.copy));
  draft.joined = -1;
  if (ticket == DORY_NO_TICKET) {
    do serial = (serial + 1) & SERIAL_MASK;
    while (serial == 0);
    ticket = (dory_ticket_t)(serial << (SLOT_BITS + CORE_BITS) | core << SLOT_BITS | slot);
    if (draft.what.link == SIM_DMA) {
      if (sim_config.dma_tickets && tickets_open >= sim_config.dma_tickets)
        dory_sim_fault(file, line, "the cores have %lu tickets open, the DMA's limit",
                       (unsigned long)tickets_open);
      ++tickets_open;
      last_ticket[core] = ticket;
    }
  } else {
    transfer_t *const first = &transfers[core][(uint32_t)ticket & SLOT_MASK];
    draft.joined = first->joined;
    first->joined = (int32_t)slot;
  }
  draft.ticket = ticket;
  transfers[core][slot] = draft;
  if (slot >= used[core]) used[core] = slot + 1;
  sim_unlock();
  meet_marks(&draft.what.copy, file, line);
  if (((uint32_t)ticket & SLOT_MASK) == slot) ++open_count[core]; /* it joined none */
  if (sim_config.dma == DORY_SIM_EARLY)
    move(&transfers[core][slot]);
  else
    poison_destination(&draft);
  return ticket;
}

static void finish(dory_ticket_t ticket, sim_link_t kind, const char *file, int line) {
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
  if (transfer->what.link != kind)
    dory_sim_fault(file, line, "the ticket of a transfer between %s is given to %s",
                   kind == SIM_DMA ? "L3 and L2" : "L2 and L1",
                   kind == SIM_DMA ? "dory_dma_wait" : "dory_ext_wait");
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
  if (kind == SIM_DMA) {
    sim_lock();
    --tickets_open;
    sim_unlock();
  }
}

dory_ticket_t dory_sim_dma_start(const dory_copy_t *copy, const char *file, int line) {
  const sim_move_t what = sim_dma_move(copy, file, line);
  return launch(&what, DORY_NO_TICKET, file, line);
}

dory_ticket_t dory_sim_dma_join(dory_ticket_t ticket, const dory_copy_t *copy, const char *file,
                                int line) {
  const uint32_t core = dory_core_id();
  if (ticket != DORY_NO_TICKET && (ticket != last_ticket[core] ||
                                   ((uint32_t)ticket & SLOT_MASK) >= used[core] ||
                                   transfers[core][(uint32_t)ticket & SLOT_MASK].ticket != ticket))
    dory_sim_fault(file, line, "a copy joins ticket %ld, which is not the one core %lu took last",
                   (long)ticket, (unsigned long)core);
  const sim_move_t what = sim_dma_move(copy, file, line);
  return launch(&what, ticket, file, line);
}

dory_ticket_t dory_sim_ext_start(void *l2, uint32_t l3_offset, uint32_t bytes, int dir,
                                 const char *file, int line) {
  const sim_move_t what = sim_ext_move(l2, l3_offset, bytes, dir, file, line);
  return launch(&what, DORY_NO_TICKET, file, line);
}

void dory_sim_dma_wait(dory_ticket_t ticket, const char *file, int line) {
  finish(ticket, SIM_DMA, file, line);
}

void dory_sim_ext_wait(dory_ticket_t ticket, const char *file, int line) {
  finish(ticket, SIM_EXT, file, line);
}

/* Whether a transfer reads constants alone: of a table, or fetched from those in L3. */
static int reads_constants(const transfer_t *transfer) {
  const dory_copy_t *const copy = &transfer->what.copy;
  const uint32_t bytes = sim_row_bytes(copy) - transfer->padding;
  if (transfer->what.src_arena == NULL) return !sim_locate(copy->src, 1).writable;
  for (uint32_t plane = 0; plane < copy->n2; ++plane) {
    for (uint32_t row = 0; row < copy->n1; ++row) {
      const sim_shadow_t *const shadow =
          shadow_of(transfer->what.src_arena, src_row(copy, row, plane));
      for (uint32_t i = 0; i < bytes; ++i)
        if (!(shadow[i] & SIM_CONSTANT)) return 0;
    }
  }
  return 1;
}

dory_ticket_t dory_sim_ahead(dory_ticket_t ticket, const char *file, int line) {
  if (dory_core_id() != 0) return ticket;
  const uint32_t slot = (uint32_t)ticket & SLOT_MASK;
  if (slot >= used[0] || transfers[0][slot].ticket != ticket)
    dory_sim_fault(file, line, "ticket %ld for the next layer is not open", (long)ticket);
  for (int32_t next = (int32_t)slot; next >= 0; next = transfers[0][next].joined) {
    if (transfers[0][next].what.dst_arena != &sim_l1 || !reads_constants(&transfers[0][next]))
      dory_sim_fault(file, line,
                     "a transfer for the next layer brings no constants into L1");
    transfers[0][next].ahead = 1;
  }
  return ticket;
}

void sim_take_ahead(void) {
  for (uint32_t i = 0; i < used[0]; ++i) {
    transfer_t *const open = &transfers[0][i];
    if (open->ticket == 0 || !open->ahead) continue;
    open->ahead = 0;
    const dory_copy_t *const copy = &open->what.copy;
    /* rows of constants lie dense in L1 */
    sim_keep((uint32_t)((const uint8_t *)copy->dst - sim_l1.base),
             (uint32_t)sim_copy_bytes(copy));
  }
}

void sim_require_idle(int both_kinds, int ahead, const char *file, int line) {
  char text[160];
  sim_lock();
  for (uint32_t core = 0; core < sim_config.cores; ++core) {
    for (uint32_t i = 0; i < used[core]; ++i) {
      const transfer_t *const open = &transfers[core][i];
      if (open->ticket == 0 || (open->what.link == SIM_EXT && !both_kinds)) continue;
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
