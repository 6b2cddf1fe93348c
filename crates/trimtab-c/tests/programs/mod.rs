//! Compiles and runs C programs with the library.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use trimtab_testdisk as disk;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// cargo's directory of libraries: beside this program. Determined once, when the first
/// program is compiled: in a chroot a thread with a private mount namespace sees another path.
pub(crate) static LIBRARIES: LazyLock<PathBuf> = LazyLock::new(|| {
    let this = std::env::current_exe().unwrap();
    let directory = this.parent().unwrap().to_owned();
    // Programs look for it by its soname, under which `make install` installs it.
    let linked = symlink("libtrimtab.so", directory.join(env!("TRIMTAB_SONAME")));
    assert!(linked.is_ok() || linked.is_err_and(|e| e.kind() == ErrorKind::AlreadyExists));
    directory
});

/// Compiles a program with the strictest warnings. `None`, with a note, without a C compiler.
pub(crate) fn compile(source: &Path, to: &Path) -> Option<()> {
    compile_with(&[source], to, &[])
}

/// [`compile`] for a program of several files that uses other libraries too (`-lNAME`).
pub(crate) fn compile_with(sources: &[&Path], to: &Path, libraries: &[&str]) -> Option<()> {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    cc.arg("-I").arg(Path::new(ROOT).join("include"));
    cc.arg("-I").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).arg("-o").arg(to).args(sources);
    cc.arg("-L").arg(&*LIBRARIES).args(["-ltrimtab", "-lpthread"]).args(libraries);
    if !disk::requires(&[disk::Feature::Program("cc")]) {
        return None;
    }
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

pub(crate) fn run(program: &Path, args: &[&OsStr]) -> Output {
    let mut command = Command::new(program);
    command.args(args).env("LD_LIBRARY_PATH", &*LIBRARIES);
    // A private run directory.
    command.env("TRIMTAB_RUN", program.parent().unwrap().join("run"));
    command.output().unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
