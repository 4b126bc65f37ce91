/* One tile on the host simulation with the model behind the driver calls. The argument says which
 * rule to break: none, width, weights, host, early, barrier. */
#include <stdio.h>
#include <string.h>

#include "dory_diana_driver.h"
#include "dory_hal.h"
#include "dory_sim.h"
#include "network.h"

enum { X_BYTES = 16 * 2 * 16, Y = 4096 };

static const char *broken;
static uint32_t weights[(16 * 16 + 64) / 4];
static uint8_t output[X_BYTES];

static int is(const char *what) { return strcmp(broken, what) == 0; }

static void copy(void *dst, const void *src, uint8_t dir)
{
  const dory_copy_t c = {dst, src, X_BYTES, 1, 1, 0, 0, 0, 0, 1, dir};
  dory_dma_wait(dory_dma_start(&c));
}

static int layer(void *unused)
{
  (void)unused;
  uint8_t *const l1 = dory_sim_l1(), *const l2 = dory_sim_l2();
  memset(l2, 1, X_BYTES);
  DORY_SIM_L2_DEFINE(l2, X_BYTES);
  DORY_SIM_LAYER(3, "block.conv");
  if (!is("early")) copy(l1, l2, DORY_L2_TO_L1);
  DORY_SIM_TILE(0, DORY_READS(l2, X_BYTES));
  Layer_parameters p = {.c = 16, .k = 16, .cx = is("width") ? 20 : 16, .cy = 2, .fx = 1, .fy = 1,
                        .ox = 16, .oy = 2, .dilation = 1};
  const uintptr_t w = (uintptr_t)weights + (is("weights") ? 64 : 0);
  if (is("host")) l1[5] = 1; /* the host does not reach L1 */
  digital_conv_2d((uintptr_t)l2, dory_diana_l1(l1), w, 0, dory_diana_l1(l1 + Y), &p);
  if (!is("barrier")) dory_cores_barrier_digital();
  copy(output, l1 + Y, DORY_L1_TO_L2);
  DORY_SIM_LAYER_END();
  return 0;
}

int main(int argc, char **argv)
{
  const dory_sim_config_t config = {.cores = 1, .l1_size = DORY_L1_SIZE, .l2_size = 65536};
  broken = argc > 1 ? argv[1] : "none";
  memset(weights, 0x01, sizeof weights - 64);
  dory_sim_open(&config);
  dory_sim_const(weights, sizeof weights);
  dory_sim_mutable(output, sizeof output);
  dory_sim_run(layer, NULL);
  printf("%d %d\n", output[0], output[X_BYTES - 1]);
  return 0;
}
