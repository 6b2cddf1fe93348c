# Everything a developer or user runs. `make demo` and `make test` need nothing
# but git, make, a C compiler and stable Rust: they install the rest themselves,
# and say so.

SHELL := /bin/bash
CARGO ?= cargo

.PHONY: help demo test lint bench fuzz guest setup setup-lint build clean

help:
	@echo "make demo    record a real program, and compare strategies on its workload"
	@echo "make test    run all tests"
	@echo "make lint    formatting, clippy, documentation"
	@echo "make bench   measure speed (some minutes)"
	@echo "make guest   the tests that need a kernel, on Debian's, in an emulated guest"
	@echo "make fuzz    one minute of fuzzing for each parser (needs nightly Rust)"

setup:
	@scripts/setup clang libelf-dev zlib1g-dev pkg-config fio e2fsprogs xfsprogs

demo:
	@scripts/setup clang libelf-dev zlib1g-dev pkg-config sqlite3
	$(CARGO) build --release --package trimtab
	@scripts/demo

# Test programs run as root, as recording needs it, and have a time limit each. Tests that
# cannot run here are told at the end; TRIMTAB_REQUIRE (CONTRIBUTING.md) makes them fail.
test: export TRIMTAB_SKIPPED = $(CURDIR)/target/skipped
test: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER = scripts/run-test
test: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = scripts/run-test
test: setup
	@mkdir -p target && rm -f $(TRIMTAB_SKIPPED) && : >$(TRIMTAB_SKIPPED)
	$(CARGO) test --workspace; status=$$?; scripts/skipped $(TRIMTAB_SKIPPED); exit $$status

setup-lint: setup
	@rustup component add rustfmt clippy 2>/dev/null || true

lint: setup-lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

bench: setup
	$(CARGO) bench --workspace

guest: setup
	@scripts/guest

fuzz: setup
	@scripts/fuzz 60

build: setup
	$(CARGO) build --release --workspace

clean:
	$(CARGO) clean
