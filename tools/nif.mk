# priv/flame_prof_nif.so out of c_src/. Called by the Makefile and by rebar3's
# pre-hook; run it from the top of the checkout.
#
# Objects live in _build/c/<OTP release>/, so that the releases of a matrix do
# not share them. libuv, zstd and zlib are linked statically where they are position
# independent: what we load then does not depend on, or clash with, a library
# that the profiled VM has loaded. The version script, --exclude-libs and
# -Bsymbolic keep our names and theirs to ourselves.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:

CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
PKG_CONFIG ?= pkg-config
# tools/asan.sh builds another one elsewhere.
NIF := priv/flame_prof_nif.so
LINKED := $(if $(filter priv/%,$(NIF)),_build/c/linked,$(dir $(NIF)).linked)

# One question to the VM: "release include-dir", with the headers of the VM
# that is first on the PATH.
OTP_FACTS := $(shell tools/otp_facts.sh)
OTP := $(word 1,$(OTP_FACTS))
ERL_INCLUDE := $(word 2,$(OTP_FACTS))
ifeq ($(OTP),)
$(error Erlang is missing. To install it: Debian, Ubuntu: apt-get install erlang-base erlang-dev (or: make deps-build); Fedora: dnf install erlang-erts; Alpine: apk add erlang erlang-dev)
endif

ifeq ($(WERROR),1)
BUILD := _build/c/$(OTP)-werror
WERROR_FLAG := -Werror
else
BUILD := _build/c/$(OTP)
endif

SOURCES := $(sort $(wildcard c_src/*.c c_src/*/*.c c_src/*/*/*.c))
OBJECTS := $(SOURCES:c_src/%.c=$(BUILD)/%.o)

OPTIMIZE ?= -O2 -g
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers
# Where libuv and zstd are in a prefix of their own, pkg-config knows it.
LIB_CPPFLAGS := $(shell $(PKG_CONFIG) --cflags libuv libzstd zlib 2>/dev/null)
NIF_CPPFLAGS := -D_GNU_SOURCE= -isystem $(ERL_INCLUDE) $(LIB_CPPFLAGS) $(CPPFLAGS)
NIF_CFLAGS := -std=c11 $(OPTIMIZE) -fPIC -fvisibility=hidden -pthread \
              $(WARNINGS) $(WERROR_FLAG) $(CFLAGS)
# $ORIGIN: `attach' puts what we are linked with beside us where a node lacks it.
# No -z defs: the enif_* functions are found in the VM at load time; -z now makes
# any other missing symbol fail the load instead of a later call.
NIF_LDFLAGS := -shared -pthread -Wl,-z,relro -Wl,-z,now \
               -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-rpath,'$$ORIGIN' \
               -Wl,--version-script=tools/nif.map $(LDFLAGS)

# Put in place by rename only: a VM that has the old file mapped keeps it.
$(NIF): $(OBJECTS) $(BUILD)/libs tools/nif.map
	@mkdir -p $(@D)
	@echo "  LINK  $@ ($$(cat $(BUILD)/libs))"
	@new=$(@D)/.flame_prof_nif.so.$$$$; \
	if $(CC) $(NIF_LDFLAGS) -o $$new $(OBJECTS) $$(cat $(BUILD)/libs); \
	then mv -f $$new $@; echo $(BUILD) > $(LINKED); else rm -f $$new; exit 1; fi

$(BUILD)/%.o: c_src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(NIF_CPPFLAGS) $(NIF_CFLAGS) -MMD -MP -c -o $@ $<

# How to link libuv, zstd and zlib; fails with the names of the packages, on some
# systems, when their headers, or Erlang's, are not there.
$(BUILD)/libs: tools/find_libs.sh $(BUILD)/flags
	@CC="$(CC)" PKG_CONFIG="$(PKG_CONFIG)" CPPFLAGS="$(NIF_CPPFLAGS)" \
	    LDFLAGS="$(LDFLAGS)" tools/find_libs.sh > $@.new && mv -f $@.new $@

$(OBJECTS): | $(BUILD)/libs

# Rewritten only when it changes: another compiler or flag rebuilds everything.
FLAGS := $(CC) $(NIF_CPPFLAGS) $(NIF_CFLAGS) $(NIF_LDFLAGS) $(sort $(SOURCES))
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

# The library that is in place was linked for one release: another one, or a
# build with other flags, replaces it even when it is newer.
ifneq ($(shell cat $(LINKED) 2>/dev/null),$(BUILD))
$(NIF): FORCE
endif
.PHONY: FORCE
FORCE:

-include $(OBJECTS:.o=.d)
