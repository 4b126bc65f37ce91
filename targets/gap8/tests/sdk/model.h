/* The models, as a test program sees them. */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

/* Commands that the DMA was given so far. */
typedef struct {
  uint32_t bytes, row, stride; /* row, stride: 0 for 1-D */
  int to_l1;
} model_command_t;
extern model_command_t model_commands[4096];
extern uint32_t model_command_count;

extern uint8_t model_l1[];

/* When the DMA moves bytes: 0 when a core sleeps until then, 1 at once. */
extern int model_early;

/* 1: no core may have two commands under way. */
extern int model_alone;

/* Runs a function on so many cores of a cluster. */
void model_run(int cores, void (*entry)(void *), void *argument);

/* Fails unless nothing is open and nothing under way. */
void model_finish(void);

/* Ends the program with status 71. */
void model_fail(const char *what);

/* Between the models: what memory holds that nothing wrote yet; whether the caller runs on the
 * cluster; takes a file as one of the flash. */
#define MODEL_POISON 0xA5
int model_on_cluster(void);
void model_load_file(const char *path);

#endif
