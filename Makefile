# What there is to do, in short words; `make help` lists it. CMake does the work (CMakePresets.json).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.NOTPARALLEL:

PREFIX ?= /usr/local
DESTDIR ?=
REPORT ?= nibble-report

JOBS := $(shell nproc)
PROGRAM := build/src/cli/nibble

.PHONY: help demo build test oracle asan fuzz soak faults bench format format-check install clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## install what is missing, build the program, and diagnose this machine with the built-in model
	@tools/setup.sh build
	@test -f build/build.ninja || cmake --preset app >/dev/null
	@cmake --build build --target nibble --parallel $(JOBS)
	$(PROGRAM) diagnose --report $(REPORT)

# The tests' switches are named here because a cache made by `make demo` has them off. Objects are
# the same either way, so that neither target builds again what the other has built.
build: ## the program, the libraries, tests and benchmarks, in build/
	@tools/setup.sh test
	@cmake --preset release -DNIBBLE_TESTS=ON -DNIBBLE_BENCHMARKS=ON >/dev/null
	@cmake --build build --parallel $(JOBS)

test: format-check build ## build and run every test that needs no GPU
	@ctest --preset release

oracle: ## make the golden files of the tests anew with numpy and others; fail when they differ
	@tools/setup.sh oracle
	@tools/oracle.sh check
	@test -f build/build.ninja || cmake --preset app >/dev/null
	@cmake --build build --target nibble --parallel $(JOBS)
	@build/oracle/bin/python -B tools/oracle/openai_client.py $(PROGRAM)
	@build/oracle/bin/python -B tools/oracle/openai_serve.py $(PROGRAM)

asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/setup.sh test
	@cmake --preset asan >/dev/null
	@cmake --build build-asan --parallel $(JOBS)
	@ctest --preset asan

fuzz: SECONDS ?= 60
fuzz: ## run each fuzz target for SECONDS=60, guided by coverage, with sanitizers
	@tools/setup.sh fuzz
	@tools/fuzz.sh $(SECONDS)

soak: SECONDS ?= 600
soak: ## SECONDS=600 of 1,000 streams on the mock, then of mixed load on the server; memory may not grow, nothing fail
	@tools/setup.sh build
	@test -f build/build.ninja || cmake --preset app >/dev/null
	@cmake --build build --target nibble --parallel $(JOBS)
	@tools/soak.sh $(PROGRAM) $(SECONDS)
	@tools/soak_serve.py $(PROGRAM) $(SECONDS)

faults: ## break a server on purpose in many ways and see whether the diagnosis names it (30 minutes, a quiet machine)
	@tools/setup.sh build
	@test -f build/build.ninja || cmake --preset app >/dev/null
	@cmake --build build --target nibble --parallel $(JOBS)
	@tools/fault_injection.py run $(PROGRAM) --set published
	@tools/fault_injection.py write

bench: build ## run the benchmarks of the program itself
	@for program in build/bench/*_bench; do "$$program" --benchmark_min_time=0.2; done

format: ## format all C++ files
	@tools/format.sh write

format-check: ## say which C++ files are not formatted
	@tools/setup.sh test
	@tools/format.sh check

install: ## install program, libraries, headers, completions and manual page under PREFIX=/usr/local
	@tools/setup.sh build
	@test -f build/build.ninja || cmake --preset app >/dev/null
	@cmake --build build --parallel $(JOBS)
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

clean: ## remove everything that was built
	@rm -rf build build-debug build-asan build-fuzz
