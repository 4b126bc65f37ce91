/* HyperFlash, HyperRAM, and the transfers between L3 and L2.
 *
 * The external bus belongs to the fabric controller, whose uDMA moves the data; core 0 of the cluster
 * sends it requests, goes on, and sleeps until they are done when it needs the data. The program
 * owns the whole HyperRAM: offsets in L3 are addresses in it. Constants that have no room beside the
 * activations there are read from the flash file each time. */
#include "dory_gap8_ext.h"

#include "dory_hal.h"
#include "network.h"

#if DORY_GAP8_L3
#include "bsp/ram.h"
#include "bsp/ram/hyperram.h"
#endif

static struct pi_device flash, file_system;
static struct pi_hyperflash_conf flash_conf;
static struct pi_readfs_conf file_system_conf;

const char *dory_gap8_open_flash(void)
{
  pi_hyperflash_conf_init(&flash_conf);
  pi_open_from_conf(&flash, &flash_conf);
  if (pi_flash_open(&flash) != 0) {
    return "the HyperFlash does not open";
  }
  pi_readfs_conf_init(&file_system_conf);
  file_system_conf.fs.flash = &flash;
  pi_open_from_conf(&file_system, &file_system_conf);
  return pi_fs_mount(&file_system) != 0 ? "the flash holds no file system" : NULL;
}

pi_fs_file_t *dory_gap8_open_file(const char *name)
{
  return pi_fs_open(&file_system, name, 0);
}

#if DORY_GAP8_L3

static struct pi_device ram;
static struct pi_hyperram_conf ram_conf;
static pi_fs_file_t *constants;

/* Requests under way, by ticket - 1. Only core 0 takes and returns them. */
static struct {
  pi_cl_ram_req_t ram;
  pi_cl_fs_req_t file;
  uint8_t busy, from_file;
} requests[DORY_EXT_IN_FLIGHT];

static int is_in_file(uint32_t l3_offset)
{
  return DORY_GAP8_CONSTANTS_IN_FLASH && l3_offset < DORY_L3_IMAGE_BYTES;
}

/* Where an offset of L3 lies in the RAM. */
static uint32_t ram_address(uint32_t l3_offset)
{
  return DORY_GAP8_CONSTANTS_IN_FLASH ? l3_offset - DORY_GAP8_L3_RAM_START : l3_offset;
}

const char *dory_gap8_open_l3(void *buffer, uint32_t bytes)
{
  pi_hyperram_conf_init(&ram_conf);
  pi_open_from_conf(&ram, &ram_conf);
  if (pi_ram_open(&ram) != 0) {
    return "the HyperRAM does not open";
  }
  if (DORY_L3_IMAGE_BYTES == 0) {
    return NULL;
  }
  constants = dory_gap8_open_file("l3.bin");
  if (constants == NULL) {
    return "the flash does not hold l3.bin";
  }
  if (constants->size != DORY_L3_IMAGE_BYTES) {
    return "l3.bin does not have the size that network.h states";
  }
  if (DORY_GAP8_CONSTANTS_IN_FLASH) {
    return NULL;
  }
  bytes -= bytes % 4;
  for (uint32_t at = 0; at < DORY_L3_IMAGE_BYTES; at += bytes) {
    const uint32_t left = DORY_L3_IMAGE_BYTES - at;
    const uint32_t part = left < bytes ? left : bytes;
    pi_fs_copy(constants, at, buffer, part, 1);
    pi_ram_write(&ram, at, buffer, part);
  }
  return NULL;
}

void dory_gap8_write_l3(uint32_t l3_offset, void *l2, uint32_t bytes)
{
  pi_ram_write(&ram, ram_address(l3_offset), l2, bytes);
}

dory_ticket_t dory_ext_start(void *l2, uint32_t l3_offset, uint32_t bytes, int dir)
{
  uint32_t slot = 0;
  while (requests[slot].busy) {
    slot++; /* the network never has more under way than there are */
  }
  requests[slot].busy = 1;
  requests[slot].from_file = (uint8_t)is_in_file(l3_offset);
  if (requests[slot].from_file) {
    pi_cl_fs_copy(constants, l3_offset, l2, bytes, 1, &requests[slot].file);
  } else if (dir == DORY_L3_TO_L2) {
    pi_cl_ram_read(&ram, ram_address(l3_offset), l2, bytes, &requests[slot].ram);
  } else {
    pi_cl_ram_write(&ram, ram_address(l3_offset), l2, bytes, &requests[slot].ram);
  }
  return (dory_ticket_t)(slot + 1);
}

void dory_ext_wait(dory_ticket_t ticket)
{
  const uint32_t slot = (uint32_t)ticket - 1;
  if (requests[slot].from_file) {
    (void)pi_cl_fs_wait(&requests[slot].file);
  } else {
    pi_cl_ram_copy_wait(&requests[slot].ram);
  }
  requests[slot].busy = 0;
}

#else

const char *dory_gap8_open_l3(void *buffer, uint32_t bytes)
{
  (void)buffer;
  (void)bytes;
  return NULL;
}

void dory_gap8_write_l3(uint32_t l3_offset, void *l2, uint32_t bytes)
{
  (void)l3_offset;
  (void)l2;
  (void)bytes;
}

#endif
