//! A directory with the files of a test, in which the program is run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, content) in files {
            fs::write(place.path(name), content).unwrap();
        }
        place
    }

    /// The path of a file in it, or, with an empty name, of the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.current_dir(self.0.path()).args(args);
        command
    }
}
