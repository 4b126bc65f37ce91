/* What main needs of a board: where inputs come from, where results go. Everything is defined
 * weakly; define it in a file of your own for another board. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

enum { BOARD_EXIT_OK = 0, BOARD_EXIT_DIFFERS = 5, BOARD_EXIT_FAULT = 70 };

/* The input of a run, in storage form; NULL when there are no more. Default: the test vectors in
 * the image, one after the other. */
const void *board_input(uint32_t run);

/* Whether a network with state begins a run with its initial state, not with that of the run before.
 * Default: as the test vectors in the image do. */
int board_begins(uint32_t run);

/* A layer is complete, or the next piece of it. Default: compares it when the image holds goldens
 * of all layers. */
void board_layer(int layer, const void *data, uint32_t bytes);

/* A run is complete. Default: compares the output with the image's, if it holds one. data: NULL
 * where outputs go by rows. */
void board_output(uint32_t run, const void *data, uint32_t bytes);

/* Where inputs come by rows: writes the next rows of an input to dst, 0 when that is done. Default:
 * copies them from where board_input says. */
int board_next_rows(uint32_t input, void *dst, uint32_t first, uint32_t rows);

/* Where outputs go by rows: the next rows of an output. Default: as of board_output. */
void board_put_rows(uint32_t output, const void *src, uint32_t first, uint32_t rows);

/* Prints a string. Default: semihosting, while a debugger is attached. */
void board_print(const char *text);

/* Ends the program. Default: semihosting, then an endless loop. */
void board_exit(int status) __attribute__((noreturn));

#endif
