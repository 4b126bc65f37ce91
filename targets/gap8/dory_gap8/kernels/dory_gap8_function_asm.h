/* The beginning and the end of a function in assembly: it has a section of its own, and no compressed
 * instructions. Included by the assembly of blocks and of strips. */

#define DORY_I(text) text "\n\t"

#define DORY_FUNCTION(name)                                \
  DORY_I(".pushsection .text." name ", \"ax\", @progbits") \
  DORY_I(".option push")                                   \
  DORY_I(".option norvc")                                  \
  DORY_I(".balign 4")                                      \
  DORY_I(".globl " name)                                   \
  DORY_I(".type " name ", @function")                      \
  name ":\n\t"

#define DORY_FUNCTION_END(name)       \
  DORY_I(".size " name ", . - " name) \
  DORY_I(".option pop")               \
  DORY_I(".popsection")
