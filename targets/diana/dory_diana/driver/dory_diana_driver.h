/* Calls of Diana's driver library, by their public names. docs/contract.md says what they compute,
 * what lies where, and which calls are wrong.
 *
 * L2 addresses are addresses; L1 addresses are byte offsets from 0 (dory_diana_l1). Each call starts
 * a job, which the barrier of its array waits for. On the chip an address is an unsigned int, which
 * uintptr_t is there; on the host the functional model takes the place of the library. */
#ifndef DORY_DIANA_DRIVER_H
#define DORY_DIANA_DRIVER_H

#include <stdint.h>

#ifdef DORY_DIANA_SDK_HEADER /* the board's own declarations, for example "\"diana.h\"" */
#include DORY_DIANA_SDK_HEADER
#else

/* Each call reads the fields that the contract names for it. */
typedef struct {
  int padding;             /* packed: digital and analog calls have packings of their own */
  int c, k;                /* input channels, output channels */
  int cx, cy;              /* columns and rows of the input tile */
  int fx, fy;              /* columns and rows of the filter */
  int ox, oy;              /* columns and rows of the output tile; analog: ox / ox_unroll columns */
  int ox_unroll;           /* analog: neighbouring output columns computed at once */
  int activation_function; /* 0: signed output, 1: ReLU */
  int output_shift;
  int dilation;
  int stride;              /* digital: 0 for 1, 1 for 2; analog: the number */
} Layer_parameters;

void digital_conv_2d(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l1_W,
                     uintptr_t l1_y, Layer_parameters *parameters);
void digital_depthwise_conv_2d(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l1_W,
                               uintptr_t l1_y, Layer_parameters *parameters);
void digital_fully_connected(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l1_W,
                             uintptr_t l1_y, Layer_parameters *parameters);
void element_wise_sum(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_x2, uintptr_t l1_x2,
                      uintptr_t l1_y, Layer_parameters *parameters);
void analog_conv_2d(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l2_BN,
                    uintptr_t l1_W, uintptr_t l1_y, Layer_parameters *parameters);
void analog_fully_connected(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l2_BN,
                            uintptr_t l1_W, uintptr_t l1_y, Layer_parameters *parameters);

/* Wait for the job of an array, or for the copy on its side. */
void dory_cores_barrier_digital(void);
void dory_cores_barrier_analog(void);

/* Start a copy of contiguous bytes. direction: 0 to L1, 1 to L2. banks: 1. */
void memcpy_dig(unsigned int *l2, unsigned int l1, unsigned int bytes, unsigned int direction,
                unsigned int banks);
void memcpy_analog(unsigned int *l2, unsigned int l1, unsigned int bytes, unsigned int direction,
                   unsigned int banks);

#endif

/* The L1 address, as the calls count, of a pointer into the L1 arena. The pointer is not followed. */
uintptr_t dory_diana_l1(const void *pointer);

#endif
