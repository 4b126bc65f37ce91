/* Files of the machine that emulates or debugs the chip: where the core stops at `bkpt 0xAB`, it
 * reads the number of a call and its arguments. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stdint.h>

typedef enum { SEMIHOSTING_READ = 1, SEMIHOSTING_WRITE = 5 } semihosting_mode_t;

/* Opens a file; returns its handle, -1 where there is none. */
int semihosting_open(const char *name, semihosting_mode_t mode);
/* Reads bytes; returns 0 when all are there. */
uint32_t semihosting_read(int file, void *data, uint32_t bytes);
void semihosting_write(int file, const void *data, uint32_t bytes);
void semihosting_exit(int status) __attribute__((noreturn));

#endif
