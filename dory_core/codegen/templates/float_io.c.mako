<%! from dory_core.codegen.float_border import quantized_rows, scale_arrays %>\
/* Real numbers at the border of the network: before and after ${plan.prefix}_network_run. */
#include "network.h"

#include "dory_float.h"

<% sides = (("inputs", plan.inputs), ("outputs", plan.outputs)) %>\
% for name, places in sides:
% for array in scale_arrays(name, places):
${array}
% endfor
/* ${name.capitalize()}, in their order. */
static const dory_quantized_t ${name}[] = {
% for row in quantized_rows(name, places):
  ${row}
% endfor
};

% endfor
void ${plan.prefix}_quantize_input(const float *values, void *input)
{
  uint8_t *elements = input;
  for (uint32_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    dory_quantize_all(&inputs[i], ${int(plan.ties_even)}, values, elements);
    values += inputs[i].count;
    elements += inputs[i].count * inputs[i].bytes;
  }
}

void ${plan.prefix}_dequantize_output(const void *output, float *values)
{
  const uint8_t *elements = output;
  for (uint32_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    dory_dequantize_all(&outputs[i], elements, values);
    values += outputs[i].count;
    elements += outputs[i].count * outputs[i].bytes;
  }
}
