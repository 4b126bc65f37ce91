/* The beginning and the end of a function in assembly, which has a section of its own. Included by the
 * assembly of blocks and of strips.
 *
 * The section of the kernel's own function, which the compiler fills, follows the first of them: what
 * every tile runs lies together in the cache, and what few tiles run after it.
 *
 * The assembler compresses what it can: the cores share 4 KiB of instruction cache. The first
 * instruction of an inner loop begins a word (DORY_ALIGN), else each turn takes a cycle more. */

#define DORY_I(text) text "\n\t"

#define DORY_TEXT_(s) #s
#define DORY_TEXT(s) DORY_TEXT_(s)

#define DORY_ALIGN DORY_I(".balign 4")

#define DORY_SECTION(name) DORY_I(".pushsection .text." name ", \"ax\", @progbits")

#define DORY_FUNCTION(name)                                \
  DORY_SECTION(name)                                       \
  DORY_I(".option push")                                   \
  DORY_I(".option rvc")                                    \
  DORY_I(".balign 4")                                      \
  DORY_I(".globl " name)                                   \
  DORY_I(".type " name ", @function")                      \
  name ":\n\t"

#define DORY_FUNCTION_END(name)        \
  DORY_I(".size " name ", . - " name)  \
  DORY_I(".option pop")                \
  DORY_I(".popsection")                \
  DORY_SECTION(DORY_TEXT(DORY_KERNEL)) \
  DORY_I(".popsection")
