//! Names the shared library for the linker, by the version of its interface: a program
//! linked with one version does not start with another.

use std::path::PathBuf;

fn main() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let header = manifest.join("../../include/trimtab.h");
    println!("cargo:rerun-if-changed={}", header.display());
    let text = std::fs::read_to_string(&header)
        .unwrap_or_else(|e| panic!("{}: cannot read: {e}", header.display()));
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("#define TRIMTAB_VERSION "))
        .expect("include/trimtab.h defines TRIMTAB_VERSION");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtrimtab.so.{version}");
    // For the tests, whose programs look for it by that name.
    println!("cargo:rustc-env=TRIMTAB_SONAME=libtrimtab.so.{version}");
}
