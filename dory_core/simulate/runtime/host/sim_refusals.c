/* The arguments that a network has to refuse, each wrong in one thing, before it touches memory; and
 * callers without rows, at which it has to end. */
#include "sim_internal.h"

static void expect(int (*run)(void *), const dory_network_io_t *io, int wanted, const char *what) {
  dory_network_io_t copy;
  if (io != NULL) copy = *io, copy.on_layer = NULL;
  const int result = dory_sim_run(run, io != NULL ? &copy : NULL);
  if (result != wanted)
    dory_sim_fault(NULL, 0, "dory_network_run returns %d for %s, not %d", result, what, wanted);
}

static int no_next(void *user, uint32_t input, void *dst, uint32_t first, uint32_t rows) {
  (void)user, (void)input, (void)dst, (void)first, (void)rows;
  return 1;
}

static int no_put(void *user, uint32_t output, const void *src, uint32_t first, uint32_t rows) {
  (void)user, (void)output, (void)src, (void)first, (void)rows;
  return -1;
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
  if (io->next_rows != NULL) {
    REFUSED(next_rows, NULL, DORY_EINVAL, "nobody who has rows");
    REFUSED(next_rows, no_next, DORY_EROWS, "rows that do not come");
  }
  if (io->put_rows != NULL) REFUSED(put_rows, NULL, DORY_EINVAL, "nobody who takes rows");
  if (io->put_rows != NULL)
    REFUSED(put_rows, no_put, DORY_EROWS, "rows that nobody takes");
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
