#include "semihosting.h"

#include <string.h>

enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
#define APPLICATION_EXIT 0x20026u

static uint32_t call(uint32_t operation, const uint32_t *arguments)
{
  register uint32_t r0 __asm__("r0") = operation;
  register const uint32_t *r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

int semihosting_open(const char *name, semihosting_mode_t mode)
{
  uint32_t length = 0;
  while (name[length] != '\0') {
    length++;
  }
  const uint32_t arguments[3] = {(uint32_t)(uintptr_t)name, (uint32_t)mode, length};
  return (int)call(SYS_OPEN, arguments);
}

uint32_t semihosting_read(int file, void *data, uint32_t bytes)
{
  const uint32_t arguments[3] = {(uint32_t)file, (uint32_t)(uintptr_t)data, bytes};
  return call(SYS_READ, arguments);
}

void semihosting_write(int file, const void *data, uint32_t bytes)
{
  const uint32_t arguments[3] = {(uint32_t)file, (uint32_t)(uintptr_t)data, bytes};
  call(SYS_WRITE, arguments);
}

void semihosting_exit(int status)
{
  const uint32_t arguments[2] = {APPLICATION_EXIT, (uint32_t)status};
  call(SYS_EXIT_EXTENDED, arguments);
  for (;;) {
  }
}
