//! The copies of the database, and how its pages are read: all that the application has to do.
//!
//! Each page is on three drives. It is written to all of them, which is the application's part
//! (vfs.rs), and read from one: from its primary replica, however long that takes, or from a
//! [`ReplicaSet`].

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use trimtab_replicas::{ReplicaOptions, ReplicaSet, SetFigures, SetOptions};

/// How pages are read.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// Each from its primary replica.
    Base,
    /// From a set of replicas with these options, in the order of the drives.
    Set(Vec<ReplicaOptions>),
}

/// The copies of a database.
pub(crate) struct Mirror {
    /// The directories beside the one that SQLite knows.
    pub(crate) others: Vec<PathBuf>,
    pages: Pages,
}

enum Pages {
    Base(Vec<File>),
    Set(ReplicaSet),
}

impl Mirror {
    /// Of the database with this name in these directories.
    ///
    /// # Errors
    /// A copy cannot be opened.
    pub(crate) fn open(directories: &[&Path], name: &str, way: &Way) -> Result<Self> {
        let pages = match way {
            Way::Base => {
                let open = |directory: &&Path| open_direct(&directory.join(name));
                Pages::Base(directories.iter().map(open).collect::<Result<_>>()?)
            }
            Way::Set(replicas) => {
                let replicas = replicas.iter().zip(directories).map(|(replica, directory)| {
                    ReplicaOptions { path: directory.join(name), ..replica.clone() }
                });
                let options = SetOptions { direct: true, ..SetOptions::default() };
                Pages::Set(ReplicaSet::open(replicas, &options)?)
            }
        };
        let others = directories[1..].iter().map(|directory| (*directory).to_owned()).collect();
        Ok(Self { others, pages })
    }

    /// Reads from one of the copies, as `pread(2)` does.
    ///
    /// # Errors
    /// It cannot be read; of a set: no replica can.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.pages {
            Pages::Base(files) => {
                // Each MiB has a primary replica, as in a set.
                files[(offset >> 20) as usize % files.len()].read_at(buffer, offset)
            }
            Pages::Set(set) => Ok(set.read_at(buffer, offset)?),
        }
    }

    /// What the set has done, if there is one.
    pub(crate) fn figures(&self) -> Option<SetFigures> {
        match &self.pages {
            Pages::Base(_) => None,
            Pages::Set(set) => Some(set.figures()),
        }
    }
}

/// Past the page cache: what is measured are the drives.
fn open_direct(path: &Path) -> Result<File> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = File::options().read(true).custom_flags(O_DIRECT).open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}
