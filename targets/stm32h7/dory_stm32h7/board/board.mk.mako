# Builds the image for the part ${part}; included by the application's Makefile.
#
#   make image      build/${part}/${program}, with arm-none-eabi-gcc or else the ziglang wheel
% if serial:
#   make flash LOADER=FILE   writes it with STM32CubeProgrammer and the loader of the board's flash
% else:
#   make flash      writes it with st-flash\
% endif
% if external:
; external.bin is for the external flash, with a loader of the board\
% endif


ifneq ($(shell command -v ${gcc}),)
ARM_CC ?= ${gcc}
else
ARM_CC ?= python3 -m ziglang cc
endif

ifneq ($(findstring zig,$(notdir $(ARM_CC))),)
ARM_FLAGS ?= ${" ".join(zig_flags)}
ARM_LINK_FLAGS ?=
else ifneq ($(findstring clang,$(notdir $(ARM_CC))),)
ARM_FLAGS ?= $(error ARM_CC is a clang: give its flags in ARM_FLAGS and ARM_LINK_FLAGS)
else
ARM_FLAGS ?= ${" ".join(gcc_flags)}
ARM_LINK_FLAGS ?= ${" ".join(gcc_link_flags)}
endif

IMAGE := build/${part}
IMAGE_FLAGS = $(ARM_FLAGS) ${" ".join(flags)} \
  ${" ".join((*(f"'-D{name}={value}'" for name, value in defines), *(f"-I{folder}" for folder in includes)))}
IMAGE_SOURCES := $(wildcard ${" ".join(f"{folder}/*.c {folder}/*.S" for folder in sources)})
IMAGE_OBJECTS := $(addprefix $(IMAGE)/,$(addsuffix .o,$(IMAGE_SOURCES)))

.PHONY: image flash
image: $(IMAGE)/${program}

$(IMAGE)/${program}: $(IMAGE_OBJECTS) ${script} ${sections}
	$(ARM_CC) $(IMAGE_FLAGS) $(IMAGE_OBJECTS) -o $@ -Wl,-T,${script} -Wl,--gc-sections $(ARM_LINK_FLAGS)

$(IMAGE)/%.o: %
	@mkdir -p $(@D)
	$(ARM_CC) $(IMAGE_FLAGS) $(if $(filter kernels/external/%,$<),$(EXTERNAL_FLAGS)) \
	  -MMD -MP -c $< -o $@

flash: $(IMAGE)/${program}
% if external:
	arm-none-eabi-objcopy -O binary -j ${external} $< $(IMAGE)/external.bin
	arm-none-eabi-objcopy -O binary -R ${external} $< $(IMAGE)/app.bin
% else:
	arm-none-eabi-objcopy -O binary $< $(IMAGE)/app.bin
% endif
% if serial:
	STM32_Programmer_CLI -c port=SWD -el "$(LOADER)" -w $(IMAGE)/app.bin ${f"0x{flash:08x}"}
% else:
	st-flash write $(IMAGE)/app.bin ${f"0x{flash:08x}"}
% endif

-include $(IMAGE_OBJECTS:.o=.d)
