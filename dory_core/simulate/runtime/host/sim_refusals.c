/* The arguments that a network has to refuse, each wrong in one thing, before it touches memory. */
#include "sim_internal.h"

static void expect(int (*run)(void *), const dory_network_io_t *io, int wanted, const char *what) {
  dory_network_io_t copy;
  if (io != NULL) copy = *io, copy.on_layer = NULL;
  const int result = dory_sim_run(run, io != NULL ? &copy : NULL);
  if (result != wanted)
    dory_sim_fault(NULL, 0, "dory_network_run returns %d for %s, not %d", result, what, wanted);
}

void sim_check_refusals(int (*run)(void *), const dory_network_io_t *io, int input, int output,
                        uint32_t more) {
  dory_network_io_t wrong;
  expect(run, NULL, DORY_EINVAL, "no arguments");
#define REFUSED(field, value, status, what) \
  (wrong = *io, wrong.field = (value), expect(run, &wrong, status, what))
  REFUSED(l1, NULL, DORY_EINVAL, "no L1");
  REFUSED(l2, NULL, DORY_EINVAL, "no L2");
  if (input) REFUSED(input, NULL, DORY_EINVAL, "no input");
  if (output) REFUSED(output, NULL, DORY_EINVAL, "no output");
  if (io->l1_size > 0) REFUSED(l1_size, io->l1_size - 1, DORY_EL1, "an L1 that is too small");
  if (io->l2_size > 0) REFUSED(l2_size, io->l2_size - 1, DORY_EL2, "an L2 that is too small");
  REFUSED(l1, (uint8_t *)io->l1 + 1, DORY_EALIGN, "an L1 that is not aligned");
  REFUSED(l2, (uint8_t *)io->l2 + 1, DORY_EALIGN, "an L2 that is not aligned");
  if (more == 0) return;
  REFUSED(l2_more, NULL, DORY_EINVAL, "no further memories");
  dory_memory_t memories[DORY_SIM_MAX_MORE_L2];
#define REFUSED_MEMORY(field, value, status, what)                         \
  do {                                                                     \
    for (uint32_t i = 0; i < more; ++i) memories[i] = io->l2_more[i];      \
    memories[k].field = (value);                                           \
    REFUSED(l2_more, memories, status, what);                              \
  } while (0)
  for (uint32_t k = 0; k < more; ++k) {
    REFUSED_MEMORY(base, NULL, DORY_EINVAL, "a further memory without address");
    REFUSED_MEMORY(base, (uint8_t *)io->l2_more[k].base + 1, DORY_EALIGN,
                   "a further memory that is not aligned");
    if (io->l2_more[k].size > 0)
      REFUSED_MEMORY(size, io->l2_more[k].size - 1, DORY_EL2,
                     "a further memory that is too small");
  }
}
