#include "dory_distance.h"

void dory_distance(const int8_t *x, const int8_t *centre, int32_t *y, int pixels, int channels) {
  for (int pixel = 0; pixel < pixels; pixel++) {
    int32_t sum = 0;
    for (int c = 0; c < channels; c++) {
      const int32_t difference = x[pixel * channels + c] - centre[c];
      sum += difference < 0 ? -difference : difference;
    }
    y[pixel] = sum;
  }
}
