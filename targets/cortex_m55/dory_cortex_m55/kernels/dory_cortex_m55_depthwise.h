/* Depthwise convolutions of bytes, one filter per channel. */
#ifndef DORY_CORTEX_M55_DEPTHWISE_H
#define DORY_CORTEX_M55_DEPTHWISE_H

#include <stdint.h>

#include "dory_cortex_m55_requant.h"

/* Rows are computed one after another or two at once; where x is higher than wide they are its columns.
 * Four taps, one below the other, are a word. Words of a window: ``planes`` of them for each of its
 * columns, 1, 2 or a multiple of 4; four of them are multiplied by an instruction. Weights beyond a byte
 * are the sum of two, whose vectors follow each other.
 *
 * Of inputs of 16 bits both bytes are multiplied as channels of their own, the lower one as less by 128,
 * and the sums of the upper one count 256 times. */
typedef struct {
  const uint8_t *x;      /* x_h rows of x_w pixels of c channels */
  uint8_t *y;            /* y_h rows of y_w pixels */
  uint8_t *scratch;      /* as dory_cortex_m55_depthwise.c says */
  const int8_t *weights; /* [c in eights][vectors][4 words], channels in the order of
                          * dory_cortex_m55_requant.h: columns, the planes of each; else 0 */
  uint32_t x_h, x_w, y_h, y_w, c;
  uint32_t x_bytes, y_bytes; /* of an element */
  uint32_t x_row, x_column, y_row, y_column; /* bytes from a row or a pixel to the next */
  int32_t pad_top, pad_left;
  uint32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  uint32_t planes, vectors, window_vectors; /* twice those of a window where weights are sums */
  uint16_t flip;   /* of two bytes of a row; 0x80: it has no sign and is multiplied as x - 128 */
  uint8_t padding; /* each byte of the elements outside of x */
  dory_cortex_m55_requant_t requant;
} dory_cortex_m55_depthwise_t;

void dory_cortex_m55_depthwise(const dory_cortex_m55_depthwise_t *a);

#endif
