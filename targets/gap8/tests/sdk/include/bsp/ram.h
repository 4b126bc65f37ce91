#ifndef BSP_RAM_H
#define BSP_RAM_H

#include "pmsis.h"

typedef struct {
  uint32_t address, size;
  void *data;
  int write;
} pi_cl_ram_req_t;
int32_t pi_ram_open(struct pi_device *device);
int pi_ram_alloc(struct pi_device *device, uint32_t *address, uint32_t size);
void pi_ram_write(struct pi_device *device, uint32_t address, void *data, uint32_t size);
void pi_cl_ram_read(struct pi_device *device, uint32_t address, void *data, uint32_t size,
                    pi_cl_ram_req_t *request);
void pi_cl_ram_write(struct pi_device *device, uint32_t address, void *data, uint32_t size,
                     pi_cl_ram_req_t *request);
void pi_cl_ram_copy_wait(pi_cl_ram_req_t *request);

#endif
