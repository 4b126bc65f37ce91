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

/* Makes L3 ready: opens the HyperRAM and copies the constants into it, or leaves them in their file
 * where the board file says so. buffer: memory in L2 for the copy. Returns NULL, or what failed. */
const char *dory_gap8_open_l3(void *buffer, uint32_t bytes);

/* Copies bytes of L2 to L3, by the fabric controller. */
void dory_gap8_write_l3(uint32_t l3_offset, void *l2, uint32_t bytes);

#endif
