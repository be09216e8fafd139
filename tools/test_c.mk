# The C tests: each test/c/test_*.c becomes a program in _build/ctest/VARIANT/,
# linked with everything in c_src/ but the folders that need a VM: with the objects of the two
# libraries themselves, which nif.mk made in PRODUCT, or, without PRODUCT, with others that
# SANITIZE instruments.
#
# c_src/ and the helpers (the other files of test/c/) are archives: a test that
# defines a module's functions itself, say a fake peek, replaces that module.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

VARIANT ?= asan
ifndef PRODUCT
SANITIZE ?= -fsanitize=address,undefined -fno-sanitize-recover=all
endif
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
PKG_CONFIG ?= pkg-config
BUILD := _build/ctest/$(VARIANT)

ifeq ($(WERROR),1)
WERROR_FLAG := -Werror
endif
# As in nif.mk, but for clang's idea that an enum is unsigned and needs a cast to
# become an int; gcc, which builds the NIF, looks after the other conversions.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers \
            -Wno-sign-conversion
# Without three alarms of gcc's, which are false in code that knows what its fakes answer, and which
# clang does not know.
TEST_WARNINGS := -Wall -Wextra -Wno-unknown-warning-option -Wno-maybe-uninitialized -Wno-format-truncation -Wno-clobbered
COMMON := -std=c11 -O1 -g1 -fno-omit-frame-pointer -pthread $(SANITIZE) \
          $(if $(PRODUCT),,-DFP_SLOW_CHECKS) -D_GNU_SOURCE= -Ic_src -Itest/c \
          $(shell $(PKG_CONFIG) --cflags libuv libzstd zlib 2>/dev/null)
LIBS := $(shell $(PKG_CONFIG) --libs libuv libzstd zlib 2>/dev/null || \
          echo -luv -lzstd -lz) -pthread -ldl -lm

SOURCES := $(filter-out c_src/agent_nif/% c_src/looks_nif/% c_src/report_nif/% c_src/nif/% c_src/terms/%, \
    $(sort $(wildcard c_src/*/*.c c_src/*/*/*.c)))
# test/sim/sim.c is one more (test/sim/world.h).
TESTS := $(filter $(if $(ONLY),$(ONLY:%=test/c/%.c) $(ONLY:%=test/sim/%.c),%), \
    $(sort $(wildcard test/c/test_*.c)) test/sim/sim.c)
HELPERS := $(filter-out test/c/test_% test/c/bench_%,$(sort \
    $(wildcard test/c/*.c)))
# test/fuzz/: the targets, which test_fuzz.c runs, and libFuzzer does by the
# program `fuzz` (tools/fuzz.sh).
TARGETS := $(filter-out test/fuzz/driver.c,$(sort $(wildcard test/fuzz/*.c)))

LIB_OBJECTS := $(if $(PRODUCT),$(SOURCES:c_src/%.c=$(PRODUCT)/%.o),$(SOURCES:%.c=$(BUILD)/%.o))
HELPER_OBJECTS := $(HELPERS:%.c=$(BUILD)/%.o)
TARGET_OBJECTS := $(TARGETS:%.c=$(BUILD)/%.o)
TEST_OBJECTS := $(TESTS:%.c=$(BUILD)/%.o)
PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(notdir $(TESTS)))

programs: $(PROGRAMS)
fuzz: $(BUILD)/fuzz
read_files: $(BUILD)/read_files

# In front of the other archives: its resident.h is of fake memory.
$(BUILD)/test_fuzz $(BUILD)/read_files $(BUILD)/fuzz: $(BUILD)/fuzz.a
$(BUILD)/test_fuzz $(BUILD)/read_files: FIRST := $(BUILD)/fuzz.a
$(BUILD)/fuzz: FIRST := $(BUILD)/fuzz.a -fsanitize=fuzzer

$(BUILD)/fuzz: $(BUILD)/test/fuzz/driver.o $(BUILD)/helpers.a \
    $(BUILD)/flame_prof.a
	$(LINK)
$(BUILD)/read_files: $(BUILD)/%: $(BUILD)/test/fuzz/%.o \
    $(BUILD)/helpers.a $(BUILD)/flame_prof.a
	$(LINK)
$(BUILD)/%: $(BUILD)/test/c/%.o $(BUILD)/helpers.a $(BUILD)/flame_prof.a
	$(LINK)
$(BUILD)/%: $(BUILD)/test/sim/%.o $(BUILD)/helpers.a $(BUILD)/flame_prof.a
	$(LINK)

# Clocks and sleeps are the test's where it says so: test/c/virtual_clock.h.
WRAP := -Wl,--wrap=clock_gettime,--wrap=clock_nanosleep

define LINK
@echo "  LINK  $@"
@$(CC) $(SANITIZE) -rdynamic -o $@ $(WRAP) $< $(FIRST) -Wl,--start-group \
    $(BUILD)/helpers.a $(BUILD)/flame_prof.a -Wl,--end-group $(LIBS)
endef

$(BUILD)/fuzz.a: $(TARGET_OBJECTS) $(BUILD)/flags
	@rm -f $@ && ar rcs $@ $(TARGET_OBJECTS)
$(BUILD)/helpers.a: $(HELPER_OBJECTS) $(BUILD)/flags
	@rm -f $@ && ar rcs $@ $(HELPER_OBJECTS)
$(BUILD)/flame_prof.a: $(LIB_OBJECTS) $(BUILD)/flags
	@rm -f $@ && ar rcs $@ $(LIB_OBJECTS)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $< ($(VARIANT))"
	@$(CC) $(COMMON) $(if $(filter c_src/%,$<),$(WARNINGS),$(TEST_WARNINGS)) \
	    $(WERROR_FLAG) -MMD -MP -c -o $@ $<

FLAGS := $(CC) $(COMMON) $(WARNINGS) $(TEST_WARNINGS) $(WERROR_FLAG) $(PRODUCT) \
    $(sort $(SOURCES) $(HELPERS) $(TARGETS))
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
.PHONY: FORCE programs fuzz read_files
FORCE:

-include $(if $(PRODUCT),,$(LIB_OBJECTS:.o=.d)) $(HELPER_OBJECTS:.o=.d) $(TEST_OBJECTS:.o=.d) \
    $(TARGET_OBJECTS:.o=.d)
