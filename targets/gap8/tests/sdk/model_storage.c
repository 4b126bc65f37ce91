/* Models of what holds data behind the cluster: the HyperRAM, and files of the flash.
 *
 * A transfer that the cluster asks for moves its bytes when it is waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bsp/flash/hyperflash.h"
#include "bsp/fs/readfs.h"
#include "bsp/ram/hyperram.h"
#include "model.h"
#include "pmsis.h"

#define RAM_BYTES (8u << 20)
#define FILES 8

/* --- RAM --- */

static uint8_t ram[RAM_BYTES];
static int ram_open;
static uint32_t ram_taken = 64; /* what lies before belongs to somebody else */

void pi_hyperram_conf_init(struct pi_hyperram_conf *conf) { conf->ready = 1; }
int32_t pi_ram_open(struct pi_device *device)
{
  memset(ram, MODEL_POISON, sizeof ram);
  if (ram_open) model_fail("the RAM is opened twice");
  ram_open = 1;
  return ((struct pi_hyperram_conf *)device->config)->ready != 1;
}

int pi_ram_alloc(struct pi_device *device, uint32_t *address, uint32_t size)
{
  (void)device;
  if (!ram_open) model_fail("the RAM is not open");
  size = (size + 3u) & ~3u;
  if (getenv("MODEL_NO_RAM") != NULL || size > RAM_BYTES - ram_taken) return -1;
  *address = ram_taken;
  ram_taken += size;
  return 0;
}

static void ram_check(uint32_t address, uint32_t size)
{
  if (!ram_open) model_fail("the RAM is not open");
  if (size == 0 || address < 64 || address > ram_taken || size > ram_taken - address)
    model_fail("a transfer does not lie in what was allocated in the RAM");
}

void pi_ram_write(struct pi_device *device, uint32_t address, void *data, uint32_t size)
{
  (void)device;
  if (model_on_cluster()) model_fail("the cluster calls a function of the fabric controller");
  ram_check(address, size);
  memcpy(ram + address, data, size);
}

void pi_cl_ram_read(struct pi_device *device, uint32_t address, void *data, uint32_t size,
                    pi_cl_ram_req_t *request)
{
  (void)device;
  if (!model_on_cluster() || dory_gap8_core() != 0) model_fail("not core 0 asks for the RAM");
  ram_check(address, size);
  memset(data, MODEL_POISON, size);
  *request = (pi_cl_ram_req_t){address, size, data, 0};
}

void pi_cl_ram_write(struct pi_device *device, uint32_t address, void *data, uint32_t size,
                     pi_cl_ram_req_t *request)
{
  pi_cl_ram_read(device, address, (uint8_t[1]){0}, 1, request);
  ram_check(address, size);
  *request = (pi_cl_ram_req_t){address, size, data, 1};
}

void pi_cl_ram_copy_wait(pi_cl_ram_req_t *request)
{
  if (request->size == 0) model_fail("a request of the RAM is waited for twice");
  if (request->write) {
    memcpy(ram + request->address, request->data, request->size);
  } else {
    memcpy(request->data, ram + request->address, request->size);
  }
  request->size = 0;
}

/* --- files of the flash --- */

static pi_fs_file_t files[FILES];
static const char *names[FILES];
static int file_count;

void pi_hyperflash_conf_init(struct pi_hyperflash_conf *conf) { conf->ready = 1; }
int32_t pi_flash_open(struct pi_device *device)
{
  return ((struct pi_hyperflash_conf *)device->config)->ready != 1;
}
void pi_readfs_conf_init(struct pi_readfs_conf *conf) { conf->fs.flash = NULL; }
int32_t pi_fs_mount(struct pi_device *device)
{
  return ((struct pi_readfs_conf *)device->config)->fs.flash == NULL;
}

pi_fs_file_t *pi_fs_open(struct pi_device *device, const char *name, int flags)
{
  (void)device;
  (void)flags;
  if (getenv("MODEL_NO_FILES") != NULL && strcmp(name, getenv("MODEL_NO_FILES")) == 0) return NULL;
  for (int i = 0; i < file_count; i++)
    if (strcmp(names[i], name) == 0) return &files[i];
  return NULL;
}

static void file_copy(pi_fs_file_t *file, uint32_t index, void *buffer, uint32_t size)
{
  if (index > file->size || size > file->size - index) model_fail("a read is beyond the file's end");
  memcpy(buffer, (uint8_t *)file->data + index, size);
}

int32_t pi_fs_copy(pi_fs_file_t *file, uint32_t index, void *buffer, uint32_t size, int32_t ext2loc)
{
  if (model_on_cluster()) model_fail("the cluster calls a function of the fabric controller");
  if (!ext2loc) model_fail("a file of the flash is written");
  if (getenv("MODEL_BAD_FLASH") != NULL) return -1;
  file_copy(file, index, buffer, size);
  return 0;
}

void pi_cl_fs_copy(pi_fs_file_t *file, uint32_t index, void *buffer, uint32_t size, int32_t ext2loc,
                   pi_cl_fs_req_t *request)
{
  if (!model_on_cluster() || dory_gap8_core() != 0) model_fail("not core 0 reads a file");
  if (!ext2loc) model_fail("a file of the flash is written");
  memset(buffer, MODEL_POISON, size);
  *request = (pi_cl_fs_req_t){file, index, size, buffer};
}

int32_t pi_cl_fs_wait(pi_cl_fs_req_t *request)
{
  if (getenv("MODEL_BAD_CLUSTER_FLASH") != NULL) return -1;
  file_copy(request->file, request->index, request->buffer, request->size);
  return (int32_t)request->size;
}

void model_load_file(const char *path)
{
  const char *const slash = strrchr(path, '/');
  FILE *const stream = fopen(path, "rb");
  if (stream == NULL || file_count == FILES) model_fail("a file of the flash cannot be read");
  fseek(stream, 0, SEEK_END);
  files[file_count].size = (unsigned)ftell(stream);
  rewind(stream);
  files[file_count].data = malloc(files[file_count].size + 1u);
  if (fread(files[file_count].data, 1, files[file_count].size, stream) != files[file_count].size)
    model_fail("a file of the flash cannot be read");
  fclose(stream);
  names[file_count++] = slash ? slash + 1 : path;
}
