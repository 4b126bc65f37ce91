<%def name="one(name)">${f"dory_vectors_{name} + run * {sizes[name]}u" if name in names else "NULL"}</%def>\
/* Test vectors in the image; NULL where it does not hold them. */
#ifndef DORY_VECTORS_H
#define DORY_VECTORS_H

#include <stddef.h>
#include <stdint.h>

% for name in names:
extern const uint8_t dory_vectors_${name}[], dory_vectors_${name}_end[];
% endfor
% if names:

% endif
static inline uint32_t dory_vector_count(void)
{
% if names:
  return (uint32_t)(dory_vectors_input_end - dory_vectors_input) / ${sizes["input"]}u;
% else:
  return 0;
% endif
}

static inline const uint8_t *dory_vector_input(uint32_t run)
{
  (void)run;
  return ${one("input")};
}

% if state:
/* Whether a run begins with the initial state; others follow the run before. */
static inline int dory_vector_begins(uint32_t run)
{
% if names:
  return run >= dory_vector_count() ? run == 0 : dory_vectors_resets[run];
% else:
  return run == 0;
% endif
}

% endif
static inline const uint8_t *dory_vector_output(uint32_t run)
{
  (void)run;
  return ${one("output")};
}

static inline const uint8_t *dory_vector_layer(uint32_t run, int layer)
{
  (void)run;
  switch (layer) {
% for index in layers:
    case ${index}:
      return ${one(f"layer_{index:02d}")};
% endfor
    default:
      return NULL;
  }
}

#endif
