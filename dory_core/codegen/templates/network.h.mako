/* ${v.title}
 *
% for line in v.header:
 *   ${line}
% endfor
 */
#ifndef DORY_NETWORK_CONFIG_H
#define DORY_NETWORK_CONFIG_H

#include <stdint.h>

#include "dory_network.h"
% if v.layouts or v.layer_layouts:
#include "dory_layout.h"
% endif

#define DORY_CORES ${v.cores}u /* cores that call dory_network_run */
#define DORY_L1_SIZE ${v.l1_size}u /* bytes of the arenas */
#define DORY_L2_SIZE ${v.l2_size}u
#define DORY_L1_USED ${v.l1_used}u /* bytes of them that are used, from their start */
#define DORY_L2_USED ${v.l2_used}u
% if v.more_l2:
#define DORY_L2_MORE ${len(v.more_l2)} /* further memories of L2, each with an arena of its own */
% for size in v.more_l2:
#define DORY_L2_${loop.index + 1}_SIZE ${size}u
% endfor
#define DORY_L2_MORE_SIZES {${", ".join(f"DORY_L2_{k}_SIZE" for k in range(1, len(v.more_l2) + 1))}}
% endif
#define DORY_NETWORK_LAYERS ${v.layers}
#define DORY_NETWORK_INPUT_BYTES ${v.input_bytes}u
#define DORY_NETWORK_OUTPUT_BYTES ${v.output_bytes}u
/* What the DMA of the chip can do; the host simulation insists on it. */
#define DORY_DMA_EACH_CORE ${int(v.any_core)} /* 1: each core may start transfers */
#define DORY_DMA_TICKETS ${v.dma_tickets}u /* most that are open at once in all; 0: any number */
#define DORY_DMA_ALIGN ${v.dma.alignment_bytes}u /* rows start on multiples of it${" and are as long" if v.dma.alignment_bytes > 1 else ""} */
% if v.dma.max_bytes:
#define DORY_DMA_MAX_BYTES ${v.dma.max_bytes}u /* of a transfer */
% endif
% if v.dma.dimensions < 3:
#define DORY_DMA_DIMENSIONS ${v.dma.dimensions}u /* 1: a transfer is one row, 2: rows at one pitch */
% endif
% if not v.dma.dma:
#define DORY_DMA_NONE 1 /* the cores copy */
% endif
% if v.l3_size:
#define DORY_L3_SIZE ${v.l3_size}u /* bytes of L3; it starts with weights/l3.bin */
#define DORY_L3_IMAGE_BYTES ${v.l3_image_bytes}u /* bytes of that file */
#define DORY_EXT_IN_FLIGHT ${v.tickets}u /* transfers of L3 under way at once */
#define DORY_EXT_ALIGN ${v.ext.alignment_bytes}u
% if v.ext.max_bytes:
#define DORY_EXT_MAX_BYTES ${v.ext.max_bytes}u /* of a transfer of L3 */
% endif
% endif
/* Where input and output lie: in level 2, an input written to the arena at this offset is used in
 * place; in level 3 the caller writes and reads them there, and io->input and io->output are not
 * used. */
#define DORY_NETWORK_INPUT_LEVEL ${v.input_level}
#define DORY_NETWORK_INPUT_MEMORY ${v.input_place.memory} /* of level 2: 0 is io->l2, k is io->l2_more[k - 1] */
#define DORY_NETWORK_INPUT_OFFSET ${v.input_place.offset}u
#define DORY_NETWORK_OUTPUT_LEVEL ${v.output_level}
#define DORY_NETWORK_OUTPUT_MEMORY ${v.output_place.memory}
#define DORY_NETWORK_OUTPUT_OFFSET ${v.output_place.offset}u
% if v.input_parts:
#define DORY_NETWORK_INPUT_PARTS ${v.input_parts} /* offset in L3 and bytes of each */
% endif
% if v.output_parts:
#define DORY_NETWORK_OUTPUT_PARTS ${v.output_parts} /* offset in L3 and bytes of each */
% endif

/* Tables of constants hold 64-bit numbers, and a DMA likes them aligned. */
#ifdef __GNUC__
#define DORY_TABLE __attribute__((aligned(${max(8, v.dma.alignment_bytes)})))
#else
#define DORY_TABLE
#endif

/* Constants that are linked, in the order in which tiles load them. */
% for name, words in v.constants:
extern const uint32_t ${name}[${words}];
% endfor

typedef struct {
  const char *name;
  const void *data;
  uint32_t bytes;
} dory_l2_const_t;

/* All of them, for the host simulation. */
extern const dory_l2_const_t dory_l2_consts[];
extern const uint32_t dory_l2_const_count;

% if v.layer_layouts:
/* Layers whose output has another layout than HWC: on_layer gets it as it lies. */
#define DORY_NETWORK_LAYOUTS ${len(v.layer_layouts)}
typedef struct {
  int layer;
  dory_layout_t layout;
  uint32_t c, h, w;
} dory_layer_layout_t;
extern const dory_layer_layout_t dory_layer_layouts[DORY_NETWORK_LAYOUTS];

% endif
/* One function per layer, in order of execution; every core calls them. */
% for name in v.functions:
void ${name};
% endfor

#endif
