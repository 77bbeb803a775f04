# SPDX-License-Identifier: BSD-3-Clause
# A thin door to meson and ninja. `make help` lists what it opens.

MESON        ?= meson
NINJA        ?= ninja
FUZZ_SECONDS ?= 20
# make check SUITE=unit runs one suite of tests: unit, cli, e2e, lab or house.
SUITE        ?=
# make install PREFIX=/usr DESTDIR=/tmp/package
PREFIX       ?=
# make lab KERNEL=6.12 TESTS=00-module picks a kernel and tests of lab/tests.
TESTS        ?=

WEIR = build/src/cmd/weir
# Tests that need what only the lab has, which 11-words runs; what stands in for a GPU, and the plugin, for p2p.
LAB_PROGRAMS = $(wildcard build/tests/mem/test_udmabuf build/tests/sys/bind_faults build/tests/net/devmem_faults \
	build/tests/net/test_transport_dmabuf build/tests/lab/libcuda.so.1 build/src/nccl/libnccl-net-weir.so)
# Every finding ends the program, whatever the environment says.
SANITIZE = -Dbuildtype=debugoptimized -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false \
	-Dc_args=-fno-sanitize-recover=all

.PHONY: all demo check lab lab-shell lint format fuzz bench install clean help
.PHONY: need-build need-check need-lab need-lint need-fuzz need-bench
.NOTPARALLEL: # ninja does that
.DELETE_ON_ERROR:

all: need-build build/build.ninja ## build weir (the default)
	@$(NINJA) -C build

demo: all ## build, then run the main job end to end on this machine
	@$(WEIR) demo

check: need-check build-check/build.ninja ## build with sanitizers and run all tests
	@$(NINJA) -C build-check
	@MESON="$(MESON)" scripts/run-tests build-check $(if $(SUITE),--suite $(SUITE))

lab: need-lab all ## device memory on a real kernel, in a VM; KERNEL=6.12 for the oldest that has it
	@WEIR="$(CURDIR)/$(WEIR)" PROGRAMS="$(LAB_PROGRAMS)" lab/check $(TESTS)

lab-shell: need-lab all ## a shell in that VM
	@WEIR="$(CURDIR)/$(WEIR)" lab/shell

lint: need-lint build-check/build.ninja ## check layout, and look for bugs without running anything
	@$(NINJA) -C build-check build.ninja >/dev/null
	@# Files are looked at as they are compiled: with the headers that the build makes.
	@$(NINJA) -C build-check $$($(NINJA) -C build-check -t targets rule CUSTOM_COMMAND | grep '^src/') >/dev/null
	@scripts/lint build-check

format: ## lay out all C files as .clang-format says
	@scripts/deps lint
	@scripts/lint --fix

fuzz: need-fuzz build-fuzz/build.ninja ## run every fuzzer for FUZZ_SECONDS (20)
	@$(NINJA) -C build-fuzz
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS)

bench: need-bench build/build.ninja ## measure against iperf3, sockperf and, where NEPER_DIR is set, neper
	@$(NINJA) -C build all bench/counters_speed
	@WEIR="$(CURDIR)/$(WEIR)" bench/counters
	@WEIR="$(CURDIR)/$(WEIR)" bench/stream
	@WEIR="$(CURDIR)/$(WEIR)" bench/rr

install: all ## install to PREFIX (/usr/local), below DESTDIR if set
	@$(if $(PREFIX),$(MESON) configure build -Dprefix=$(PREFIX))
	@$(MESON) install -C build

clean: ## remove all that was built
	rm -rf build build-check build-fuzz build-lab

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

need-build: ; @scripts/deps build
need-check: ; @scripts/deps build check lab
need-lab:   ; @scripts/deps build lab
need-lint:  ; @scripts/deps build check lint
need-fuzz:  ; @scripts/deps build fuzz
need-bench: ; @scripts/deps build bench

build/build.ninja:
	@$(MESON) setup build

build-check/build.ninja:
	@$(MESON) setup build-check $(SANITIZE) -Dtests=enabled

build-fuzz/build.ninja:
	@CC=clang $(MESON) setup build-fuzz $(SANITIZE) -Dfuzz=enabled -Dtests=disabled
