//! Atomic files: a file appears complete or not at all.
//!
//! On Linux a file can exist without a name (`O_TMPFILE`) and be linked later. Until then the
//! kernel frees it when the process ends, however it ends: nothing has to be cleaned up even after
//! SIGKILL.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tempfile::NamedTempFile;

/// A file being written. [`commit`](Self::commit) gives it its name; dropped before that, it
/// vanishes.
///
/// A target that exists and is not a regular file (`/dev/null`, a pipe) is written directly, as by
/// any tool. Block devices are refused, because their content would be lost.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    kind: TargetKind,
}

#[derive(Debug)]
enum TargetKind {
    /// Without a name.
    Unnamed(File),
    /// For file systems without `O_TMPFILE`: a temporary name beside the target, removed on drop.
    Named(NamedTempFile),
    /// The target itself.
    Direct(File),
}

impl AtomicFile {
    /// Starts a file for `target`.
    ///
    /// # Errors
    /// The directory does not exist or may not be written to; or the target is a block
    /// device.
    pub fn create(target: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(target).ok().map(|metadata| metadata.file_type());
        if found.is_some_and(|kind| kind.is_block_device()) {
            let what = "is a block device, and its content would be lost: name a file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let is_special = found.is_some_and(|kind| kind.is_char_device() || kind.is_fifo());
        let kind = if is_special {
            TargetKind::Direct(OpenOptions::new().write(true).open(target)?)
        } else if target.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
        } else {
            Self::unnamed(directory(target))?
        };
        Ok(Self { target: target.to_owned(), kind })
    }

    fn unnamed(directory: &Path) -> io::Result<TargetKind> {
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::openat(
            CWD,
            directory,
            OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
            mode,
        ) {
            Ok(fd) => Ok(TargetKind::Unnamed(File::from(fd))),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let mut builder = tempfile::Builder::new();
                Ok(TargetKind::Named(builder.prefix(".trimtab-").tempfile_in(directory)?))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Gives the file its name, replacing an existing file.
    ///
    /// # Errors
    /// The data could not be written, or the name not set.
    pub fn commit(mut self) -> io::Result<()> {
        self.flush()?;
        match self.kind {
            TargetKind::Direct(_) => Ok(()),
            TargetKind::Named(file) => {
                file.as_file().sync_data()?;
                file.persist(&self.target).map(drop).map_err(|e| e.error)
            }
            TargetKind::Unnamed(file) => {
                // A full disk may be reported only here.
                file.sync_data()?;
                name_it(&file, &self.target)
            }
        }
    }

    /// The file being written.
    #[must_use]
    pub fn file(&self) -> &File {
        match &self.kind {
            TargetKind::Unnamed(file) | TargetKind::Direct(file) => file,
            TargetKind::Named(file) => file.as_file(),
        }
    }
}

/// Links an unnamed file to `target`. A link cannot replace a file, a rename can: so if the target
/// exists, the file gets a temporary name first.
fn name_it(file: &File, target: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let unnamed = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let link = |name: &Path| rustix::fs::linkat(CWD, &unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW);
    match link(target) {
        Err(rustix::io::Errno::EXIST) => {}
        result => return Ok(result?),
    }
    let mut attempt = 0_u32;
    let temporary = loop {
        let name = format!(".trimtab-{}-{attempt}", std::process::id());
        let temporary = directory(target).join(name);
        match link(&temporary) {
            Err(rustix::io::Errno::EXIST) => attempt += 1,
            result => {
                result?;
                break temporary;
            }
        }
    };
    std::fs::rename(&temporary, target).inspect_err(|_| {
        _ = std::fs::remove_file(&temporary);
    })
}

fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file().write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        for content in ["first", "second"] {
            let mut file = AtomicFile::create(&target).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            file.commit().unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), content);
        }
        let mut dropped = AtomicFile::create(&target).unwrap();
        dropped.write_all(b"third").unwrap();
        drop(dropped);
        assert_eq!(fs::read_to_string(&target).unwrap(), "second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn uncreatable_targets_are_errors() {
        assert!(AtomicFile::create(Path::new("/nonexistent/dir/out")).is_err());
        let dir = tempfile::tempdir().unwrap();
        assert!(AtomicFile::create(dir.path()).is_err());
        let mut full = AtomicFile::create(Path::new("/dev/full")).unwrap();
        assert!(full.write_all(b"x").is_err());
    }
}
