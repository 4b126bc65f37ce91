/* The network on the chip: its memories, preparation of the chip, one call per inference.
 *
 * With a main of your own, for example in a CubeIDE project, call @PREFIX@_stm32h7_init once and
 * @PREFIX@_stm32h7_run for each input. The linker script has to place the sections of
 * dory_sections.ld. Several networks in one program have prefixes of their own; each is prepared
 * once and may run when no other does. */
#ifndef @NAME@_STM32H7_H
#define @NAME@_STM32H7_H

#include <stdint.h>

#include "dory_io.h"
#include "dory_stm32h7_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As far as the part has them: clocks of MDMA and D2 SRAM, the erratum of AXI SRAM in chips before
 * revision V, MPU regions of the arenas, zeros in the arenas, cycle counter (one that runs already
 * goes on). Caches are left as they are. Regions of the MPU are taken unless the arenas are cached;
 * they lie above all regions of lower numbers. dory_stm32h7_config.h says which, and has all other choices. */
void @PREFIX@_stm32h7_init(void);

/* Runs the network on the arenas of this application; results as of @PREFIX@_network_run. An input
 * that is @PREFIX@_stm32h7_input(), and an output that is @PREFIX@_stm32h7_output(), are not copied. */
int @PREFIX@_stm32h7_run(const void *input, void *output,
                     void (*on_layer)(void *user, int layer, const void *data, uint32_t bytes),
                     void *user);

/* The same with all that dory_io.h knows, as next_rows where the input comes by rows; the arenas of
 * `io` are not used. */
int @PREFIX@_stm32h7_run_io(const dory_network_io_t *io);

/* 1: the program may write the input to where the first layer reads it. */
#define @NAME@_INPUT_IN_PLACE @INPUT_IN_PLACE@

/* Where that is, with @NAME@_INPUT_IN_PLACE; each run needs it anew. */
void *@PREFIX@_stm32h7_input(void);

/* 1: the output may stay where the last layer leaves it. */
#define @NAME@_OUTPUT_IN_PLACE @IN_PLACE@

/* Where that is, with @NAME@_OUTPUT_IN_PLACE; valid until the next run. */
void *@PREFIX@_stm32h7_output(void);

#ifdef __cplusplus
}
#endif

#endif
