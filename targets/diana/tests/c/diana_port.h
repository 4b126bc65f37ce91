/* What tests call through ctypes. */
#ifndef DIANA_PORT_H
#define DIANA_PORT_H

#include "dory_diana_model.h"

/* written: one byte per byte of L1, not 0 where it counts as written. */
void port_open(uint8_t *l1, uint8_t *l1_written, uint32_t l1_bytes, int32_t adc_scale, int late);
/* Names memory of L2. Returns 0, or -1 when there is no room. */
int port_l2(void *base, uint64_t bytes, int writable);
/* Calls a function; NULL, or the rule that it breaks. */
const char *port_try(void (*function)(const void *argument), const void *argument);
/* Makes one call of the driver; NULL, or the rule that it breaks. */
const char *try_call(int function, const uintptr_t *a, Layer_parameters *p);

#endif
