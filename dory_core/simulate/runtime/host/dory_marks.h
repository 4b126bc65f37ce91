/* Macros in the place of calls of network.c: they tell the simulation what happens, and make the call.
 * A file of hal/host/marks includes this header, and then network.c. */
#ifndef DORY_MARKS_H
#define DORY_MARKS_H

#include "network.h"

#include "dory_events.h"

/* A layer has ended when its output is reported. */
#define dory_report(io, layer, data, bytes) \
  do { \
    DORY_SIM_LAYER_END(); \
    dory_sim_given(__FILE__, __LINE__); \
    dory_report(io, layer, data, bytes); \
    dory_sim_ended(__FILE__, __LINE__); \
  } while (0)

#define dory_convert_layout(dst, dst_layout, src, src_layout, c, h, w) \
  do { \
    dory_sim_convert(dst, src, __FILE__, __LINE__); \
    dory_convert_layout(dst, dst_layout, src, src_layout, c, h, w); \
    dory_sim_ended(__FILE__, __LINE__); \
  } while (0)

static inline void dory_marked_step(dory_stream_t *stream) {
  DORY_SIM_LAYER_END();
  if (dory_core_id() == 0) {
    do {
      dory_sim_event(stream->next, __FILE__, __LINE__);
    } while (dory_stream_event(stream));
  }
}
#define dory_stream_step dory_marked_step

#endif
