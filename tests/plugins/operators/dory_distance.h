/* The sum over the channels of each pixel of |x - centre|. One core computes all pixels. */
#ifndef DORY_DISTANCE_H
#define DORY_DISTANCE_H

#include <stdint.h>

void dory_distance(const int8_t *x, const int8_t *centre, int32_t *y, int pixels, int channels);

#endif
