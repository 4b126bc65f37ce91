/* Long short-term memory in the integers of TensorFlow Lite. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

enum { INPUT, FORGET, CELL, OUTPUT, GATES };
enum { KEPT = 2 * GATES, ADDED, ARGUMENT, HIDDEN, STEPS };

static const uint32_t TABLE_BYTES = 512;
static const dory_portable_type_t BYTE = {8, 1};

/* A layer with the places of its constants. */
typedef struct {
  const dory_portable_lstm_t *layer;
  const uint8_t *steps[STEPS]; /* parameter table of each */
  const uint8_t *table, *weights, *bias;
  uint32_t features, units;
} memory_t;

static int32_t clipped(int32_t value, int32_t most)
{
  return value > most ? most : value < -most ? -most : value;
}

static int32_t word(int32_t value)
{
  return value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : value;
}

static int32_t entry(const uint8_t *table, uint32_t i)
{
  return table[2 * i] | table[2 * i + 1] << 8;
}

/* Returns a / 2^shift, rounded down. */
static int32_t floor_shift(int32_t a, uint32_t shift)
{
  return a < 0 ? ~(~a >> shift) : a >> shift;
}

/* Returns the sigmoid in Q0.15 of an argument in units of 2^-12 / 3. */
static int32_t sigmoid(const uint8_t *table, int32_t argument)
{
  const uint32_t place = (uint32_t)(argument < 0 ? -argument : argument), whole = place >> 9;
  int32_t found = 32767 << 10;

  if (whole < 255u) {
    const int32_t lower = entry(table, whole);
    found = lower * 512 + (int32_t)(place & 511u) * (entry(table, whole + 1u) - lower);
  }
  return (argument >= 0 ? found + 512 : (1 << 25) - found + 511) >> 10;
}

/* Returns the hyperbolic tangent in Q0.15 of an argument in units of 2^-12 / 3. */
static int32_t hyperbolic_tangent(const uint8_t *table, int64_t argument)
{
  const uint64_t place = (uint64_t)(argument < 0 ? -argument : argument), whole = place >> 8;
  int32_t found = 65535 << 8;

  if (whole < 255u) {
    const int32_t lower = entry(table, (uint32_t)whole);
    const int32_t rise = entry(table, (uint32_t)whole + 1u) - lower;
    found = lower * 256 + (int32_t)(place & 255u) * rise;
  }
  found -= 1 << 23;
  return floor_shift(argument >= 0 ? found + 128 : 127 - found, 8);
}

static int64_t step(const memory_t *memory, uint32_t number, uint32_t unit, int64_t value)
{
  const dory_portable_steps_t one = {memory->layer->steps + number, 1};

  return dory_portable_apply(&one, memory->steps[number], memory->units, unit, value);
}

/* Returns a gate of a unit before its function, in Q3.12. */
static int32_t gate(const memory_t *memory, uint32_t number, uint32_t unit, const uint8_t *x,
                    const uint8_t *hidden)
{
  const uint32_t features = memory->features, units = memory->units;
  const uint32_t row = number * units + unit;
  const uint8_t *const weights = memory->weights + row * (features + units);
  const int64_t of_x = dory_portable_dot(x, 0, memory->layer->x, weights, 0, BYTE, features);
  const int64_t of_h =
      dory_portable_dot(hidden, 0, memory->layer->hidden, weights, features, BYTE, units);
  const int32_t x_bias = dory_portable_int32(memory->bias, row);
  const int32_t h_bias = dory_portable_int32(memory->bias, GATES * units + row);

  return word((int32_t)(step(memory, number, unit, of_x + x_bias) +
                        step(memory, GATES + number, unit, of_h + h_bias)));
}

/* Returns the cell of a unit: one element of 16 bits, or its low and its high byte. */
static int32_t cell_of(const memory_t *memory, const uint8_t *cell, uint32_t unit)
{
  if (memory->layer->hidden.bits == 16) {
    return (int32_t)dory_portable_get(cell, unit, memory->layer->hidden);
  }
  return (int8_t)cell[memory->units + unit] * 256 + cell[unit];
}

static void put_cell(const memory_t *memory, uint8_t *cell, uint32_t unit, int32_t value)
{
  if (memory->layer->hidden.bits == 16) {
    dory_portable_put(cell, unit, memory->layer->hidden, value);
    return;
  }
  cell[unit] = (uint8_t)value;
  cell[memory->units + unit] = (uint8_t)((uint32_t)value >> 8);
}

/* Computes a unit behind one row: its cell and its hidden state. */
static void advance(const memory_t *memory, uint32_t unit, const uint8_t *x, const uint8_t *before,
                    uint8_t *hidden, uint8_t *cell)
{
  const uint8_t *const table = memory->table;
  const int32_t taken = sigmoid(table, 3 * gate(memory, INPUT, unit, x, before));
  const int32_t kept = sigmoid(table, 3 * gate(memory, FORGET, unit, x, before));
  const int32_t candidate = hyperbolic_tangent(table, 3 * gate(memory, CELL, unit, x, before));
  const int32_t shown = sigmoid(table, 3 * gate(memory, OUTPUT, unit, x, before));
  int32_t value = cell_of(memory, cell, unit);

  value = word((int32_t)(step(memory, KEPT, unit, kept * value) +
                         step(memory, ADDED, unit, taken * candidate)));
  if (memory->layer->clip != 0) {
    value = clipped(value, memory->layer->clip);
  }
  const int32_t seen = hyperbolic_tangent(table, step(memory, ARGUMENT, unit, value));
  dory_portable_put(hidden, unit, memory->layer->hidden,
                    step(memory, HIDDEN, unit, seen * shown));
  put_cell(memory, cell, unit, value);
}

void dory_portable_lstm(const dory_portable_lstm_t *layer, const dory_portable_tile_t *tile,
                        const uint8_t *x, const uint8_t *state, const uint8_t *weights,
                        const uint8_t *bias, const uint8_t *steps, uint8_t *y)
{
  const uint32_t units = tile->y_c, rows = tile->x_h;
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t most = (units + cores - 1u) / cores;
  const uint32_t begin = core * most < units ? core * most : units;
  const uint32_t end = begin + most < units ? begin + most : units;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t row_bytes = dory_portable_pixel_bytes(units, layer->hidden);
  uint8_t *const cell = y + rows * row_bytes;
  const uint8_t *before = state;
  memory_t memory;

  memory.layer = layer;
  memory.table = weights;
  memory.weights = weights + TABLE_BYTES;
  memory.bias = bias;
  memory.features = tile->x_c;
  memory.units = units;
  for (uint32_t number = 0; number < STEPS; number++) {
    const dory_portable_steps_t one = {layer->steps + number, 1};
    memory.steps[number] = steps;
    steps += dory_portable_table_bytes(&one, units);
  }
  for (uint32_t unit = begin; unit < end; unit++) {
    put_cell(&memory, cell, unit, cell_of(&memory, state + row_bytes, unit));
  }
  for (uint32_t row = 0; row < rows; row++) {
    for (uint32_t unit = begin; unit < end; unit++) {
      advance(&memory, unit, x + row * x_bytes, before, y + row * row_bytes, cell);
    }
    before = y + row * row_bytes;
    dory_barrier(); /* the next row needs all units of this one */
  }
}
