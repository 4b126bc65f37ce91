/* Functions of one byte by a table. */
#ifndef DORY_CORTEX_M55_LUT_H
#define DORY_CORTEX_M55_LUT_H

#include <stdint.h>

/* y[i] = table[x[i]] for bytes without a sign, table of 256. */
void dory_cortex_m55_lut(const uint8_t *x, uint8_t *y, const uint8_t *table, uint32_t count);
/* The same with numbers of 32 bits. */
void dory_cortex_m55_lut_words(const uint8_t *x, int32_t *y, const int32_t *table, uint32_t count);

#endif
