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

#define DORY_SIMULATION 1

#define dory_dma_start(copy) dory_sim_dma_start((copy), __FILE__, __LINE__)
#define dory_dma_join(ticket, copy) dory_sim_dma_join((ticket), (copy), __FILE__, __LINE__)
#define dory_dma_wait(ticket) dory_sim_dma_wait((ticket), __FILE__, __LINE__)
#define dory_ext_start(l2, l3_offset, bytes, dir) \
  dory_sim_ext_start((l2), (l3_offset), (bytes), (dir), __FILE__, __LINE__)
#define dory_ext_wait(ticket) dory_sim_ext_wait((ticket), __FILE__, __LINE__)
#define dory_barrier() dory_sim_barrier(__FILE__, __LINE__)

#define DORY_AHEAD(ticket) dory_sim_ahead((ticket), __FILE__, __LINE__)
#define DORY_SIM_LAYER(index, name) dory_sim_layer((index), (name), NULL, 0, __FILE__, __LINE__)
#define DORY_SIM_LAYER_FINDS(index, name, ...) \
  dory_sim_layer((index), (name), DORY_MARKS_(__VA_ARGS__), __FILE__, __LINE__)
#define DORY_SIM_LAYER_END() dory_sim_layer_end(__FILE__, __LINE__)
#define DORY_SIM_TILE(number, ...) \
  dory_sim_tile((int32_t)(number), 0, DORY_MARKS_(__VA_ARGS__), __FILE__, __LINE__)
#define DORY_SIM_SHARED_TILE(number, ...) \
  dory_sim_tile((int32_t)(number), 1, DORY_MARKS_(__VA_ARGS__), __FILE__, __LINE__)
#define DORY_FINDS(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_KEPT}
#define DORY_READS(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_READS}
#define DORY_UPDATES(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_SUMS}
#define DORY_WRITES(ptr, bytes) {(ptr), (uint32_t)(bytes), DORY_MARK_WRITES}
#define DORY_MARKS_(...) \
  (const dory_sim_mark_t[]){__VA_ARGS__}, \
      sizeof((const dory_sim_mark_t[]){__VA_ARGS__}) / sizeof(dory_sim_mark_t)
#define DORY_SIM_READ(ptr, bytes) dory_sim_tile_reads((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_SUMS(ptr, bytes) dory_sim_read((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_WRITE(ptr, bytes) \
  dory_sim_tile_writes((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_COPY(dst, src, bytes) \
  (dory_sim_read((src), (uint32_t)(bytes), __FILE__, __LINE__), \
   dory_sim_write((dst), (uint32_t)(bytes), __FILE__, __LINE__))
#define DORY_SIM_CONVERT(dst, dst_bytes, src, src_bytes) \
  dory_sim_convert((dst), (dst_bytes), (src), (src_bytes), __FILE__, __LINE__)
#define DORY_SIM_UNDEFINED(ptr, bytes) ((void)memset((ptr), 0xA5, (bytes)))
#define DORY_SIM_L2_DEFINE(ptr, bytes) \
  dory_sim_l2_define((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_L2_DEAD(ptr, bytes) dory_sim_l2_dead((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_L2_REPLACED(ptr, bytes) \
  dory_sim_l2_replaced((ptr), (uint32_t)(bytes), __FILE__, __LINE__)
#define DORY_SIM_L2_MOVED(to, from, bytes) \
  dory_sim_l2_moved((to), (from), (uint32_t)(bytes), __FILE__, __LINE__)

/* Bytes that a layer finds in L1, or that a kernel reads and writes. */
typedef enum { DORY_MARK_KEPT, DORY_MARK_READS, DORY_MARK_SUMS, DORY_MARK_WRITES } dory_mark_kind_t;
typedef struct {
  const void *ptr;
  uint32_t bytes;
  dory_mark_kind_t kind;
} dory_sim_mark_t;

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
/* What the kernel does in the tile. met: the cores have met and may compute it already. */
void dory_sim_tile(int32_t tile, int met, const dory_sim_mark_t *marks, size_t count,
                   const char *file, int line);
void dory_sim_convert(const void *dst, uint32_t dst_bytes, const void *src, uint32_t src_bytes,
                      const char *file, int line);
void dory_sim_tile_reads(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_tile_writes(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_read(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_write(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_l2_define(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_l2_dead(void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_l2_replaced(const void *ptr, uint32_t bytes, const char *file, int line);
void dory_sim_l2_moved(void *to, const void *from, uint32_t bytes, const char *file, int line);

#endif
