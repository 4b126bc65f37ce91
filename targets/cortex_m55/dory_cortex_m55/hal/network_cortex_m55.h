/* Network @TITLE@ on the chip: its memory, and one call per inference.
 *
 * The linker script places the sections .dory_l1 (DTCM) and .dory_l2 (SRAM), or the names that the
 * macros DORY_L1_SECTION and DORY_L2_SECTION have. Several networks in one program have prefixes of
 * their own; one runs at a time. */
#ifndef @NAME@_CORTEX_M55_H
#define @NAME@_CORTEX_M55_H

#include <stdint.h>

#include "dory_io.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the network on the arenas of this application; results as of @PREFIX@_network_run. */
int @PREFIX@_cortex_m55_run(const void *input, void *output);

/* The same with all that dory_io.h knows; the arenas of `io` are not used. */
int @PREFIX@_cortex_m55_run_io(const dory_network_io_t *io);

#ifdef __cplusplus
}
#endif

#endif
