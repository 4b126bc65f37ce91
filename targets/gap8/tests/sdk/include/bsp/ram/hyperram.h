#ifndef BSP_HYPERRAM_H
#define BSP_HYPERRAM_H

#include "bsp/ram.h"

struct pi_hyperram_conf {
  int ready;
};
void pi_hyperram_conf_init(struct pi_hyperram_conf *conf);

#endif
