/* HyperFlash, HyperRAM, and the transfers between L3 and L2.
 *
 * The external bus belongs to the fabric controller, whose uDMA moves the data; core 0 of the cluster
 * sends it requests, goes on, and sleeps until they are done when it needs the data. The HyperRAM is
 * shared with the program through its allocator. Constants that have no room beside the activations
 * there are read from the flash file each time. */
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

const char *dory_gap8_read_file(pi_fs_file_t *file, uint32_t at, void *l2, uint32_t bytes)
{
  return pi_fs_copy(file, at, l2, bytes, 1) < 0 ? "a file of the flash cannot be read" : NULL;
}

#if DORY_GAP8_L3

/* In a firmware with several networks the largest of their numbers is the fastest: a network that has
 * more under way waits for each transfer that has no room here. */
#ifndef DORY_GAP8_IN_FLIGHT
#define DORY_GAP8_IN_FLIGHT DORY_EXT_IN_FLIGHT
#endif

static struct pi_device ram;
static struct pi_hyperram_conf ram_conf;
static int ram_is_open;
static pi_fs_file_t *constants; /* that stay in their file */
static uint32_t ram_behind;     /* where the RAM goes on behind them */
static const char *volatile failure;

typedef struct {
  union {
    pi_cl_ram_req_t ram;
    pi_cl_fs_req_t file;
  } sdk;
  uint8_t busy, from_file;
} request_t;

/* Requests under way, by ticket - 1, and one that is waited for at once. Only core 0 takes and returns
 * them. */
static request_t requests[DORY_GAP8_IN_FLIGHT + 1];

static int is_in_file(uint32_t l3)
{
#if DORY_GAP8_CONSTANTS_IN_FLASH
  return l3 < DORY_GAP8_L3_RAM_START;
#else
  (void)l3;
  return 0;
#endif
}

/* Where a byte of L3 lies in the RAM. */
static uint32_t ram_address(uint32_t l3)
{
  return DORY_GAP8_CONSTANTS_IN_FLASH ? l3 - DORY_GAP8_L3_RAM_START + ram_behind : l3;
}

/* Why a file does not open: it is not there, or the SDK finds no memory for it. */
static const char *why_not_open(void)
{
  enum { FILE_BYTES = 2048 }; /* of the heap in L2, with its buffers */
  void *const probe = pi_l2_malloc(FILE_BYTES);
  if (probe == NULL) {
    return "the heap in L2 has no room to open the file with the constants: compile the network "
           "with a smaller --l2, or a larger --l2-reserve";
  }
  pi_l2_free(probe, FILE_BYTES);
  return "the flash does not hold the file with the constants";
}

static const char *copy_to_ram(pi_fs_file_t *file, uint32_t address, void *buffer, uint32_t bytes)
{
  bytes -= bytes % 4;
  for (uint32_t at = 0; at < file->size; at += bytes) {
    const uint32_t left = file->size - at;
    const uint32_t part = left < bytes ? left : bytes;
    const char *const error = dory_gap8_read_file(file, at, buffer, part);
    if (error != NULL) {
      return error;
    }
    pi_ram_write(&ram, address + at, buffer, part);
  }
  return NULL;
}

const char *dory_gap8_open_l3(const char *file, uint32_t image_bytes, uint32_t ram_bytes,
                              void *buffer, uint32_t buffer_bytes, uint32_t *l3)
{
  uint32_t address = 0;
  *l3 = 0;
  if (DORY_GAP8_CONSTANTS_IN_FLASH && ram_is_open) {
    return "constants stay in the flash, which only one network of a firmware can have";
  }
  if (!ram_is_open) {
    pi_hyperram_conf_init(&ram_conf);
    pi_open_from_conf(&ram, &ram_conf);
    if (pi_ram_open(&ram) != 0) {
      return "the HyperRAM does not open";
    }
    ram_is_open = 1;
  }
  if (ram_bytes > 0 && pi_ram_alloc(&ram, &address, ram_bytes) != 0) {
    return "the HyperRAM has no room for the network: compile it with a smaller --l3";
  }
  if (DORY_GAP8_CONSTANTS_IN_FLASH) {
    ram_behind = address;
  } else {
    *l3 = address;
  }
  if (image_bytes == 0) {
    return NULL;
  }
  pi_fs_file_t *const image = dory_gap8_open_file(file);
  if (image == NULL) {
    return why_not_open();
  }
  if (image->size != image_bytes) {
    return "the file with the constants does not have the size that network.h states";
  }
  if (DORY_GAP8_CONSTANTS_IN_FLASH) {
    constants = image;
    return NULL;
  }
  return copy_to_ram(image, address, buffer, buffer_bytes);
}

void dory_gap8_write_l3(uint32_t l3, void *l2, uint32_t bytes)
{
  pi_ram_write(&ram, ram_address(l3), l2, bytes);
}

const char *dory_gap8_l3_failure(void)
{
  const char *const found = failure;
  failure = NULL;
  return found;
}

static void finish(request_t *request)
{
  if (!request->from_file) {
    pi_cl_ram_copy_wait(&request->sdk.ram);
  } else if (pi_cl_fs_wait(&request->sdk.file) < 0) {
    failure = "constants cannot be read from the flash";
  }
  request->busy = 0;
}

dory_ticket_t dory_ext_start(void *l2, uint32_t l3, uint32_t bytes, int dir)
{
  uint32_t slot = 0;
  while (requests[slot].busy) {
    slot++; /* the last one is never busy */
  }
  request_t *const request = &requests[slot];
  request->busy = 1;
  request->from_file = (uint8_t)is_in_file(l3);
  if (request->from_file) {
    pi_cl_fs_copy(constants, l3, l2, bytes, 1, &request->sdk.file);
  } else if (dir == DORY_L3_TO_L2) {
    pi_cl_ram_read(&ram, ram_address(l3), l2, bytes, &request->sdk.ram);
  } else {
    pi_cl_ram_write(&ram, ram_address(l3), l2, bytes, &request->sdk.ram);
  }
  if (slot == DORY_GAP8_IN_FLIGHT) {
    finish(request);
    return DORY_NO_TICKET;
  }
  return (dory_ticket_t)(slot + 1);
}

void dory_ext_wait(dory_ticket_t ticket)
{
  if (ticket != DORY_NO_TICKET) {
    finish(&requests[ticket - 1]);
  }
}

#else

const char *dory_gap8_open_l3(const char *file, uint32_t image_bytes, uint32_t ram_bytes,
                              void *buffer, uint32_t buffer_bytes, uint32_t *l3)
{
  (void)file;
  (void)image_bytes;
  (void)ram_bytes;
  (void)buffer;
  (void)buffer_bytes;
  *l3 = 0;
  return NULL;
}

void dory_gap8_write_l3(uint32_t l3, void *l2, uint32_t bytes)
{
  (void)l3;
  (void)l2;
  (void)bytes;
}

const char *dory_gap8_l3_failure(void)
{
  return NULL;
}

#endif
