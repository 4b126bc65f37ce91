/* Host simulation of the HAL, as generated code and kernels see it.
 *
 * Included by dory_hal.h. Every call that can fail carries its place in the source, so that a fault
 * is reported as layer, tile and line.
 */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define dory_dma_start(copy) dory_sim_dma_start((copy), __FILE__, __LINE__)
#define dory_dma_join(ticket, copy) dory_sim_dma_join((ticket), (copy), __FILE__, __LINE__)
#define dory_dma_wait(ticket) dory_sim_dma_wait((ticket), __FILE__, __LINE__)
#define dory_ext_start(l2, l3_offset, bytes, dir) \
  dory_sim_ext_start((l2), (l3_offset), (bytes), (dir), __FILE__, __LINE__)
#define dory_ext_wait(ticket) dory_sim_ext_wait((ticket), __FILE__, __LINE__)
#define dory_barrier() dory_sim_barrier(__FILE__, __LINE__)

/* Where cores move bytes, the simulation follows them. */
#define DORY_AHEAD(ticket) dory_sim_ahead((ticket), __FILE__, __LINE__)
#define DORY_MOVE(dst, src, bytes) dory_sim_move((dst), (src), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_COPY_BYTES(dst, src, bytes) \
  dory_sim_copy((dst), (src), (uint32_t)(bytes), __FILE__, __LINE__)

/* What code tells the simulation. Shipped sources hold none of it: hal/host/marks/ adds it to them.
 * Every core comes to these marks, core 0 makes them. */

/* A layer begins: poisons L1 except what it finds there and what was loaded for it, and checks that no
 * other transfer to or from L1 is in flight, and that none starts before the next barrier. */
#define DORY_SIM_LAYER(index, name) dory_sim_layer((index), (name), NULL, 0, __FILE__, __LINE__)
/* The same of a layer that finds bytes in L1 where an earlier one wrote them: DORY_FINDS(ptr, bytes). */
#define DORY_SIM_LAYER_FINDS(index, name, ...) \
  dory_sim_layer((index), (name), DORY_MARKS_(__VA_ARGS__), __FILE__, __LINE__)
/* The layer has ended, if one has begun: every transfer to or from L1 was waited for except one for
 * the next layer, and nothing but transfers and declared writes changed L1. */
#define DORY_SIM_LAYER_END() dory_sim_layer_end(__FILE__, __LINE__)
/* The cores have met, and begin to compute the tile with this number; the tile before changed nothing
 * in L1 that it did not declare. Then what the kernel does, separated by commas:
 *   DORY_READS(ptr, bytes)    All bytes were written since the layer began (L1) or since they last
 *                             died (L2), and no transfer in flight writes them.
 *   DORY_UPDATES(ptr, bytes)  The same of sums that the kernel adds to, and then writes.
 *   DORY_WRITES(ptr, bytes)   No transfer in flight reads or writes them, and the kernel neither reads
 *                             them in this tile nor writes them as another buffer. */
#define DORY_SIM_TILE(number, ...) \
  dory_sim_tile((int32_t)(number), DORY_MARKS_(__VA_ARGS__), __FILE__, __LINE__)
#define DORY_FINDS(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_KEPT}
#define DORY_READS(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_READS}
#define DORY_UPDATES(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_SUMS}
#define DORY_WRITES(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_WRITES}
#define DORY_MARKS_(...) \
  (const dory_sim_mark_t[]){__VA_ARGS__}, \
      sizeof((const dory_sim_mark_t[]){__VA_ARGS__}) / sizeof(dory_sim_mark_t)
/* The same three in code that is written by hand, apart from the declaration of the tile. */
#define DORY_SIM_READ(ptr, bytes) dory_sim_tile_reads((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_SUMS(ptr, bytes) dory_sim_read((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_WRITE(ptr, bytes) \
  dory_sim_tile_writes((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
/* The CPU wrote these bytes of the L2 arena. */
#define DORY_SIM_L2_DEFINE(ptr, bytes) \
  dory_sim_l2_define((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
/* Nobody reads these bytes of the L2 arena again before somebody writes them. */
#define DORY_SIM_L2_DEAD(ptr, bytes) dory_sim_l2_dead((ptr), (uint32_t)(bytes), __FILE__, __LINE__)

/* Bytes that a layer finds in L1, or that a kernel reads and writes. */
typedef enum { DORY_MARK_KEPT, DORY_MARK_READS, DORY_MARK_SUMS, DORY_MARK_WRITES } dory_mark_kind_t;
typedef struct {
  const void *ptr;
  uint32_t bytes;
  dory_mark_kind_t kind;
} dory_sim_mark_t;

/* A layer. */
typedef struct {
  int layer;
  const char *name;
} dory_sim_name_t;

dory_ticket_t dory_sim_dma_start(const dory_copy_t *copy, const char *file, int line);
dory_ticket_t dory_sim_dma_join(dory_ticket_t ticket, const dory_copy_t *copy, const char *file,
                                int line);
void dory_sim_dma_wait(dory_ticket_t ticket, const char *file, int line);
dory_ticket_t dory_sim_ext_start(void *l2, uint32_t l3_offset, uint32_t bytes, int dir,
                                 const char *file, int line);
void dory_sim_ext_wait(dory_ticket_t ticket, const char *file, int line);
void dory_sim_barrier(const char *file, int line);

/* What the layer finds in L1; kept may be NULL. */
void dory_sim_layer(int index, const char *name, const dory_sim_mark_t *kept, size_t count,
                    const char *file, int line);
dory_ticket_t dory_sim_ahead(dory_ticket_t ticket, const char *file, int line);
void dory_sim_layer_end(const char *file, int line);
/* What the kernel does in the tile. */
void dory_sim_tile(int32_t tile, const dory_sim_mark_t *marks, size_t count, const char *file,
                   int line);
void dory_sim_tile_reads(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_tile_writes(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_read(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_write(const void *ptr, uint32_t bytes, const char *file, int line);
/* A core copies bytes: what holds for a kernel holds for it, tiles apart. */
void dory_sim_copy(void *to, const void *from, uint32_t bytes, const char *file, int line);
void dory_sim_l2_define(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_l2_dead(void *ptr, uint32_t bytes, const char *file, int line);
/* Moves bytes of an arena towards its start. What lay between is not read again. */
void dory_sim_move(void *to, const void *from, uint32_t bytes, const char *file, int line);

/* What network.c does with L2. */

/* Bytes of a memory of L2, from 1. */
typedef struct {
  uint8_t memory;
  uint32_t offset, bytes;
} dory_sim_range_t;
/* Bytes that nobody reads again from an event on; where `over` is 1, nobody but the part that runs
 * next, which writes over them. */
typedef struct {
  uint32_t event;
  uint8_t memory, over;
  uint32_t offset, bytes;
} dory_sim_dead_t;
/* Bytes of a tensor before and after a conversion of its layout. */
typedef struct {
  uint32_t src_bytes, dst_bytes;
} dory_sim_conversion_t;
/* given: inputs and state, from an event on. conversions: in order. dead: by events. Events are those of
 * dory_events.h where the network has a table of them (has_events), else the ends of layers and
 * conversions, from 1. */
typedef struct {
  const dory_sim_range_t *given;
  uint32_t given_count, given_at;
  const dory_sim_conversion_t *conversions;
  const dory_sim_dead_t *dead;
  uint32_t dead_count;
  int has_events;
} dory_sim_network_t;

/* A run begins. */
void dory_sim_network(const dory_sim_network_t *network);
/* A layer begins, or its output is reported: inputs and state are there. */
void dory_sim_given(const char *file, int line);
/* The event with this number is about to happen. */
void dory_sim_event(uint32_t number, const char *file, int line);
/* A layer, or a conversion, has ended. */
void dory_sim_ended(const char *file, int line);
/* The cores are about to convert the layout of a tensor. */
void dory_sim_convert(const void *dst, const void *src, const char *file, int line);

#endif
