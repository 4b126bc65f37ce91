/* The names of the SDK that applications use, with the models of this folder behind them. */
#ifndef PMSIS_H
#define PMSIS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct pi_device {
  void *config;
};

void pi_open_from_conf(struct pi_device *device, void *conf);

int pmsis_kickoff(void *entry);
void pmsis_exit(int status);
void pi_time_wait_us(int microseconds);
enum { PI_FREQ_DOMAIN_FC, PI_FREQ_DOMAIN_CL };
int32_t pi_freq_set(int domain, uint32_t hertz);

void *pi_l2_malloc(int size);
void pi_l2_free(void *chunk, int size);
uint32_t pi_is_fc(void);

struct pi_cluster_conf {
  int id;
};
struct pi_cluster_task {
  void (*entry)(void *);
  void *arg;
  void *stacks;
  uint32_t stack_size, slave_stack_size;
  int nb_cores;
};
void pi_cluster_conf_init(struct pi_cluster_conf *conf);
int pi_cluster_open(struct pi_device *device);
int pi_cluster_close(struct pi_device *device);
void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size);
struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *),
                                        void *arg);
typedef struct {
  int ready;
} pi_task_t;
pi_task_t *pi_task_block(pi_task_t *task);
void pi_task_wait_on(pi_task_t *task);
int pi_cluster_send_task_to_cl_async(struct pi_device *device, struct pi_cluster_task *task,
                                     pi_task_t *end);
void pi_cl_team_fork(int cores, void (*entry)(void *), void *arg);
void pi_cl_team_barrier(int id);
uint32_t pi_core_id(void);

enum { PI_PERF_CYCLES = 16 };
void pi_perf_conf(unsigned events);
void pi_perf_reset(void);
void pi_perf_start(void);

#endif
