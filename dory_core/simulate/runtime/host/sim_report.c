/* Faults and their context: layer, tile, line. Also what the operating system and the sanitizers
 * find (an access to a guard page, a data race) is reported with layer and tile. */
#include "sim_internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
  int index; /* -1: before the first layer */
  char name[128];
} current = {-1, ""};
static __thread int32_t tile_of_core = -1; /* none yet; its own: it may be ahead of core 0 */
static int layer_is_open; /* a layer has begun and not ended */

static pthread_mutex_t reporting = PTHREAD_MUTEX_INITIALIZER;

const char *sim_basename(const char *path) {
  if (path == NULL) return "?";
  const char *const slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

int32_t sim_current_tile(void) { return tile_of_core; }
int sim_current_layer(void) { return current.index; }
int sim_open_layer(void) { return layer_is_open ? current.index : -1; }

/* Written without locks and without the C library, for signal handlers and sanitizers. */
#if defined(__GNUC__)
__attribute__((no_sanitize_thread))
#endif
static size_t append(char *text, size_t used, size_t room, const char *more) {
  while (*more != '\0' && used + 1 < room) text[used++] = *more++;
  text[used] = '\0';
  return used;
}

#if defined(__GNUC__)
__attribute__((no_sanitize_thread))
#endif
static size_t append_number(char *text, size_t used, size_t room, int64_t value) {
  char digits[24];
  size_t at = sizeof digits - 1;
  uint64_t rest = value < 0 ? (uint64_t)-value : (uint64_t)value;
  digits[at] = '\0';
  do digits[--at] = (char)('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (value < 0) digits[--at] = '-';
  return append(text, used, room, digits + at);
}

#if defined(__GNUC__)
__attribute__((no_sanitize_thread))
#endif
static size_t context(char *text, size_t room) {
  size_t used = append(text, 0, room, "dory-sim: error: ");
  if (current.index < 0) return append(text, used, room, "before the first layer: ");
  used = append(text, used, room, "layer ");
  used = append_number(text, used, room, current.index);
  used = append(text, used, room, " '");
  used = append(text, used, room, current.name);
  used = append(text, used, room, "'");
  if (tile_of_core >= 0) {
    used = append(text, used, room, ", tile ");
    used = append_number(text, used, room, tile_of_core);
  }
  return append(text, used, room, ": ");
}

static void emit(const char *text, size_t length) {
  while (length > 0) {
    const ssize_t n = write(STDERR_FILENO, text, length);
    if (n <= 0) return;
    text += n;
    length -= (size_t)n;
  }
}

void dory_sim_fault(const char *file, int line, const char *format, ...) {
  char text[1600];
  va_list arguments;
  pthread_mutex_lock(&reporting); /* never released: the first fault is the one reported */
  size_t used = context(text, sizeof text);
  va_start(arguments, format);
  const int n = vsnprintf(text + used, sizeof text - used, format, arguments);
  va_end(arguments);
  if (n > 0) used = used + (size_t)n < sizeof text ? used + (size_t)n : sizeof text - 1;
  if (file != NULL) {
    used = append(text, used, sizeof text, " (");
    used = append(text, used, sizeof text, sim_basename(file));
    used = append(text, used, sizeof text, ":");
    used = append_number(text, used, sizeof text, line);
    used = append(text, used, sizeof text, ")");
  }
  used = append(text, used, sizeof text - 1, "\n");
  emit(text, used);
  _exit(DORY_SIM_EXIT_FAULT);
}

/* --- guard pages --- */

static struct sigaction previous_segv, previous_bus;

static void on_bad_access(int signal_number, siginfo_t *info, void *machine) {
  char text[400];
  (void)machine;
  const uint8_t *const address = info->si_addr;
  const sim_arena_t *const arena = sim_guarding(address);
  size_t used = context(text, sizeof text);
  used = append(text, used, sizeof text, "core ");
  used = append_number(text, used, sizeof text, dory_core_id());
  used = append(text, used, sizeof text, " touches ");
  if (arena != NULL && address >= arena->base && address - arena->base < (int64_t)arena->size) {
    used = append(text, used, sizeof text, "byte ");
    used = append_number(text, used, sizeof text, address - arena->base);
    used = append(text, used, sizeof text, " of ");
    used = append(text, used, sizeof text, arena->name);
    used = append(text, used, sizeof text, ", which only transfers and devices reach\n");
    emit(text, used);
    _exit(DORY_SIM_EXIT_FAULT);
  }
  if (arena == NULL) { /* not ours: let the access fault again for whoever was here before */
    used = append(text, used, sizeof text, "memory far outside L1 and L2\n");
    emit(text, used);
    sigaction(signal_number, signal_number == SIGSEGV ? &previous_segv : &previous_bus, NULL);
    return;
  }
  used = append(text, used, sizeof text, arena->name);
  if (address < arena->base) {
    used = append(text, used, sizeof text, " ");
    used = append_number(text, used, sizeof text, arena->base - address);
    used = append(text, used, sizeof text, " bytes before its start\n");
  } else {
    used = append(text, used, sizeof text, " ");
    used = append_number(text, used, sizeof text,
                         address - arena->base - (int64_t)arena->size + 1);
    used = append(text, used, sizeof text, " bytes behind its end\n");
  }
  emit(text, used);
  _exit(DORY_SIM_EXIT_FAULT);
}

/* --- sanitizers --- */

/* Prints the layer once, whichever of the callbacks comes first. */
#if defined(__GNUC__)
__attribute__((no_sanitize_thread))
#endif
static void name_the_layer(void) {
  static volatile sig_atomic_t named;
  if (named) return;
  named = 1;
  char text[300];
  size_t used = context(text, sizeof text);
  used = append(text, used, sizeof text, "found by the sanitizer, see its report\n");
  emit(text, used);
}

#if defined(__GNUC__) && defined(__ELF__)
/* Called by the ThreadSanitizer runtime after each report. */
void __tsan_on_report(void *report);
void __tsan_on_report(void *report) {
  (void)report;
  name_the_layer();
  _exit(DORY_SIM_EXIT_FAULT);
}

/* Called by the UndefinedBehaviorSanitizer runtime before it prints a report. */
void __ubsan_on_report(void);
void __ubsan_on_report(void) { name_the_layer(); }

/* Present when a sanitizer is linked in. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));
#endif

void sim_report_init(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_bad_access;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
#if defined(__GNUC__) && defined(__ELF__)
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(name_the_layer);
#endif
}

static int tile_is_due; /* what the tile changes is checked at the next barriers */

void sim_report_reset(void) {
  layer_is_open = tile_is_due = 0;
  current.index = -1;
  tile_of_core = -1;
}

/* --- marks of generated code --- */

void dory_sim_layer(int index, const char *name, const dory_sim_mark_t *kept, size_t count,
                    const char *file, int line) {
  tile_of_core = -1;
  if (dory_core_id() != 0) return;
  dory_sim_layer_end(file, line);
  layer_is_open = 1;
  for (size_t i = 0; i < count; ++i) sim_l1_keep(kept[i].ptr, kept[i].bytes, file, line);
  dory_sim_given(file, line);
  sim_require_idle(0, 1, file, line);
  sim_take_ahead();
  sim_part();
  sim_check_canaries(file, line);
  sim_lock();
  current.index = index;
  const size_t used = append(current.name, 0, sizeof current.name, name);
  memset(current.name + used, 0, sizeof current.name - used);
  sim_unlock();
  sim_poison_l1();
  sim_marks_begin(0, 0);
}

void dory_sim_layer_end(const char *file, int line) {
  if (dory_core_id() != 0 || !layer_is_open) return;
  layer_is_open = 0;
  tile_is_due = 0;
  sim_require_idle(0, 1, file, line);
  sim_check_canaries(file, line);
  sim_check_owners(1);
  sim_marks_begin(0, 0);
}

void dory_sim_tile(int32_t tile, const dory_sim_mark_t *marks, size_t count, const char *file,
                   int line) {
  tile_of_core = tile;
  if (dory_core_id() != 0) return;
  if (tile_is_due) sim_end_writes(); /* of the tile before, checked at the last barrier */
  tile_is_due = sim_config.cores > 1;
  if (!tile_is_due) sim_check_owners(0);
  sim_marks_begin(1, tile_is_due ? 1 : 0);
  sim_lock();
  sim_count_call(current.index);
  sim_unlock();
  sim_marks_add(marks, count, file, line);
}

/* The cores have met when the tile is declared, so the others compute: its writes are checked at each
 * barrier up to the next tile: the last stands after the kernel, those before it in the kernel. All
 * cores stand there: one that goes on may write before core 0 declares the next tile. */
void sim_meet(void) {
  if (tile_is_due) sim_check_at_barrier();
}
