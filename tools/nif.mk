# The three libraries out of c_src/. Called by the Makefile and by rebar3's
# pre-hook; run it from the top of the checkout.
#
#   priv/flame_prof_nif.so         the agent: what a session that runs needs
#   priv/flame_prof_looks_nif.so   looks and tracing, which a node has while they are used
#   priv/flame_prof_report_nif.so  the reader of profile files
#
# Each is the folder of its NIFs and, of all else, which is an archive, the members that
# these call: so the agent has no look, no zlib and no parser of files. What a library
# has is in _build/c/OTP/NAME.so.members (tools/closure.sh).
# Each library is stripped; NAME.so.debug beside it has its symbols (gdb finds them
# by name), and _build/c/OTP/NAME.so is the library before it was stripped. In a
# project of mix, whose releases take all of priv/, the symbols are in the latter only.
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
OBJCOPY ?= objcopy
STRIP ?= --strip-all
# tools/asan.sh builds others elsewhere.
PRIV := priv
LINKED := $(if $(filter priv,$(PRIV)),_build/c/linked,$(PRIV)/.linked)

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

# tools/check_arrows.sh checks the includes between these folders.
in = $(sort $(foreach folder,$(1),$(wildcard c_src/$(folder)/*.c)))
objects = $(patsubst c_src/%.c,$(BUILD)/%.o,$(1))
AGENT := $(call in,agent_nif)
LOOKS := $(call in,looks_nif)
REPORT := $(call in,report_nif)
MEMBERS := $(call in,base format store terms erts erts/capture erts/term cstack session waits xray \
               tracer nif report)
SOURCES := $(MEMBERS) $(AGENT) $(LOOKS) $(REPORT)
OBJECTS := $(call objects,$(SOURCES))

OPTIMIZE ?= -O2 -g
# What runs once for a call, and not for each sample or traced event: small, not fast.
COMPACT := $(filter-out %/tracer_nif.o %/trace_nif.o %/latency_nif.o %/allocations_nif.o, \
               $(call objects,$(call in,agent_nif looks_nif nif cstack xray))) \
           $(addprefix $(BUILD)/,tracer/open_words.o tracer/turns.o) \
           $(addprefix $(BUILD)/erts/,allocators.o allocators_solve.o allocator_parts.o carriers.o rss.o \
               layout_solve.o \
               layout_table.o perf_map.o process_names.o ets.o ets_solve.o ets_objects.o fragment.o \
               process_terms.o abandoned.o term/object.o code_scan.o functions.o symbolize.o \
               capture/sigcapture.o capture/shutdown.o) \
           $(addprefix $(BUILD)/session/,session.o inspect.o sampler_thread.o) \
           $(addprefix $(BUILD)/waits/,mailbox.o served.o) \
           $(addprefix $(BUILD)/store/,directory.o fs.o recover.o log_file.o log_name.o perf_map_file.o) \
           $(addprefix $(BUILD)/base/,check.o governor.o maps.o smaps.o seccomp.o) $(BUILD)/terms/terms.o
# Rows to unwind by are a sixth of a library. A debugger finds them in NAME.so.debug; flame_prof
# itself shows the C frames of its own NIFs no longer. Captures are checked with two files that
# keep theirs.
UNWIND := -fno-asynchronous-unwind-tables -fno-unwind-tables
$(BUILD)/agent_nif/capture_check_nif.o $(BUILD)/base/clock.o: UNWIND :=
# Of code that runs in production. Unset first: some compilers define it already.
HARDEN ?= -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
WARNINGS := -Wall -Wextra -Werror=implicit-function-declaration -Wshadow -Wconversion -Wno-missing-field-initializers
# Where libuv and zstd are in a prefix of their own, pkg-config knows it.
LIB_CPPFLAGS := $(shell $(PKG_CONFIG) --cflags libuv libzstd zlib 2>/dev/null)
NIF_CPPFLAGS := -D_GNU_SOURCE= -Ic_src -isystem $(ERL_INCLUDE) $(LIB_CPPFLAGS) $(CPPFLAGS)
NIF_CFLAGS = -std=c11 $(OPTIMIZE) $(HARDEN) $(UNWIND) -fPIC -fvisibility=hidden -pthread \
              $(WARNINGS) $(WERROR_FLAG) $(CFLAGS)
# $ORIGIN: `attach' puts what we are linked with beside us where a node lacks it.
# No -z defs: the enif_* functions are found in the VM at load time; -z now makes
# any other missing symbol fail the load instead of a later call.
NIF_LDFLAGS := -shared -pthread -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack \
               -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-rpath,'$$ORIGIN' \
               -Wl,--version-script=tools/nif.map $(LDFLAGS)

LIBRARIES := $(addprefix $(PRIV)/,flame_prof_nif.so flame_prof_looks_nif.so flame_prof_report_nif.so)
all: $(LIBRARIES)

$(PRIV)/flame_prof_nif.so: $(call objects,$(AGENT))
$(PRIV)/flame_prof_nif.so: LIBS = $(BUILD)/libs.agent
$(PRIV)/flame_prof_looks_nif.so: $(call objects,$(LOOKS))
$(PRIV)/flame_prof_looks_nif.so: LIBS = $(BUILD)/libs.looks
$(PRIV)/flame_prof_report_nif.so: $(call objects,$(REPORT))
$(PRIV)/flame_prof_report_nif.so: LIBS = $(BUILD)/libs.report

# Put in place by rename only: a VM that has the old file mapped keeps it.
$(LIBRARIES): $(BUILD)/members.a $(BUILD)/libs tools/nif.map
	@mkdir -p $(@D)
	@echo "  LINK  $@ ($$(cat $(LIBS)))"
	@whole=$(BUILD)/$(@F) new=$(@D)/.$(@F).$$$$; \
	if $(CC) $(NIF_LDFLAGS) -Wl,-t,-t -o $$whole $(filter %.o,$^) $(BUILD)/members.a $$(cat $(LIBS)) \
	        >$$whole.members && \
	    if [ -n "$(REBAR_BARE_COMPILER_OUTPUT_DIR)" ]; \
	    then rm -f $@.debug && $(OBJCOPY) $(STRIP) $$whole $$new; \
	    else $(OBJCOPY) --only-keep-debug $$whole $$new.debug && \
	        mv -f $$new.debug $@.debug && \
	        $(OBJCOPY) $(STRIP) --add-gnu-debuglink=$@.debug $$whole $$new; fi && \
	    mv -f $$new $@; \
	then echo $(BUILD) > $(LINKED); else rm -f $$new $$new.debug; exit 1; fi

# The libraries of a node for tests: the product's own objects, with what test/hooks/ wraps. And a
# library that only tests have, of the same objects.
hooks_of = $(patsubst test/%.c,$(BUILD)/%.o,$(sort $(wildcard test/hooks/*.c test/hooks/$(1)/*.c)))
HOOKED := $(addprefix _build/test/hooks/,flame_prof_nif.so flame_prof_looks_nif.so term_test_nif.so)
hooks: $(HOOKED)
WRAPPED_ATOMS := -Wl,--wrap=fp_atom_count,--wrap=fp_atom_is_known
$(HOOKED): $(LIBRARIES) FORCE
	@mkdir -p $(@D)
	@$(CC) $(NIF_LDFLAGS) $(WRAPPED) -o $@.new $(filter %.o,$^) $(BUILD)/members.a \
	    $$(cat $(LIBS)) && mv -f $@.new $@
_build/test/hooks/flame_prof_nif.so: $(call hooks_of,agent) $(call objects,$(AGENT))
_build/test/hooks/flame_prof_nif.so: LIBS = $(BUILD)/libs.agent
_build/test/hooks/flame_prof_nif.so: WRAPPED = \
    -Wl,--wrap=fp_session_start,--wrap=fp_explain_frames $(WRAPPED_ATOMS)
_build/test/hooks/flame_prof_looks_nif.so: $(call hooks_of,looks) $(call objects,$(LOOKS))
_build/test/hooks/flame_prof_looks_nif.so: LIBS = $(BUILD)/libs.looks
_build/test/hooks/flame_prof_looks_nif.so: WRAPPED = \
    -Wl,--wrap=fp_tracer_kind_find $(WRAPPED_ATOMS)
_build/test/hooks/term_test_nif.so: $(call hooks_of,none) $(BUILD)/test_nif/term_test_nif.o \
    $(BUILD)/looks_nif/views.o
_build/test/hooks/term_test_nif.so: WRAPPED = $(WRAPPED_ATOMS)
_build/test/hooks/term_test_nif.so: LIBS = $(BUILD)/libs.looks
$(BUILD)/hooks/%.o: test/hooks/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@$(CC) $(NIF_CPPFLAGS) $(NIF_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/test_nif/%.o: test/nif/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@$(CC) $(NIF_CPPFLAGS) $(NIF_CFLAGS) -MMD -MP -c -o $@ $<

$(COMPACT): OPTIMIZE := $(subst -O2,-Os,$(OPTIMIZE))

$(BUILD)/members.a: $(call objects,$(MEMBERS))
	@rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: c_src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(NIF_CPPFLAGS) $(NIF_CFLAGS) -MMD -MP -c -o $@ $<

# How to link libuv, zstd and zlib; fails with the names of the packages, on some
# systems, when their headers, or Erlang's, are not there.
$(BUILD)/libs: tools/find_libs.sh $(BUILD)/flags
	@CC="$(CC)" PKG_CONFIG="$(PKG_CONFIG)" CPPFLAGS="$(NIF_CPPFLAGS)" \
	    LDFLAGS="$(LDFLAGS)" tools/find_libs.sh $@ && touch $@

$(OBJECTS): | $(BUILD)/libs

# Rewritten only when it changes: another compiler or flag rebuilds everything.
FLAGS := $(CC) $(NIF_CPPFLAGS) $(NIF_CFLAGS) $(NIF_LDFLAGS) $(sort $(SOURCES)) $(sort $(COMPACT))
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

# The libraries that are in place were linked for one release: another one, or a
# build with other flags, replaces them even when they are newer.
ifneq ($(shell cat $(LINKED) 2>/dev/null),$(BUILD))
$(LIBRARIES): FORCE
endif
.PHONY: FORCE all hooks
FORCE:

-include $(OBJECTS:.o=.d) $(patsubst %.o,%.d,$(call hooks_of,*) $(BUILD)/test_nif/term_test_nif.o)
