//! Sets the command's version: the package's, and the commit that it is built from.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    let mut version = std::env::var("CARGO_PKG_VERSION").expect("set by cargo");
    if let Some(commit) = commit(&PathBuf::from(manifest).join("../..")) {
        version += &format!(" ({commit})");
    }
    println!("cargo:rustc-env=TRIMTAB_VERSION={version}");
}

/// The commit that is checked out at `root`. `None` for a source archive, and if git is not
/// installed or refuses the repository (it belongs to another user).
fn commit(root: &Path) -> Option<String> {
    // An archive may be unpacked within another repository.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top) != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    watch(root, "HEAD");
    if let Some(branch) = git(root, &["symbolic-ref", "--quiet", "HEAD"]) {
        watch(root, &branch);
        watch(root, "packed-refs");
    }
    Some(commit)
}

/// Makes cargo run this script again when a file of the repository changes. Worktrees have
/// some files of their own, and share others: git knows the paths.
fn watch(root: &Path, name: &str) {
    let Some(path) = git(root, &["rev-parse", "--git-path", name]) else { return };
    let path = root.join(path);
    // cargo would run the script each time for a file that does not exist. A branch whose name
    // is in packed-refs has no file until its next commit, which changes the directory.
    let existing = path.ancestors().find(|path| path.exists());
    if let Some(path) = existing.filter(|_| path.exists() || name.starts_with("refs/")) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
