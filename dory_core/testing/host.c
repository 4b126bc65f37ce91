/* Kernels under test in a process of their own, so that one that crashes ends nothing else.
 *
 * A request on standard input: which case, how many cores, whether they run at once, the numbers of
 * the call, the size of each buffer (-1: there is none), the bytes of the buffers. The answer: their
 * bytes after the call. Every buffer is a memory block of exactly its size. */
#define _POSIX_C_SOURCE 200112L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dory_testing.h"

static void get(void *data, size_t bytes)
{
  if (fread(data, 1, bytes, stdin) != bytes) {
    exit(0); /* nobody asks any more */
  }
}

int main(int count, char **arguments)
{
  const unsigned int seconds = count > 1 ? (unsigned int)atoi(arguments[1]) : 0u;
  FILE *const answers = fdopen(dup(STDOUT_FILENO), "wb");
  /* What a kernel prints is no answer. */
  if (answers == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return 1;
  }
  for (;;) {
    uint32_t what[3];
    int32_t numbers[DORY_TESTING_NUMBERS];
    int64_t sizes[DORY_TESTING_POINTERS];
    void *pointers[DORY_TESTING_POINTERS];
    get(what, sizeof what);
    get(numbers, sizeof numbers);
    get(sizes, sizeof sizes);
    for (int i = 0; i < DORY_TESTING_POINTERS; i++) {
      pointers[i] = NULL;
      if (sizes[i] >= 0) {
        pointers[i] = malloc((size_t)sizes[i]);
        get(pointers[i], (size_t)sizes[i]);
      }
    }
    alarm(seconds);
    if (dory_testing_run(dory_testing_calls[what[0]], pointers, numbers, what[1], what[2] != 0) != 0) {
      fprintf(stderr, "%u cores cannot be started\n", (unsigned int)what[1]);
      return 1;
    }
    alarm(0);
    for (int i = 0; i < DORY_TESTING_POINTERS; i++) {
      if (sizes[i] > 0) {
        fwrite(pointers[i], 1, (size_t)sizes[i], answers);
      }
      free(pointers[i]);
    }
    fflush(answers);
  }
}
