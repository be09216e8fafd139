# flame_prof - `make help` lists what there is.
#
# This file is the table of contents; the work is in tools/. Everything that is
# built goes to _build/ and to priv/flame_prof*_nif.so.

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory

export SECONDS_ ?= 60
export HZ ?= 500
export FUZZ_SECONDS ?= 60
export WERROR ?= 0

EBIN := _build/default/lib/flame_prof/ebin

.PHONY: proof build nif erl demo trouble test-doctor test test-more tidy test-c test-erl check-exports check-threads test-matrix \
        test-live test-attach portability test-real test-exports test-foreign test-mcp \
        sim asan tsan valgrind analyze deps deps-build shell soak soak-sizes limits \
        bench bench-overhead bench-doc guide fuzz fuzz-files format check dialyzer xref edoc \
        check-format options viewer test-viewer bench-viewer clean clean-nif distclean help

build: nif erl ## Build the NIF and the Erlang modules (the default)

nif: ## Build the two libraries in priv/ only
	@tools/locked.sh $(MAKE) -f tools/nif.mk

erl: ## Compile the Erlang modules only, to _build/default/lib/flame_prof/ebin
	@tools/locked.sh tools/compile.escript
	@tools/locked.sh tools/chunks.escript $(EBIN)
	@tools/appup.escript $(EBIN)

demo: deps-build ## Install what is missing, build, profile a busy node for ten seconds
	@$(MAKE) build
	@examples/demo/run.sh

trouble: build ## Profile the demo with problems: TROUBLE="mailbox gc", all (the default) or none
	@examples/trouble/run.sh

test-doctor: ## The doctor on each fault of examples/trouble: FAULTS="deadlock demo", MATRIX="25 27 29"
	@tools/test_doctor.sh

test: ## Run the tests of some minutes on this machine's OTP; installs what they need
	@tools/proof.sh --age
	@LIVE=test/live/core tools/test.sh deps erl+c+tidy+exports+threads c-alone erl-again

test-more: ## Run the tests that `make test` leaves out: other live modules, viewer, mcp
	@CLASSES=live LIVE_BUT=test/live/core tools/test.sh erl+viewer+mcp erl-again

options: erl ## Write doc/options.md and the comment of options() out of the table of options
	@tools/options.escript $(EBIN)

proof: build ## Measure what no test may judge, to doc/dev/proof.md; PARTS="figures sim tsan storms"
	@tools/proof.sh $(PARTS)

tidy: ## Sizes, columns, dead exports, dependencies of folders, retired words
	@tools/tidy.escript && tools/tidy.escript --prove
	@[ ! -f $(EBIN)/flame_prof_options_doc.beam ] || tools/options.escript --check $(EBIN)

test-c: build ## Run the C tests only, on the objects of the libraries (one: C_TESTS=test_ring)
	@tools/test.sh c

sim: build ## The simulation alone, and whether it finds each of its mistakes
	@C_TESTS=sim tools/test.sh c sim-canaries

asan: ## The C tests, and the library in a VM for SECONDS_, under ASan and UBSan
	@tools/deps.sh build test
	@SANITIZERS=asan tools/test.sh c
	@$(MAKE) build && tools/asan.sh && tools/asan.sh --prove

tsan: ## The C tests that share memory between threads, under TSan
	@tools/deps.sh build test
	@SANITIZERS=tsan tools/test.sh c

valgrind: ## The readers on corpus and real files under valgrind's memcheck
	@tools/deps.sh build analyze
	@$(MAKE) build && tools/valgrind.sh

analyze: ## Clang's static analyzer and cppcheck over all C sources
	@tools/deps.sh build analyze
	@tools/analyze.sh

test-erl: ## Run the Erlang tests only (one module: TESTS=flame_prof_options_tests)
	@tools/test.sh erl

test-live: build ## Run the live tests TIMES (10) times beside BUSY (4) busy loops
	@tools/test_live.sh

test-viewer: ## Run the viewer's tests in a browser only
	@tools/test.sh viewer

test-mcp: ## Test `flame_prof mcp` with the protocol's own client (npm) only
	@tools/test.sh mcp

test-foreign: ## Test that stackcollapse-perf.pl (STACKCOLLAPSE=path) and speedscope (npm) read our files
	@tools/deps.sh build foreign && tools/test.sh foreign

check-exports: nif ## Check what the two libraries export, hold and weigh
	@tools/check_exports.sh

check-threads: nif ## Check what the sampler's thread, the signal handler and callbacks of tracing can call
	@tools/check_threads.sh
	@tools/check_threads.sh --prove

test-matrix: ## Run the suite on OTP 25, 27 and 29 (needs root; see tools/matrix.sh)
	@tools/matrix.sh

test-attach: build ## Attach to nodes of OTP 27 and 29 (after `make test-matrix`; needs root)
	@test/attach/matrix.sh

PARTS ?=
portability: build ## Build and run elsewhere: PARTS="clang aarch64 musl headers releases"
	@tools/portability.sh $(PARTS)

test-real: build ## Attach to a real RabbitMQ and a real ejabberd under load (Debian)
	@test/attach/real.sh rabbitmq
	@test/attach/real.sh ejabberd

test-exports: build ## Have other tools read what we export: pprof, speedscope, flamegraph.pl
	@test/exports/consumers.sh

deps: ## Install everything that build and tests need (Debian)
	@tools/deps.sh build test

deps-build: ## Install what the build alone needs (Debian)
	@tools/deps.sh build

shell: build ## An Erlang shell with flame_prof on the path
	@ERL_LIBS=_build/default/lib erl -pa $(EBIN)

viewer: ## Build the viewer's page from viewer/ into priv/www; needs node and npm
	@cd viewer && npm ci && node build.mjs

bench-viewer: build ## Measure the viewer on half an hour of the demo's node (needs 4 GB of disk)
	@viewer/bench/run.sh && viewer/bench/live.sh

soak: build ## Sessions in all storms for SECONDS_ (60) at HZ (500) on each of OTPS (doc/dev/soak.md)
	@test/soak/run.sh

soak-sizes: build ## A million samples of processes that collect, on each of OTPS (doc/dev/soak.md)
	@SOAK=soak_sizes SECONDS_=900 test/soak/run.sh

limits: build ## COUNT (200) generated combinations of limits of SEED (doc/dev/limits.md)
	@test/proof/limits.sh

bench: build ## Measure everything (half an hour), or PARTS of it; SECONDS_, WORKLOADS, VARIANTS, PAIRS
	@bench/run.sh $(PARTS)

bench-overhead: build ## The overhead alone, ours and that of others, on seven workloads
	@bench/overhead.sh afresh && bench/rabbitmq.sh && bench/report.sh json

bench-doc: ## The last run's summary, chart and tables to doc/benchmarks.md
	@bench/report.sh doc

guide: build ## Run the examples of doc/guide
	@examples/guide/run.sh

fuzz: ## Fuzz every decoder for FUZZ_SECONDS (60) each (one: TARGET=stack); needs clang with libFuzzer
	@tools/fuzz.sh

fuzz-files: build ## Damage FILES (10000) real files by SEED; two readers have to read them alike
	@tools/fuzz_files.sh

format: ## Format the C sources with clang-format
	@tools/format.sh -i

check: dialyzer xref edoc check-format ## Dialyzer, xref, edoc and the C format

dialyzer: erl ## Dialyzer alone; the PLT is kept in _build
	@tools/dialyzer.sh

xref: erl ## Undefined and unused functions
	@tools/xref.sh

edoc: ## The guides and the documentation of the modules as HTML, to _build/doc
	@tools/edoc.sh

check-format: ## Is the C code formatted?
	@tools/format.sh --dry-run

clean-nif: ## Remove the NIF and its objects
	@rm -rf _build/c priv/flame_prof*_nif.so priv/flame_prof*_nif.so.debug priv/.flame_prof*

clean: clean-nif ## Remove what was built, keep the dialyzer PLT
	@rm -rf _build/ctest _build/default _build/test _build/demo _build/trouble _build/examples

distclean: clean ## Remove all of _build
	@rm -rf _build

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
