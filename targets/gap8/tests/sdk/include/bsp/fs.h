#ifndef BSP_FS_H
#define BSP_FS_H

#include "pmsis.h"

struct pi_fs_conf {
  struct pi_device *flash;
};
typedef struct {
  unsigned int size;
  void *data;
} pi_fs_file_t;
typedef struct {
  pi_fs_file_t *file;
  uint32_t index, size;
  void *buffer;
} pi_cl_fs_req_t;
int32_t pi_fs_mount(struct pi_device *device);
pi_fs_file_t *pi_fs_open(struct pi_device *device, const char *name, int flags);
int32_t pi_fs_copy(pi_fs_file_t *file, uint32_t index, void *buffer, uint32_t size, int32_t ext2loc);
void pi_cl_fs_copy(pi_fs_file_t *file, uint32_t index, void *buffer, uint32_t size, int32_t ext2loc,
                   pi_cl_fs_req_t *request);
int32_t pi_cl_fs_wait(pi_cl_fs_req_t *request);

#endif
