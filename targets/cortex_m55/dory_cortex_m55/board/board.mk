# Builds the image for the Corstone-300; included by the application's Makefile.
#
#   make image      build/corstone300/app.elf, with arm-none-eabi-gcc or else the ziglang wheel

ifneq ($(shell command -v @GCC@),)
ARM_CC ?= @GCC@
else
ARM_CC ?= python3 -m ziglang cc
endif

ifneq ($(findstring zig,$(notdir $(ARM_CC))),)
ARM_FLAGS ?= @ZIG_FLAGS@
ARM_LINK_FLAGS ?=
else ifneq ($(findstring clang,$(notdir $(ARM_CC))),)
ARM_FLAGS ?= $(error ARM_CC is a clang: give its flags in ARM_FLAGS and ARM_LINK_FLAGS)
else
ARM_FLAGS ?= @GCC_FLAGS@
ARM_LINK_FLAGS ?= @GCC_LINK_FLAGS@
endif

IMAGE := build/corstone300
IMAGE_FLAGS = $(ARM_FLAGS) @FLAGS@ @INCLUDES@
IMAGE_SOURCES := $(wildcard @SOURCES@)
IMAGE_OBJECTS := $(addprefix $(IMAGE)/,$(addsuffix .o,$(IMAGE_SOURCES)))

.PHONY: image
image: $(IMAGE)/@PROGRAM@

$(IMAGE)/@PROGRAM@: $(IMAGE_OBJECTS) @SCRIPT@
	$(ARM_CC) $(IMAGE_FLAGS) $(IMAGE_OBJECTS) -o $@ -Wl,-T,@SCRIPT@ -Wl,--gc-sections $(ARM_LINK_FLAGS)

$(IMAGE)/%.o: %
	@mkdir -p $(@D)
	$(ARM_CC) $(IMAGE_FLAGS) $(if $(filter kernels/external/%,$<),$(EXTERNAL_FLAGS)) -MMD -MP -c $< -o $@

-include $(IMAGE_OBJECTS:.o=.d)
