/* Outputs from sums of products. */
#ifndef DORY_CORTEX_M55_FINISH_H
#define DORY_CORTEX_M55_FINISH_H

#include "dory_cortex_m55_requant.h"

/* Outputs of ``count`` channels of some pixels, which are ``y_step`` bytes apart; their sums, in whole
 * eights, are ``pitch`` apart. The first channel is a multiple of 8. */
typedef struct {
  uint8_t *y;
  const int32_t *sums;
  uint32_t channel, count, pixels, pitch, y_step;
  uint32_t bytes; /* of an output */
} dory_cortex_m55_outputs_t;

/* Writes outputs of one pixel or more. */
void dory_cortex_m55_finish(const dory_cortex_m55_requant_t *a, const dory_cortex_m55_outputs_t *all);

#endif
