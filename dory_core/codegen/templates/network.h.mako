<%! from dory_core.quoting import c_comment %>\
<%! from dory_core.codegen.conversions import layer_layouts, layout_symbols %>\
<%! from dory_core.codegen.names import function_parameters, function_symbol, weights_symbol %>\
<%! from dory_core.codegen.network import by_rows, constants_text, l3_image_bytes, l3_parts, level_of, linked_steps, rows_table, shape_text, shared_rows, table_macro, ticket_count, total_bytes %>\
<%! from dory_core.codegen.float_border import FLOAT_FUNCTIONS, values_of %>\
<% others = layer_layouts(plan) %>\
/* Network ${c_comment(plan.network)}: for its own files and the programs of this application.
 *
 *   generated for ${plan.target}: ${len(plan.steps)} layers, ${plan.macs} MAC
 *   input   ${shape_text(plan.inputs)}
 *   output  ${shape_text(plan.outputs)}
% if plan.states:
 *   state   ${len(plan.states)} tensors, ${sum(s.place.size_bytes for s in plan.states)} B of L2 that live from one inference to the next
% endif
 *   L1      ${plan.levels[0].used} B used of an arena of ${plan.arena_bytes[1]} B
 *   L2      ${plan.arena_used} B used of an arena of ${plan.arena_bytes[2]} B, ${constants_text(plan)}
% for size in plan.more_l2_bytes:
 *           another arena of ${size} B
% endfor
 */
#ifndef DORY_NETWORK_CONFIG_H
#define DORY_NETWORK_CONFIG_H

#include <stdint.h>

#include "${plan.prefix}_network.h"
% if layout_symbols(plan) or others:
#include "dory_layout.h"
% endif

% if plan.prefix != "dory":
/* What the programs of this application call them. */
% for public in ("network_run", "tables", "table_count", "layer_layouts", *FLOAT_FUNCTIONS * plan.float_io, *["network_reset"] * bool(plan.states)):
#define dory_${public} ${plan.prefix}_${public}
% endfor

% endif
#define DORY_CORES ${plan.cores}u /* cores that call ${plan.prefix}_network_run */
#define DORY_L1_USED ${plan.levels[0].used}u /* bytes of the arenas that are used, from their start */
#define DORY_L2_USED ${plan.arena_used}u
#define DORY_L1_SIZE ${plan.arena_bytes[1]}u /* bytes of the arenas, as the budget has them */
#define DORY_L2_SIZE ${plan.arena_bytes[2]}u
% if plan.more_l2_bytes:
#define DORY_L2_MORE ${len(plan.more_l2_bytes)} /* further memories of L2, each with an arena of its own */
% for size in plan.more_l2_bytes:
#define DORY_L2_${loop.index + 1}_SIZE ${size}u
% endfor
#define DORY_L2_MORE_SIZES {${", ".join(f"DORY_L2_{k}_SIZE" for k in range(1, len(plan.more_l2_bytes) + 1))}}
% endif
#define DORY_NETWORK_LAYERS ${len(plan.steps)}
#define DORY_NETWORK_INPUT_BYTES ${total_bytes(plan.inputs)}u
#define DORY_NETWORK_OUTPUT_BYTES ${total_bytes(plan.outputs)}u
% if plan.float_io:
#define DORY_NETWORK_FLOAT_IO 1 /* floats are converted beside the network */
#define DORY_NETWORK_INPUT_VALUES ${values_of(plan.inputs)}u
#define DORY_NETWORK_OUTPUT_VALUES ${values_of(plan.outputs)}u
% endif
/* What the DMA of the chip can do; the host simulation insists on it. */
#define DORY_DMA_EACH_CORE ${int(plan.any_core)} /* 1: each core may start transfers */
#define DORY_DMA_TICKETS ${plan.dma_tickets}u /* most that are open at once in all; 0: any number */
#define DORY_DMA_ALIGN ${plan.dma.alignment_bytes}u /* rows start on multiples of it${" and are as long" if plan.dma.alignment_bytes > 1 else ""} */
% if plan.dma.max_bytes:
#define DORY_DMA_MAX_BYTES ${plan.dma.max_bytes}u /* of a transfer */
% endif
% if plan.dma.dimensions < 3:
#define DORY_DMA_DIMENSIONS ${plan.dma.dimensions}u /* 1: a transfer is one row, 2: rows at one pitch */
% endif
% if not plan.dma.dma:
#define DORY_DMA_NONE 1 /* the cores copy */
% endif
% if plan.arena_bytes.get(3):
#define DORY_L3_SIZE ${plan.arena_bytes[3]}u /* bytes of L3; it starts with weights/l3.bin */
#define DORY_L3_USED ${plan.levels[2].used}u /* bytes of it that are used, from its start */
#define DORY_L3_IMAGE_BYTES ${l3_image_bytes(plan)}u /* bytes of that file */
#define DORY_EXT_IN_FLIGHT ${ticket_count(plan)}u /* transfers of L3 under way at once */
#define DORY_EXT_ALIGN ${plan.ext.alignment_bytes}u
% if plan.ext.max_bytes:
#define DORY_EXT_MAX_BYTES ${plan.ext.max_bytes}u /* of a transfer of L3 */
% endif
% endif
/* Where input and output lie: in level 2, an input written to the arena at this offset is used in
 * place; in level 3 the caller writes and reads them there, and io->input and io->output are not
 * used. Of what passes by rows it is the place of the rolling buffer. */
#define DORY_NETWORK_INPUT_LEVEL ${level_of(plan.inputs)}
#define DORY_NETWORK_INPUT_MEMORY ${plan.inputs[0].memory} /* of level 2: 0 is io->l2, k is io->l2_more[k - 1] */
#define DORY_NETWORK_INPUT_OFFSET ${plan.inputs[0].offset}u
#define DORY_NETWORK_OUTPUT_LEVEL ${level_of(plan.outputs)}
#define DORY_NETWORK_OUTPUT_MEMORY ${plan.outputs[0].memory}
#define DORY_NETWORK_OUTPUT_OFFSET ${plan.outputs[0].offset}u
% if by_rows(plan.inputs):
/* Inputs come by rows: first byte in a file of all, bytes of a row, and rows of each. */
#define DORY_NETWORK_INPUT_ROWS ${rows_table(plan.inputs)}
% endif
% if by_rows(plan.outputs):
/* Outputs go by rows; likewise. */
#define DORY_NETWORK_OUTPUT_ROWS ${rows_table(plan.outputs)}
% endif
% if l3_parts(plan.inputs):
#define DORY_NETWORK_INPUT_PARTS ${l3_parts(plan.inputs)} /* offset in L3 and bytes of each */
% endif
% if l3_parts(plan.outputs):
#define DORY_NETWORK_OUTPUT_PARTS ${l3_parts(plan.outputs)} /* offset in L3 and bytes of each */
% endif

% if plan.states:
#define DORY_NETWORK_STATES ${len(plan.states)} /* tensors that live from one inference to the next */
#define DORY_NETWORK_STATE_PARTS ${plan.prefix.upper()}_STATE_PARTS
% endif
% if plan.has_far_constants:
/* Tables of constants hold 64-bit numbers, and a DMA likes them aligned. Those of layers that need them
 * most lie where the compiler has constants. There is no room for the others, which go to the section
 * that DORY_WEIGHTS_SECTION names. */
% else:
/* Tables of constants hold 64-bit numbers, and a DMA likes them aligned. They go to the section that
 * DORY_WEIGHTS_SECTION names, such as ".external_flash", else to where the compiler has constants. */
% endif
#ifdef DORY_WEIGHTS_SECTION
#define DORY_TABLE_PLACE __attribute__((section(DORY_WEIGHTS_SECTION)))
#else
#define DORY_TABLE_PLACE
#endif
#ifdef __GNUC__
#define DORY_TABLE_ALIGNED __attribute__((aligned(${max(8, plan.dma.alignment_bytes)})))
#else
#define DORY_TABLE_ALIGNED
#endif
% if plan.has_far_constants:
#define DORY_TABLE DORY_TABLE_ALIGNED
#define DORY_TABLE_FAR DORY_TABLE_ALIGNED DORY_TABLE_PLACE
% else:
#define DORY_TABLE DORY_TABLE_ALIGNED DORY_TABLE_PLACE
% endif

/* Constants that are linked, in the order in which tiles load them. Who reads them is told where they
 * lie: compilers take more for granted of an array that has no attribute. */
% for step in linked_steps(plan):
extern const uint32_t ${weights_symbol(plan.prefix, step)}[${-(-step.weights.size // 4)}] ${table_macro(step)};
% endfor

typedef struct {
  const void *data;
  uint32_t bytes;
} dory_table_t;

/* All of them, of layers in the order of execution, for the host simulation. */
extern const dory_table_t dory_tables[];
extern const uint32_t dory_table_count;

% if others:
/* Layers whose output has another layout than HWC: on_layer gets it as it lies. */
#define DORY_NETWORK_LAYOUTS ${len(others)}
typedef struct {
  int layer;
  dory_layout_t layout;
  uint32_t c, h, w;
} dory_layer_layout_t;
extern const dory_layer_layout_t dory_layer_layouts[DORY_NETWORK_LAYOUTS];

% endif
/* The functions of the layers, in order of execution${"; every core calls them" if plan.cores > 1 else ""}.${shared_rows(plan)} */
% for function in plan.program.functions:
<% step = plan.steps[function.steps[0]] %>\
void ${function_symbol(plan.prefix, step, function)}(${function_parameters(step, function)});
% endfor

#endif
