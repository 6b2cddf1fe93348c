# Everything a developer or user runs. `make demo` and `make test` need nothing
# but git, make, a C compiler and stable Rust: they install the rest themselves,
# and say so.

SHELL := /bin/bash
CARGO ?= cargo

# Where `make install` installs; scripts/install has what else can be said.
export PREFIX ?= /usr/local
export DESTDIR ?=

.PHONY: help demo test lint bench fuzz guest guest-deb setup setup-lint build install uninstall \
	check-install check-monitoring deb clean

help:
	@echo "make demo      record a real program, and compare strategies on its workload"
	@echo "make build     build what install installs: the command and the library for C"
	@echo "make install   install below PREFIX (/usr/local); make uninstall removes it"
	@echo "make deb       Debian packages in target/deb"
	@echo "make test      run all tests"
	@echo "make lint      formatting, clippy, documentation"
	@echo "make bench     measure speed (some minutes)"
	@echo "make guest     the tests that need a kernel, on Debian's, in an emulated guest"
	@echo "make guest-deb the Debian packages in a booted Debian, in an emulated guest"
	@echo "make check-install, make check-monitoring"
	@echo "               what install places; alert rules and dashboard with a Prometheus"
	@echo "make fuzz      one minute of fuzzing for each parser (needs nightly Rust)"

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
	$(CARGO) build --release --package trimtab --package trimtab-c
	@scripts/licences >"$${CARGO_TARGET_DIR:-target}/release/THIRD-PARTY.md"

# Without building: sudo's PATH seldom has cargo.
install:
	@scripts/install

uninstall:
	@scripts/install --uninstall

check-install: build
	@scripts/check-install

check-monitoring: setup
	$(CARGO) build --package trimtab --package trimtab-c
	@scripts/check-monitoring

deb: setup
	@scripts/setup debhelper lintian
	@scripts/deb

guest-deb: deb
	@scripts/guest-deb

clean:
	$(CARGO) clean
