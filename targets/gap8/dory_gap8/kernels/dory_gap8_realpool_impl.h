/* Means of 8-bit elements in binary32, as onnxruntime computes them: template of DORY_KERNEL.
 *
 * A core has no unit for binary32. The rounding of every addition moves a mean by less than
 * `margin`: where the exact mean is farther from a tie, its nearest integer is that of the mean in
 * binary32, and the sum of integers has it. Elsewhere the mean is computed as it is defined.
 *
 *   DORY_Y_T and the macros of dory_gap8_pool_bytes_impl.h, of a sum
 */
#define DORY_POOL_REAL 1
#define DORY_Y_BYTES 1

#include "dory_gap8_pool_bytes_impl.h"
