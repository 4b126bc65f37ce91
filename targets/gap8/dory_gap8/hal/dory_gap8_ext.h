/* Devices outside the chip: HyperFlash with the application's files, HyperRAM as L3.
 *
 * The fabric controller opens them; core 0 of the cluster then transfers through
 * dory_ext_start and dory_ext_wait. */
#ifndef DORY_GAP8_EXT_H
#define DORY_GAP8_EXT_H

#include "pmsis.h"
#include "bsp/bsp.h"
#include "bsp/flash/hyperflash.h"
#include "bsp/fs.h"
#include "bsp/fs/readfs.h"

/* Opens the flash and its file system. Returns NULL, or what failed. */
const char *dory_gap8_open_flash(void);

/* Opens a file of the flash, NULL when it is not there. */
pi_fs_file_t *dory_gap8_open_file(const char *name);

/* Makes L3 ready for a network: allocates `ram_bytes` in the HyperRAM and copies the file with the
 * constants to its start, or leaves them in the file where the board file says so.
 * file, image_bytes: name and size of that file; no bytes: there is none. buffer: memory in L2 for
 * the copy, of buffer_bytes. *l3: what goes into dory_network_io_t.l3. Returns NULL, or what failed.
 *
 * Several networks may be opened, each with a file of its own; where constants stay in the file, a
 * second one is refused. */
const char *dory_gap8_open_l3(const char *file, uint32_t image_bytes, uint32_t ram_bytes,
                              void *buffer, uint32_t buffer_bytes, uint32_t *l3);

/* Copies bytes of L2 to L3, by the fabric controller; `l3` counts as in dory_ext_start. */
void dory_gap8_write_l3(uint32_t l3, void *l2, uint32_t bytes);

/* Reads bytes of a file, by the fabric controller. Returns NULL, or what failed. */
const char *dory_gap8_read_file(pi_fs_file_t *file, uint32_t at, void *l2, uint32_t bytes);

/* What failed between L3 and L2 since the last call of it, NULL when nothing did: the results of a
 * run before it are worth nothing then. */
const char *dory_gap8_l3_failure(void);

#endif
