/* Shared by the parts of the host simulation; nothing else includes it. It comes first in each of
 * them, because it asks the C library for POSIX and anonymous mappings. */
#ifndef DORY_SIM_INTERNAL_H
#define DORY_SIM_INTERNAL_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifdef __APPLE__
#define _DARWIN_C_SOURCE 1
#endif

#include <stddef.h>
#include <stdint.h>

#include "dory_hal.h"
#include "dory_io.h"
#include "dory_sim.h"

#if defined(__SANITIZE_THREAD__)
#define SIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIM_TSAN 1
#endif
#endif

#define SIM_POISON 0xA5

/* Shadow of one byte of an arena: is it defined, does a transfer in flight write it, was it fetched
 * from the constants in L3, may it be written over, and how many transfers in flight read it. */
typedef uint16_t sim_shadow_t;
#define SIM_DEFINED 1u
#define SIM_WRITING 2u
#define SIM_CONSTANT 4u
#define SIM_REPLACED 8u
#define SIM_READER 16u
#define SIM_READERS 0xFFF0u

typedef struct {
  const char *name;
  uint8_t *base;           /* first byte, aligned to DORY_ARENA_ALIGN */
  uint32_t size;           /* exact */
  uint8_t *front, *back;   /* canaries: [front, base) and [base + size, back) */
  uint8_t *map, *map_end;  /* everything mapped, guard pages included */
  sim_shadow_t *shadow;    /* size entries; NULL for memory that is not followed */
  uint8_t *expected;       /* size bytes: what the arena shall hold; NULL where nobody compares */
} sim_arena_t;

/* Where a range of addresses lies. */
typedef struct {
  sim_arena_t *arena; /* NULL: in a constant table, the input or the output */
  uint32_t offset;    /* in the arena */
  int found;
  int writable;
} sim_place_t;

typedef struct {
  const char *file;
  int line;
} sim_source_t;

extern dory_sim_config_t sim_config;
/* Memories in which kernels and transfers find data: L1 first, then those of L2. */
#define SIM_MEMORIES (2 + DORY_SIM_MAX_MORE_L2)
extern sim_arena_t sim_memories[SIM_MEMORIES];
extern uint32_t sim_memory_count;
#define sim_l1 (sim_memories[0])
extern sim_arena_t sim_l3;
extern uint32_t sim_l3_image; /* bytes of L3 that the image fills; nobody writes there */
extern uint32_t sim_l3_end;   /* one past the last byte of L3 that a run wrote */

/* --- sim_memory.c --- */
/* 1 when the byte holds a tensor of L2 that something wrote and nothing gave up. */
int sim_has_owner(const sim_arena_t *arena, uint32_t offset);
sim_place_t sim_locate(const void *ptr, uint64_t bytes);
void sim_check_canaries(const char *file, int line);
void sim_forget_arenas(void);   /* nothing counts as written but the image of L3 */
void sim_poison_l1(void);       /* and nothing in it counts as written, but what is kept */
void sim_keep(uint32_t offset, uint32_t bytes); /* these bytes of L1, when a layer begins next */
/* The same of bytes that the layer says it finds. */
void sim_l1_keep(const void *ptr, uint32_t bytes, const char *file, int line);
/* The part of a layer that runs next writes over these bytes of L2. */
void sim_l2_replaced(const void *ptr, uint32_t bytes, const char *file, int line);
/* Finds the arena whose guard pages or canaries hold the address; NULL if none. */
const sim_arena_t *sim_guarding(const void *address);

/* --- sim_owners.c --- */
/* What lies there now is what shall lie there. arena: NULL for memory that is not followed. */
void sim_expect(const sim_arena_t *arena, const void *from, uint32_t bytes);
void sim_expect_all(void); /* of every memory */
/* A kernel may write these bytes until the cores have met again. Called with the lock. */
void sim_allow(sim_arena_t *arena, uint32_t offset, uint32_t bytes, uint32_t meetings);
/* Every core has ended its kernel, and what it wrote is checked: none writes any longer. */
void sim_end_writes(void);
/* Faults when L1, or any memory, holds what nobody was to write there. Core 0 calls it where every
 * core that writes has said so before. */
void sim_check_owners(int also_l2);
/* The same of L1, while every core stands at a barrier; it may be one in a kernel, which goes on to
 * write what it may write. */
void sim_check_at_barrier(void);

/* --- sim_marks.c --- */
/* Forgets what core 0 has declared; until the next call the marks are those of a tile, or of none.
 * meetings: after how many meetings of the cores the kernel of the tile has ended at the earliest. */
void sim_marks_begin(int tile, uint32_t meetings);
/* A transfer that writes these bytes has started: a fault where the kernel reads or writes them. */
void sim_marks_meet(const uint8_t *base, uint32_t bytes, const char *file, int line);
/* What the kernel does in the tile. */
void sim_marks_add(const dory_sim_mark_t *marks, size_t count, const char *file, int line);

/* --- sim_copies.c --- */
typedef enum { SIM_DMA, SIM_EXT } sim_link_t; /* between L2 and L1, between L3 and L2 */
/* A copy that may start. dst_arena, src_arena: NULL for memory that is not followed. */
typedef struct {
  sim_link_t link;
  dory_copy_t copy; /* one row over SIM_EXT */
  sim_arena_t *dst_arena, *src_arena;
} sim_move_t;
static inline uint32_t sim_row_bytes(const dory_copy_t *copy) { return copy->n0 * copy->elem; }
static inline uint64_t sim_copy_bytes(const dory_copy_t *copy) {
  return (uint64_t)sim_row_bytes(copy) * copy->n1 * copy->n2;
}
/* Fault where the link does not make the copy, or it lies in no memory. */
sim_move_t sim_dma_move(const dory_copy_t *copy, const char *file, int line);
sim_move_t sim_ext_move(void *l2, uint32_t l3_offset, uint32_t bytes, int dir, const char *file,
                        int line);

/* --- sim_transfer.c --- */
/* Advances transfers of the calling core in random mode. */
void sim_progress(void);
void sim_transfers_reset(void);
/* Faults when a transfer is in flight; of L2 <-> L1 only, or of both kinds. ahead: but for those
 * that the next layer waits for. */
void sim_require_idle(int both_kinds, int ahead, const char *file, int line);
/* The next layer begins: it waits for what is on its way for it, which stays in L1. */
void sim_take_ahead(void);
/* Faults, naming the transfer in flight that writes (or reads) the byte. Called with the lock. */
void sim_conflict(const char *action, const sim_arena_t *arena, uint32_t offset,
                  const char *file, int line);

/* --- sim_cores.c --- */
uint32_t sim_meetings(void); /* how often all cores met at a barrier */
void sim_part(void);         /* a layer begins: the others may still compute the one before */
int sim_has_met(void);       /* whether this core has come to a barrier since */
/* The lock of all bookkeeping. ThreadSanitizer does not see it, nor what is read and written
 * under it: it must not order the program under test. */
void sim_lock(void);
void sim_unlock(void);

/* --- sim_counts.c --- */
#define SIM_EXTERNAL (-2) /* in place of a layer: between L3 and L2 */
void sim_counts_reset(void);
void sim_count_call(int layer);                       /* with the lock */
void sim_count_transfer(int layer, uint64_t bytes);   /* with the lock */

/* --- sim_report.c --- */
void sim_report_init(void);
void sim_report_reset(void);    /* no layer yet */
int32_t sim_current_tile(void);
int sim_current_layer(void);    /* -1 before the first */
int sim_open_layer(void);       /* -1 between layers, and behind the last */
void sim_meet(void);            /* every core is at a barrier; called before one goes on */
const char *sim_basename(const char *path);

/* --- sim_refusals.c --- */
/* Faults unless the network refuses arguments that are wrong in one thing. io: right ones, with
 * sizes that just suffice. input, output: whether the caller hands it over. more: further memories
 * of L2. */
void sim_check_refusals(int (*run)(void *), const dory_network_io_t *io, int input, int output,
                        uint32_t more);

#endif
