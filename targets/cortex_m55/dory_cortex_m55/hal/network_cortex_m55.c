/* Arenas of network @TITLE@ and its call. */
#include "@PREFIX@_cortex_m55.h"

#include "dory_hal.h"
#include "network.h"

#ifndef DORY_L1_SECTION
#define DORY_L1_SECTION ".dory_l1"
#endif
#ifndef DORY_L2_SECTION
#define DORY_L2_SECTION ".dory_l2"
#endif

#define ARENA(section_) __attribute__((section(section_), aligned(32)))
/* No object has no bytes. */
#define ROOM(bytes_) ((bytes_) > 0u ? (bytes_) : 1u)

/* Loads of kernels go on behind their last operand, to the end of a vector or two. */
#define OVERRUN 32u

/* What is used of each memory; the rest is the program's. Nothing in them has a first value. */
static uint8_t l1_arena[ROOM(DORY_L1_USED) + OVERRUN] ARENA(DORY_L1_SECTION);
static uint8_t l2_arena[ROOM(DORY_L2_USED)] ARENA(DORY_L2_SECTION);

int @PREFIX@_cortex_m55_run_io(const dory_network_io_t *given)
{
  dory_network_io_t io = *given;
  io.l1 = l1_arena;
  io.l2 = l2_arena;
  io.l1_size = sizeof l1_arena - OVERRUN;
  io.l2_size = sizeof l2_arena;
  return @PREFIX@_network_run(&io);
}

int @PREFIX@_cortex_m55_run(const void *input, void *output)
{
  const dory_network_io_t io = {.input = input, .output = output};
  return @PREFIX@_cortex_m55_run_io(&io);
}
