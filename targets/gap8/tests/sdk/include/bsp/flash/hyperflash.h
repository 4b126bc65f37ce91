#ifndef BSP_HYPERFLASH_H
#define BSP_HYPERFLASH_H

#include "pmsis.h"

struct pi_hyperflash_conf {
  int ready;
};
void pi_hyperflash_conf_init(struct pi_hyperflash_conf *conf);
int32_t pi_flash_open(struct pi_device *device);

#endif
