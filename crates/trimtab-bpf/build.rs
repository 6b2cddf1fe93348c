//! Compiles the kernel-side programs of bpf/ for the BPF machine.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let sources =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo:rerun-if-changed={}", sources.display());

    if Command::new("clang").arg("--version").output().is_err() {
        panic!(
            "clang is needed to compile bpf/*.bpf.c: install it (Debian: apt-get install clang)"
        );
    }
    for program in ["record", "refuse", "state"] {
        let built = SkeletonBuilder::new()
            .source(sources.join(format!("{program}.bpf.c")))
            .obj(out.join(format!("{program}.bpf.o")))
            // v3 has the atomic instructions; kernels have it since 5.12.
            .clang_args(["-mcpu=v3", "-Wall", "-Werror"])
            .build();
        if let Err(e) = built {
            panic!("cannot compile bpf/{program}.bpf.c: {e:#}");
        }
    }
}
