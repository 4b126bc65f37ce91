/* What network.c does with L2: inputs that come, bytes that are not read again, conversions. */
#include "sim_internal.h"

static const dory_sim_network_t *network;
static uint32_t ended, next_dead, converted;
static int given;

void dory_sim_network(const dory_sim_network_t *run) {
  if (dory_core_id() != 0) return;
  network = run;
  ended = next_dead = converted = 0;
  given = 0;
}

static void give(const char *file, int line) {
  if (given) return;
  given = 1;
  for (uint32_t i = 0; i < network->given_count; ++i) {
    const dory_sim_range_t *const range = &network->given[i];
    dory_sim_l2_define(sim_memories[range->memory].base + range->offset, range->bytes, file, line);
  }
}

void dory_sim_given(const char *file, int line) {
  if (dory_core_id() != 0) return;
  if (network != NULL && !network->has_events && !given) dory_sim_event(0, file, line);
}

void dory_sim_event(uint32_t number, const char *file, int line) {
  if (dory_core_id() != 0) return;
  if (number >= network->given_at) give(file, line);
  for (; next_dead < network->dead_count && network->dead[next_dead].event <= number; ++next_dead) {
    const dory_sim_dead_t *const dead = &network->dead[next_dead];
    uint8_t *const place = sim_memories[dead->memory].base + dead->offset;
    if (dead->over)
      sim_l2_replaced(place, dead->bytes, file, line);
    else
      dory_sim_l2_dead(place, dead->bytes, file, line);
  }
}

void dory_sim_ended(const char *file, int line) {
  if (dory_core_id() != 0 || network->has_events) return;
  dory_sim_event(++ended, file, line);
}

void dory_sim_convert(const void *dst, const void *src, const char *file, int line) {
  if (dory_core_id() != 0) return;
  dory_sim_given(file, line);
  const dory_sim_conversion_t *const one = &network->conversions[converted++];
  dory_sim_read(src, one->src_bytes, file, line);
  dory_sim_write(dst, one->dst_bytes, file, line);
}
