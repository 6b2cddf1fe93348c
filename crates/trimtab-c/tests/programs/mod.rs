//! Programs in C with the library, compiled and run.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use trimtab_testdisk as disk;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Where cargo has put the libraries: beside this program. Looked for once, when the first
/// program is compiled: in a chroot a thread with mounts of its own is told another path.
pub(crate) static LIBRARIES: LazyLock<PathBuf> = LazyLock::new(|| {
    let this = std::env::current_exe().unwrap();
    this.parent().unwrap().to_owned()
});

/// Compiles a program as strictly as the compiler can. None, saying so, where there is
/// no C compiler.
pub(crate) fn compile(source: &Path, to: &Path) -> Option<()> {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    cc.arg("-I").arg(Path::new(ROOT).join("include"));
    cc.arg("-I").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).arg("-o").arg(to).arg(source);
    cc.arg("-L").arg(&*LIBRARIES).args(["-ltrimtab", "-lpthread"]);
    let Ok(output) = cc.output() else {
        disk::note("skipped a test of the C library: there is no C compiler");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

pub(crate) fn run(program: &Path, args: &[&OsStr]) -> Output {
    let mut command = Command::new(program);
    command.args(args).env("LD_LIBRARY_PATH", &*LIBRARIES);
    // Nobody else's run directory.
    command.env("TRIMTAB_RUN", program.parent().unwrap().join("run"));
    command.output().unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
