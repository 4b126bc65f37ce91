/* What an application for Diana says to the HAL. */
#ifndef DORY_DIANA_HAL_H
#define DORY_DIANA_HAL_H

#include <stdint.h>

/* The host has no address for L1, but the network is given a pointer to its arena and counts from
 * there. This is where L1 seems to begin: a value that is no address of the host's memories. It is
 * io->l1 of dory_network_run, and nobody follows it. */
#ifndef DORY_DIANA_L1_WINDOW
#define DORY_DIANA_L1_WINDOW 0x10000000u
#endif

static inline void *dory_diana_l1_arena(void) { return (void *)(uintptr_t)DORY_DIANA_L1_WINDOW; }

/* A transfer that the DMA cannot make, which a generated network never asks for. Does not return: the
 * HAL's version stops here for a debugger. An application that can say more defines its own. */
void dory_diana_fault(const char *reason);

#endif
