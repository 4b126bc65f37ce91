# Builds the application with the GreenWaves SDK, whose environment is set; included by the
# application's Makefile, from whose directory everything is named.
#
#   make clean all run platform=gvsoc PMSIS_OS=pulpos      on the simulator
#   make clean all run platform=board PMSIS_OS=pulpos      on the board
#
# GOLDEN: the files of vectors/ that are compared on the target. L3_FILES: constants in L3.
# STATE_FILES: which vectors begin with the initial state.

APP := dory
APP_SRCS := $(wildcard src/*.c weights/*.c kernels/*.c kernels/external/*.c hal/gap8/*.c)
APP_INC := inc src hal/include hal/gap8 kernels kernels/external

# The SDK's rules give no optimisation of their own. Kernels are for speed; the loops around them
# share a small instruction cache with them, and L2 with the data. So do the loops of kernels whose
# inner loops are assembly, unless sums go through C (raw), and those of tables. Larger windows and
# slides are faster with -O3. Depthwise kernels whose strips are assembly are compiled for size: they run
# fewer lines of the cache.
OPTIMISE ?= -O3
OPTIMISE_SMALL ?= $(OPTIMISE:-O3=-O2)
OPTIMISE_LEAST ?= $(OPTIMISE:-O3=-Os)
SMALL := filled gather held lut window_1x1
REPEAT ?= 1
APP_CFLAGS += -Os -DDORY_GAP8_REPEAT=$(REPEAT)
# A library of kernels takes the number of cores from the command line; C is to it what it is to the
# host simulation.
EXTERNAL_FLAGS := -fwrapv -fno-strict-aliasing
$(addprefix %/,$(patsubst %.c,%.o,$(wildcard kernels/external/*.c))): \
  APP_CFLAGS += -include dory_gap8_board.h -DNUM_CORES=DORY_GAP8_CORES $(EXTERNAL_FLAGS)
$(addprefix %/,$(patsubst %.c,%.o,$(wildcard kernels/*.c kernels/external/*.c))): APP_CFLAGS += $(OPTIMISE)
SMALL := $(wildcard $(SMALL:%=kernels/dory_gap8_%_*.c))
SMALL := $(foreach file,$(SMALL),$(if $(findstring _raw_,$(file)),,$(file)))
$(addprefix %/,$(SMALL:.c=.o)): APP_CFLAGS += $(OPTIMISE_SMALL)
LEAST := $(shell grep -ls 'define DORY_STRIP_ASM 1' kernels/*.c)
$(addprefix %/,$(LEAST:.c=.o)): APP_CFLAGS += $(OPTIMISE_LEAST)

# One file with all layers: an open file costs memory, the name of each one too.
GOLDEN_FILE := $(CURDIR)/BUILD/golden.bin
READFS_FILES := $(addprefix $(CURDIR)/,$(L3_FILES) vectors/input.bin $(STATE_FILES)) $(GOLDEN_FILE)

# With several jobs (-j) the SDK's rules would make images of what is not linked yet, and build while
# `clean` removes: one step after the other, and only `build` has the jobs.
ifneq ($(MAKECMDGOALS),build)
.NOTPARALLEL:
all::
	$(MAKE) build
endif

# The file must be there before the flash image is made; `all` alone is the goal of most builds.
all:: $(GOLDEN_FILE)
image flash flash_fs run: $(GOLDEN_FILE)

$(GOLDEN_FILE): $(GOLDEN)
	@mkdir -p $(@D)
	cat $(GOLDEN) > $@

include $(RULES_DIR)/pmsis_rules.mk
