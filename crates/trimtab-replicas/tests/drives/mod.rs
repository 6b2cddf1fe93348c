//! Sets of emulated drives with the same content.

#![allow(dead_code, reason = "each test file uses a part of it")]

use trimtab_replicas::{ReplicaOptions, ReplicaSet, SetOptions};

use crate::emulated::{Emulated, Home};

/// Emulated drives, removed when dropped. One array at a time per process.
pub(crate) struct Drives {
    pub(crate) all: Vec<Emulated>,
    // After the drives.
    _home: Home,
}

impl Drives {
    pub(crate) fn new(count: usize) -> Self {
        let home = Home::new();
        let one = |number| Emulated::in_home(&home, &format!("replica-{number}"));
        Self { all: (0..count).map(one).collect(), _home: home }
    }

    /// The set of them, read past the page cache.
    pub(crate) fn open(&self, options: &SetOptions) -> ReplicaSet {
        let replicas = self.all.iter().map(|drive| ReplicaOptions::new(&drive.path));
        ReplicaSet::open(replicas, &SetOptions { direct: true, ..*options }).unwrap()
    }
}
