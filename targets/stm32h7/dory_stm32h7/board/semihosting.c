/* Output over semihosting: the debugger (or emulator) reads a call's number and arguments where the
 * core stops at `bkpt 0xAB`. Without a debugger that would be a fault, so nothing is done then. */
#include "board.h"
#include "dory_stm32h7_registers.h"

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20 };
#define APPLICATION_EXIT 0x20026u

static uint32_t call(uint32_t operation, const void *argument)
{
  register uint32_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

#ifdef BOARD_ALWAYS_SEMIHOSTING
static int has_debugger(void) { return 1; }
#else
static int has_debugger(void) { return (SCB_DHCSR & SCB_DHCSR_C_DEBUGEN) != 0; }
#endif

__attribute__((weak)) void board_print(const char *text)
{
  if (has_debugger()) {
    call(SYS_WRITE0, text);
  }
}

__attribute__((weak)) void board_exit(int status)
{
  const uint32_t reason[2] = {APPLICATION_EXIT, (uint32_t)status};
  if (has_debugger()) {
    call(SYS_EXIT_EXTENDED, reason);
  }
  for (;;) {
  }
}
