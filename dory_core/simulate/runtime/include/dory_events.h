/* What core 0 does between the parts of layers, as a table of events: transfers between L3 and L2,
 * rows of rolling buffers that move, rows that the caller hands over or takes, outputs for the
 * caller. */
#ifndef DORY_EVENTS_H
#define DORY_EVENTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dory_hal.h"
#include "dory_io.h"

/* What core 0 does; write the rows with the macros below. */
typedef struct {
  uint8_t kind, memory; /* memory: of dory_stream_t.memories */
  uint16_t number;      /* ticket, layer, input or output */
  uint32_t offset, from, bytes;
} dory_event_t;

enum {
  DORY_KIND_LOAD,
  DORY_KIND_STORE,
  DORY_KIND_WAIT,
  DORY_KIND_MOVE,
  DORY_KIND_TAKE,
  DORY_KIND_PUT,
  DORY_KIND_REPORT,
  DORY_KIND_END
};

/* Start a copy from or to L3, with a ticket; offsets in L2 and L3. */
#define DORY_EXT_LOAD(ticket, l2, l3, bytes) {DORY_KIND_LOAD, 1, ticket, l2, l3, bytes}
#define DORY_EXT_STORE(ticket, l2, l3, bytes) {DORY_KIND_STORE, 1, ticket, l2, l3, bytes}
/* Wait for a ticket. */
#define DORY_EXT_WAIT(ticket) {DORY_KIND_WAIT, 1, ticket, 0, 0, 0}
/* Move rows of a tensor that are read again to the start of its buffer; offsets in a memory. */
#define DORY_MOVE_ROWS(memory, start, source, bytes) \
  {DORY_KIND_MOVE, memory, 0, start, source, bytes}
/* Rows of an input come to an offset in a memory, rows of an output are there for the caller. */
#define DORY_TAKE_ROWS(input, memory, offset, first, rows) \
  {DORY_KIND_TAKE, memory, input, offset, first, rows}
#define DORY_PUT_ROWS(output, memory, offset, first, rows) \
  {DORY_KIND_PUT, memory, output, offset, first, rows}
/* Hand bytes of a layer's output to the caller. */
#define DORY_REPORT(layer, memory, offset, bytes) \
  {DORY_KIND_REPORT, memory, layer, offset, 0, bytes}
/* The next part of a layer runs. */
#define DORY_RUN {DORY_KIND_END, 1, 0, 0, 0, 0}

/* A network that runs. Core 0 alone uses it. */
typedef struct {
  const dory_network_io_t *io;
  uint8_t *const *memories; /* L1, then those of L2 */
  dory_ticket_t *tickets; /* of transfers of L3, where there are any */
  const dory_event_t *events;
  uint32_t next; /* event */
  volatile int *status; /* of all cores, where rows pass: DORY_OK, or DORY_EROWS from then on */
} dory_stream_t;

/* Hands the output of a layer to the caller. Every core may call it. */
static inline void dory_report(const dory_network_io_t *io, int layer, const uint8_t *data,
                               uint32_t bytes) {
  if (io->on_layer != NULL && dory_core_id() == 0) {
    io->on_layer(io->user, layer, data, bytes);
  }
}

/* Does what the next event says. Returns whether another one follows before a part of a layer runs. */
static inline int dory_stream_event(dory_stream_t *stream) {
  const dory_event_t *const event = &stream->events[stream->next];
  uint8_t *const place = stream->memories[event->memory] + event->offset;
  switch (event->kind) {
#ifdef DORY_L3_SIZE /* of network.h */
    case DORY_KIND_LOAD:
      stream->tickets[event->number] =
          dory_ext_start(place, stream->io->l3 + event->from, event->bytes, DORY_L3_TO_L2);
      break;
    case DORY_KIND_STORE:
      stream->tickets[event->number] =
          dory_ext_start(place, stream->io->l3 + event->from, event->bytes, DORY_L2_TO_L3);
      break;
    case DORY_KIND_WAIT:
      dory_ext_wait(stream->tickets[event->number]);
      break;
#endif
    case DORY_KIND_MOVE:
      DORY_MOVE(place, stream->memories[event->memory] + event->from, event->bytes);
      break;
#ifdef DORY_NETWORK_INPUT_ROWS /* of network.h */
    case DORY_KIND_TAKE:
      if (stream->io->next_rows(stream->io->user, event->number, place, event->from,
                                event->bytes) != 0) {
        *stream->status = DORY_EROWS;
        return 0;
      }
      break;
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
    case DORY_KIND_PUT:
      if (stream->io->put_rows(stream->io->user, event->number, place, event->from,
                               event->bytes) != 0) {
        *stream->status = DORY_EROWS;
        return 0;
      }
      break;
#endif
    case DORY_KIND_REPORT:
      dory_report(stream->io, event->number, place, event->bytes);
      break;
    default:
      stream->next++;
      return 0;
  }
  stream->next++;
  return 1;
}

/* Does what is to be done before the next part of a layer runs. Every core may call it. */
static inline void dory_stream_step(dory_stream_t *stream) {
  if (dory_core_id() == 0) {
    while (dory_stream_event(stream)) {
    }
  }
}

#if defined DORY_NETWORK_INPUT_ROWS || defined DORY_NETWORK_OUTPUT_ROWS
/* Whether the run goes on behind a step in which rows pass; the same on every core. */
static inline int dory_stream_status(const dory_stream_t *stream) {
#if DORY_CORES > 1
  dory_barrier();
  const int status = *stream->status;
  if (status != DORY_OK) {
    dory_barrier(); /* nobody begins the next run before all have seen how this one ends */
  }
  return status;
#else
  return *stream->status;
#endif
}
#endif

#endif
