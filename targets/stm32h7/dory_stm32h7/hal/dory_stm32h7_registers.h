/* Registers that the network's support code uses (RM0433 and the Armv7-M manual). */
#ifndef DORY_STM32H7_REGISTERS_H
#define DORY_STM32H7_REGISTERS_H

#include <stdint.h>

#define REG32(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* Revision of the chip, and how many reads the interconnect has under way to AXI SRAM. */
#define DBGMCU_IDCODE REG32(0x5C001000u)
#define DBGMCU_IDCODE_REVISION(idcode) ((idcode) >> 16)
#define REVISION_V 0x2003u
#define AXI_TARG7_FN_MOD REG32(0x51008108u)
#define AXI_TARG7_FN_MOD_ONE_READ (1u << 0)

/* System control block. */
#define SCB_CCR REG32(0xE000ED14u)
#define SCB_CCR_DC (1u << 16)
#define SCB_CCR_IC (1u << 17)
#define SCB_CCSIDR REG32(0xE000ED80u)
#define SCB_CSSELR REG32(0xE000ED84u)
#define SCB_VTOR REG32(0xE000ED08u)
#define SCB_CPACR REG32(0xE000ED88u)
#define SCB_CPACR_FPU (0xFu << 20)
#define SCB_ICIALLU REG32(0xE000EF50u)
#define SCB_DCISW REG32(0xE000EF60u)
#define SCB_DCCIMVAC REG32(0xE000EF70u)
#define SCB_DCCISW REG32(0xE000EF74u)
#define SCB_DHCSR REG32(0xE000EDF0u)
#define SCB_DHCSR_C_DEBUGEN (1u << 0)
#define SCB_DEMCR REG32(0xE000EDFCu)
#define SCB_DEMCR_TRCENA (1u << 24)

/* Memory protection unit. */
#define MPU_CTRL REG32(0xE000ED94u)
#define MPU_CTRL_ENABLE (1u << 0)
#define MPU_CTRL_PRIVDEFENA (1u << 2)
#define MPU_RNR REG32(0xE000ED98u)
#define MPU_RBAR REG32(0xE000ED9Cu)
#define MPU_RASR REG32(0xE000EDA0u)
#define MPU_RASR_ENABLE (1u << 0)
#define MPU_RASR_SIZE(log2) (((log2)-1u) << 1)
#define MPU_RASR_NORMAL_UNCACHED (1u << 19) /* TEX 1, C 0, B 0 */
#define MPU_RASR_NORMAL_CACHED ((1u << 19) | (3u << 16)) /* TEX 1, C 1, B 1: written back */
#define MPU_RASR_SHARED (1u << 18)
#define MPU_RASR_FULL_ACCESS (3u << 24)
#define MPU_RASR_XN (1u << 28)

/* Cycle counter. */
#define DWT_CTRL REG32(0xE0001000u)
#define DWT_CTRL_CYCCNTENA (1u << 0)
#define DWT_CYCCNT REG32(0xE0001004u)
#define DWT_LAR REG32(0xE0001FB0u)
#define DWT_LAR_KEY 0xC5ACCE55u

/* MDMA channel. */
typedef struct {
  volatile uint32_t isr, ifcr, esr, cr;
  volatile uint32_t tcr, bndtr, sar, dar, brur, lar, tbr, reserved, mar, mdr;
  uint32_t gap[2];
} mdma_channel_t;

#define MDMA_CHANNELS 16u
#define MDMA_CHANNEL(n) ((mdma_channel_t *)(uintptr_t)(0x52000040u + 0x40u * (n)))

#define MDMA_ISR_TEIF (1u << 0)
#define MDMA_ISR_CTCIF (1u << 1)
#define MDMA_IFCR_ALL 0x1Fu
#define MDMA_CR_EN (1u << 0)
#define MDMA_CR_PL_MEDIUM (1u << 6)
#define MDMA_CR_SWRQ (1u << 16)
#define MDMA_TCR_SINC_UP (2u << 0)
#define MDMA_TCR_DINC_UP (2u << 2)
#define MDMA_TCR_SSIZE(log2) ((uint32_t)(log2) << 4)
#define MDMA_TCR_DSIZE(log2) ((uint32_t)(log2) << 6)
#define MDMA_TCR_SINCOS(log2) ((uint32_t)(log2) << 8)
#define MDMA_TCR_DINCOS(log2) ((uint32_t)(log2) << 10)
#define MDMA_TCR_SBURST(log2) ((uint32_t)(log2) << 12)
#define MDMA_TCR_DBURST(log2) ((uint32_t)(log2) << 15)
#define MDMA_TCR_TLEN(bytes) ((uint32_t)((bytes)-1u) << 18)
#define MDMA_TCR_PKE (1u << 25)
#define MDMA_TCR_TRGM_ALL (3u << 28)
#define MDMA_TCR_SWRM (1u << 30)
#define MDMA_BNDTR_BRC(repeats) ((uint32_t)(repeats) << 20)
#define MDMA_TBR_SBUS (1u << 16)
#define MDMA_TBR_DBUS (1u << 17)

static inline void dsb(void) { __asm__ volatile("dsb 0xF" ::: "memory"); }

/* Does an operation by set and way, SCB_DCISW or SCB_DCCISW, on every line of the data cache. */
static inline void every_line_of_data_cache(volatile uint32_t *operation)
{
  SCB_CSSELR = 0;
  dsb();
  const uint32_t size = SCB_CCSIDR;
  const uint32_t sets = (size >> 13 & 0x7FFFu) + 1u, ways = (size >> 3 & 0x3FFu) + 1u;
  for (uint32_t set = 0; set < sets; set++) {
    for (uint32_t way = 0; way < ways; way++) {
      *operation = set << 5 | way << 30;
    }
  }
  dsb();
}

/* Turns interrupts off; returns what interrupts_restore turns back. */
static inline uint32_t interrupts_off(void)
{
  uint32_t mask;
  __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(mask) : : "memory");
  return mask;
}

static inline void interrupts_restore(uint32_t mask)
{
  __asm__ volatile("msr primask, %0" : : "r"(mask) : "memory");
}

static inline void isb(void) { __asm__ volatile("isb 0xF" ::: "memory"); }

#endif
