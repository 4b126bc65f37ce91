/* Copies of all shapes through the HAL of the chip, on the model of its DMA.
 *
 *   driver            random copies on all cores, compared byte by byte; 0 when all are right
 *   driver shapes     prints the commands of a few shapes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dory_hal.h"
#include "model.h"

enum { CORES = DORY_GAP8_CORES, ROUNDS = 60, OPEN = 6, AREA = 7680 / OPEN };

static uint8_t l2[CORES][OPEN][8 * AREA];
static uint32_t state[CORES];

static uint32_t below(uint32_t core, uint32_t limit)
{
  state[core] = state[core] * 1664525u + 1013904223u;
  return (state[core] >> 8) % limit;
}

static void fill(uint32_t core, uint8_t *data, uint32_t bytes)
{
  for (uint32_t i = 0; i < bytes; i++) data[i] = (uint8_t)below(core, 256);
}

/* A copy between an area of L1 and one of L2; rows do not overlap. */
static dory_copy_t random_copy(uint32_t core, uint8_t *l1, uint8_t *other)
{
  dory_copy_t copy;
  copy.elem = (uint8_t)(1u << below(core, 3));
  copy.n0 = 1 + below(core, 12);
  copy.n1 = 1 + below(core, 5);
  copy.n2 = 1 + below(core, 4);
  const int32_t row = (int32_t)(copy.n0 * copy.elem);
  const int32_t l1_row = row + (int32_t)(below(core, 4) == 0 ? below(core, 5) : 0);
  const int32_t l1_plane =
      l1_row * (int32_t)copy.n1 + (int32_t)(below(core, 4) == 0 ? below(core, 5) : 0);
  const int32_t l2_row = row + (int32_t)(below(core, 3) ? below(core, 60) : 0);
  const int32_t l2_plane =
      l2_row * (int32_t)copy.n1 + (int32_t)(below(core, 3) ? below(core, 90) : 0);
  copy.dir = (uint8_t)below(core, 2);
  const int load = copy.dir == DORY_L2_TO_L1;
  copy.dst = load ? l1 : other;
  copy.src = load ? other : l1;
  copy.dst_s1 = load ? l1_row : l2_row;
  copy.dst_s2 = load ? l1_plane : l2_plane;
  copy.src_s1 = load ? l2_row : l1_row;
  copy.src_s2 = load ? l2_plane : l1_plane;
  return copy;
}

static void reference(const dory_copy_t *copy, uint8_t *dst, const uint8_t *src)
{
  for (uint32_t plane = 0; plane < copy->n2; plane++)
    for (uint32_t row = 0; row < copy->n1; row++)
      memcpy(dst + (int32_t)plane * copy->dst_s2 + (int32_t)row * copy->dst_s1,
             src + (int32_t)plane * copy->src_s2 + (int32_t)row * copy->src_s1,
             copy->n0 * copy->elem);
}

/* What a core that works on several copies at once keeps of each of them. */
typedef struct {
  dory_copy_t copy;
  uint8_t l1[AREA], l2[8 * AREA]; /* as they have to be */
  dory_ticket_t ticket;
} work_t;

static work_t works[CORES][OPEN];

static void run_round(uint32_t core, uint32_t open, int joined)
{
  uint8_t *const mine = model_l1 + core * 7680;
  for (uint32_t k = 0; k < open; k++) {
    work_t *const work = &works[core][k];
    uint8_t *const near = mine + k * AREA;
    fill(core, near, AREA);
    fill(core, l2[core][k], sizeof l2[core][k]);
    memcpy(work->l1, near, sizeof work->l1);
    memcpy(work->l2, l2[core][k], sizeof work->l2);
    work->copy = random_copy(core, near, l2[core][k]);
    if (work->copy.dir == DORY_L2_TO_L1)
      reference(&work->copy, work->l1, work->l2);
    else
      reference(&work->copy, work->l2, work->l1);
    if (joined)
      work->ticket = dory_dma_join(k == 0 ? DORY_NO_TICKET : work[-1].ticket, &work->copy);
    else
      work->ticket = dory_dma_start(&work->copy);
    if (work->ticket == DORY_NO_TICKET) model_fail("a start gives no ticket");
    memset(&work->copy, 0xEE, sizeof work->copy); /* the descriptor may be reused at once */
  }
  for (uint32_t k = open; k-- > 0;) {
    work_t *const work = &works[core][k];
    if (!joined || k == 0) dory_dma_wait(work->ticket);
  }
  for (uint32_t k = 0; k < open; k++) {
    const work_t *const work = &works[core][k];
    if (memcmp(work->l1, mine + k * AREA, sizeof work->l1) != 0 ||
        memcmp(work->l2, l2[core][k], sizeof work->l2) != 0)
      model_fail("a copy moved other bytes than it says");
  }
}

/* Moves towards the start, by fewer bytes than they have or by more. */
static void moves(uint32_t core)
{
  static uint8_t moved[5000], expected[5000];
  for (uint32_t round = 0; round < ROUNDS; round++) {
    const uint32_t bytes = 1 + below(core, 2400), to = below(core, 100);
    const uint32_t from = to + 1 + below(core, round % 2 ? 2400 : 40);
    fill(core, moved, sizeof moved);
    memcpy(expected, moved, sizeof moved);
    memmove(expected + to, expected + from, bytes);
    DORY_MOVE(moved + to, moved + from, bytes);
    if (memcmp(moved, expected, sizeof moved) != 0) model_fail("a move left other bytes");
  }
}

/* More tickets one after the other than there are counters; core 0 has several open at once. */
static void copies(void *unused)
{
  const uint32_t core = dory_core_id();
  (void)unused;
  if (dory_core_count() != CORES) model_fail("the number of cores is wrong");
  state[core] = core + 1;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    run_round(core, core == 0 ? OPEN : 1, 0);
    run_round(core, OPEN, 1);
    dory_barrier();
  }
  if (core == 0) moves(core);
}

static void show(const char *name, dory_copy_t copy)
{
  const uint32_t first = model_command_count;
  dory_dma_wait(dory_dma_start(&copy));
  printf("%s:", name);
  for (uint32_t i = first; i < model_command_count; i++)
    printf(" %u/%u/%u", (unsigned)model_commands[i].bytes, (unsigned)model_commands[i].row,
           (unsigned)model_commands[i].stride);
  printf("\n");
}

static uint8_t far[5 * 40000];

static void shapes(void *unused)
{
  uint8_t *const l1 = model_l1;
  (void)unused;
  if (dory_core_id() != 0) return;
  show("row", (dory_copy_t){l1, far, 100, 1, 1, 0, 0, 0, 0, 1, DORY_L2_TO_L1});
  show("rows", (dory_copy_t){l1, far, 20, 5, 1, 20, 0, 64, 0, 1, DORY_L2_TO_L1});
  show("whole rows", (dory_copy_t){l1, far, 20, 5, 1, 20, 0, 20, 0, 1, DORY_L2_TO_L1});
  show("planes", (dory_copy_t){far, l1, 4, 3, 2, 64, 512, 4, 12, 1, DORY_L1_TO_L2});
  show("planes that continue", (dory_copy_t){l1, far, 4, 3, 2, 4, 12, 64, 192, 1, DORY_L2_TO_L1});
  show("channel", (dory_copy_t){l1, far, 1, 6, 4, 1, 6, 16, 96, 1, DORY_L2_TO_L1});
  show("part of a channel", (dory_copy_t){l1, far, 1, 5, 2, 1, 5, 16, 96, 1, DORY_L2_TO_L1});
  show("16 bits", (dory_copy_t){l1, far, 1, 3, 1, 2, 0, 8, 0, 2, DORY_L2_TO_L1});
  show("room in L1", (dory_copy_t){l1, far, 8, 2, 2, 10, 30, 8, 16, 1, DORY_L2_TO_L1});
  show("far apart", (dory_copy_t){l1, far, 8, 3, 1, 8, 0, 40000, 0, 1, DORY_L2_TO_L1});
}

int main(int argc, char **argv)
{
  model_run(CORES, argc > 1 && strcmp(argv[1], "shapes") == 0 ? shapes : copies, NULL);
  model_finish();
  return 0;
}
