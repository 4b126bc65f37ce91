# Stands for the rules of the SDK: what they read of an application's Makefile and the goals that
# they have. "The chip" is the host with the models of this folder.

ifneq ($(PMSIS_OS),pulpos)
$(error PMSIS_OS is pulpos, not '$(PMSIS_OS)')
endif
ifneq ($(platform),gvsoc)
$(error platform is gvsoc, not '$(platform)')
endif

STUB := $(patsubst %/rules/,%,$(dir $(lastword $(MAKEFILE_LIST))))
STUB_CC ?= cc
BUILDDIR := $(CURDIR)/BUILD/STUB
MODELS := $(BUILDDIR)/model.o $(BUILDDIR)/model_storage.o
OBJECTS := $(patsubst %.c,$(BUILDDIR)/%.o,$(APP_SRCS)) $(MODELS)
PULP_CFLAGS = $(APP_CFLAGS)
# An optimisation level in place of the application's, which takes three times as long to compile.
STUB_LEVEL ?=
FLAGS = $(STUB_LEVEL) -std=gnu99 -Wall -Wextra -Werror -g -DSTUB_L1_BYTES=65504 \
  -I$(STUB)/include -I$(STUB) $(addprefix -I,$(abspath $(APP_INC))) -include $(STUB)/model_registers.h

all:: build image flash_fs

build: $(BUILDDIR)/$(APP)

$(BUILDDIR)/$(APP): $(OBJECTS)
	$(STUB_CC) $(OBJECTS) -o $@ -lpthread

$(MODELS): $(BUILDDIR)/%.o: $(STUB)/%.c
	@mkdir -p $(dir $@)
	$(STUB_CC) $(PULP_CFLAGS) $(FLAGS) -c $< -o $@

$(BUILDDIR)/%.o: %.c
	@mkdir -p $(dir $@)
	$(STUB_CC) $(PULP_CFLAGS) $(FLAGS) $(if $(findstring /external/,$<),-w) -c $< -o $@

# As in the SDK, nothing says that the image needs the program.
image flash_fs:
	@for file in $(BUILDDIR)/$(APP) $(READFS_FILES); do test -f $$file || { echo "no $$file"; exit 1; }; done

run:
	$(BUILDDIR)/$(APP) $(READFS_FILES)

clean::
	rm -rf $(OBJECTS) ./BUILD

.PHONY: all build image flash_fs run clean
