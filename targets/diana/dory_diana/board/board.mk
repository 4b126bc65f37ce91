# Compiles for the RISC-V host of the chip; included by the application's Makefile.
#
#   make chip      build/diana/*.o, with riscv32-unknown-elf-gcc or else the ziglang wheel
#
# The driver library of the board is not part of the application: link these objects with it and the
# board's start-up code. Its declarations replace those of dory_diana_driver.h with
# CHIP_FLAGS='-DDORY_DIANA_SDK_HEADER="\"diana.h\""'.

ifneq ($(shell command -v riscv32-unknown-elf-gcc),)
CHIP_CC ?= riscv32-unknown-elf-gcc
CHIP_TARGET ?= -march=rv32imc -mabi=ilp32
else
CHIP_CC ?= python3 -m ziglang cc
CHIP_TARGET ?= -target riscv32-linux-musl -mcpu=generic_rv32+m+c
endif
CHIP_FLAGS ?=

CHIP := build/diana
CHIP_COMPILE := $(CHIP_CC) $(CHIP_TARGET) -O2 -std=c99 -ffreestanding -ffunction-sections \
  -fdata-sections -Wall -Wextra -Wpedantic -Werror \
  -Iinc -Isrc -Ihal/include -Ihal/diana -Ikernels -Iboard $(CHIP_FLAGS)
CHIP_SOURCES := $(wildcard src/*.c weights/*.c kernels/*.c hal/diana/*.c board/*.c board/*.S)
CHIP_OBJECTS := $(addprefix $(CHIP)/,$(addsuffix .o,$(CHIP_SOURCES)))

.PHONY: chip
chip: $(CHIP_OBJECTS)

$(CHIP)/%.o: %
	@mkdir -p $(@D)
	$(CHIP_COMPILE) -MMD -MP -c $< -o $@

-include $(CHIP_OBJECTS:.o=.d)
