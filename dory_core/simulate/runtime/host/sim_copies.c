/* Copies that are asked for: their arguments against what the links can do, and where they move. */
#include "sim_internal.h"

#include <string.h>

typedef struct {
  int64_t low, end; /* byte offsets from the base pointer: first byte and one past the last */
} box_t;

/* The smallest range that holds every row of one side. */
static box_t bounding_box(const dory_copy_t *copy, int32_t s1, int32_t s2) {
  const int64_t reach1 = (int64_t)(copy->n1 - 1) * s1, reach2 = (int64_t)(copy->n2 - 1) * s2;
  box_t box;
  box.low = (reach1 < 0 ? reach1 : 0) + (reach2 < 0 ? reach2 : 0);
  box.end = (reach1 > 0 ? reach1 : 0) + (reach2 > 0 ? reach2 : 0) + (int64_t)sim_row_bytes(copy);
  return box;
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

sim_move_t sim_dma_move(const dory_copy_t *copy, const char *file, int line) {
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
                   (unsigned long long)sim_copy_bytes(copy));
  if (sim_config.dma_dimensions && dimensions_of(copy) > sim_config.dma_dimensions)
    dory_sim_fault(file, line, "transfer of %lu dimensions, the DMA has %lu",
                   (unsigned long)dimensions_of(copy), (unsigned long)sim_config.dma_dimensions);
  if (sim_config.dma_max_bytes && sim_copy_bytes(copy) > sim_config.dma_max_bytes)
    dory_sim_fault(file, line, "transfer of %llu bytes, more than the limit of %lu",
                   (unsigned long long)sim_copy_bytes(copy),
                   (unsigned long)sim_config.dma_max_bytes);

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
  if (!rows_aligned(copy->dst, to.arena, copy->dst_s1, copy->dst_s2, copy) ||
      !rows_aligned(copy->src, from.arena, copy->src_s1, copy->src_s2, copy))
    dory_sim_fault(file, line, "rows of a transfer do not start on multiples of %lu bytes",
                   (unsigned long)sim_config.dma_align);
  if (sim_row_bytes(copy) % sim_config.dma_align)
    dory_sim_fault(file, line, "rows of a transfer have %lu bytes, no multiple of %lu",
                   (unsigned long)sim_row_bytes(copy), (unsigned long)sim_config.dma_align);
  const sim_move_t move = {SIM_DMA, *copy, to.arena, from.arena};
  return move;
}

sim_move_t sim_ext_move(void *l2, uint32_t l3_offset, uint32_t bytes, int dir, const char *file,
                        int line) {
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
  const int inbound = dir == DORY_L3_TO_L2;
  sim_move_t move;
  memset(&move, 0, sizeof move);
  move.link = SIM_EXT;
  move.copy.n0 = bytes;
  move.copy.n1 = move.copy.n2 = move.copy.elem = 1;
  move.copy.dst = inbound ? l2 : sim_l3.base + l3_offset;
  move.copy.src = inbound ? (const void *)(sim_l3.base + l3_offset) : l2;
  move.dst_arena = inbound ? place.arena : &sim_l3;
  move.src_arena = inbound ? &sim_l3 : place.arena;
  return move;
}
