# Builds the application for the host and runs it on the simulation; included by the application's
# Makefile, from whose directory everything is named.
#
#   make            build/<variant>/app
#   make run        run it on vectors/ (RUN_ARGS="--dma random --seed 7")
#   make clean
#   CC=, CFLAGS=, SANITIZE=address,undefined|thread

ifeq ($(origin CC),default)
CC := cc
endif
CFLAGS ?= -O2
SANITIZE ?=
RUN_ARGS ?=

comma := ,
VARIANT := host$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
BUILD := build/$(VARIANT)

HOST_FLAGS := -std=c99 -Wall -Wextra -Wpedantic -Werror \
  -Iinc -Isrc -Ihal/include -Ihal/host -Ikernels -Ikernels/external -Ikernels/external/host
# A library that is not ours is compiled as it is.
EXTERNAL_FLAGS := -std=gnu99 -w -fwrapv -fno-strict-aliasing -flax-vector-conversions
ifneq ($(SANITIZE),)
HOST_FLAGS += -g -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# Sources with marks for the simulation include those of src/ in whose place they stand.
MARKED := $(wildcard hal/host/marks/*.c)
HOST_SOURCES := $(filter-out $(MARKED:hal/host/marks/%=src/%),$(wildcard src/*.c)) $(MARKED) \
  $(wildcard weights/*.c kernels/*.c kernels/external/*.c hal/host/*.c)
HOST_OBJECTS := $(HOST_SOURCES:%.c=$(BUILD)/%.o)
COMPILE := $(CC) $(CFLAGS) $(HOST_FLAGS)

# With several jobs (-j) nothing is built while `clean` removes it.
ifneq ($(and $(filter clean,$(MAKECMDGOALS)),$(word 2,$(MAKECMDGOALS))),)
.NOTPARALLEL:
endif

.PHONY: all run clean FORCE
all: $(BUILD)/app

run: $(BUILD)/app
	$(BUILD)/app $(RUN_ARGS)

clean:
	rm -rf build

$(BUILD)/app: $(HOST_OBJECTS)
	$(COMPILE) $(HOST_OBJECTS) -o $@ $(LDFLAGS) -lpthread

$(BUILD)/%.o: %.c $(BUILD)/command
	@mkdir -p $(@D)
	$(COMPILE) $(if $(filter kernels/external/%,$<),$(EXTERNAL_FLAGS)) -MMD -MP -c $< -o $@

# Changes when the compile command does, so that objects of other flags are rebuilt.
$(BUILD)/command: FORCE
	@mkdir -p $(@D)
	@echo '$(COMPILE)' | cmp -s - $@ || echo '$(COMPILE)' > $@

-include $(HOST_OBJECTS:.o=.d)
