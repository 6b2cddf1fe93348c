//! The processes that CFQ and BFQ know, each with its queue, and when they are forgotten.
//!
//! What a scheduler learns of a process (how long it thinks, how far it seeks, its next budget) is
//! worth something only while the process is active. A process without requests is forgotten a
//! minute after its last one, or earlier if more than 1,024 are remembered without requests; the
//! one that was quiet longest goes first. If it comes back, it begins anew. So memory is bounded
//! by the requests in flight, not by the number of processes that there ever were. Linux frees
//! this state when the process exits, which a model does not see.

use trimtab_io::{IoClass, Nanos, Request};

use super::is_sync;
use crate::slab::{NONE, Slab};

/// How long a process without requests is remembered.
const REMEMBERED: Nanos = Nanos::from_secs(60);
/// How many processes without requests are remembered.
const MOST_QUIET: usize = 1024;

/// Identifies a process to a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProcessKey {
    /// Group, class and level: writes that no process waits for.
    Shared(u16, IoClass, u8),
    /// Group and process.
    Process(u16, u32),
}

impl ProcessKey {
    pub(super) const fn of(request: &Request) -> Self {
        let issuer = &request.issuer;
        if is_sync(request) {
            Self::Process(issuer.group, issuer.process)
        } else {
            Self::Shared(issuer.group, issuer.class, issuer.level)
        }
    }
}

/// Processes by key. Those without requests form a list, from the one that has been quiet longest.
#[derive(Clone, Debug)]
pub(super) struct Processes {
    /// Keys with the slots of their processes, sorted.
    index: Vec<(ProcessKey, u32)>,
    processes: Slab<Process>,
    oldest: u32,
    newest: u32,
    quiet: usize,
}

#[derive(Clone, Debug)]
struct Process {
    key: ProcessKey,
    /// The number of its queue, as its scheduler has it.
    queue: u32,
    /// Its requests, waiting or in the device.
    requests: u32,
    quiet_since: Nanos,
    older: u32,
    newer: u32,
}

impl Processes {
    pub(super) const fn new() -> Self {
        Self { index: Vec::new(), processes: Slab::new(), oldest: NONE, newest: NONE, quiet: 0 }
    }

    fn position(&self, key: ProcessKey) -> Result<usize, usize> {
        self.index.binary_search_by_key(&key, |(key, _)| *key)
    }

    fn slot(&self, key: ProcessKey) -> Option<u32> {
        self.position(key).ok().map(|at| self.index[at].1)
    }

    /// The queue of a process. `None` if it is not known.
    pub(super) fn queue(&self, key: ProcessKey) -> Option<u32> {
        self.slot(key).map(|slot| self.processes[slot].queue)
    }

    /// Adds a process that is not known, without requests.
    pub(super) fn add(&mut self, now: Nanos, key: ProcessKey, queue: u32) {
        let process =
            Process { key, queue, requests: 0, quiet_since: now, older: NONE, newer: NONE };
        let slot = self.processes.insert(process);
        if let Err(at) = self.position(key) {
            self.index.insert(at, (key, slot));
        }
        self.becomes_quiet(now, slot);
    }

    /// A request of a process has arrived.
    pub(super) fn arrived(&mut self, key: ProcessKey) {
        let Some(slot) = self.slot(key) else { return };
        if self.processes[slot].requests == 0 {
            self.leaves_quiet(slot);
        }
        self.processes[slot].requests += 1;
    }

    /// A request of a process has completed, or was taken out. Returns its queue; `None` if the
    /// process has no request.
    pub(super) fn done(&mut self, now: Nanos, key: ProcessKey) -> Option<u32> {
        let slot = self.slot(key)?;
        let process = &mut self.processes[slot];
        process.requests = process.requests.checked_sub(1)?;
        let (left, queue) = (process.requests, process.queue);
        if left == 0 {
            self.becomes_quiet(now, slot);
        }
        Some(queue)
    }

    /// Forgets the process that has been quiet longest, if it is time, and returns its queue. If
    /// `is_in_use` says so of its queue, it stays as if it had become quiet now.
    pub(super) fn forget_one(
        &mut self,
        now: Nanos,
        is_in_use: impl FnOnce(u32) -> bool,
    ) -> Option<u32> {
        let slot = self.oldest;
        if slot == NONE {
            return None;
        }
        let Process { key, queue, quiet_since, .. } = self.processes[slot];
        if self.quiet <= MOST_QUIET && now.since(quiet_since) <= REMEMBERED {
            return None;
        }
        self.leaves_quiet(slot);
        if is_in_use(queue) {
            self.becomes_quiet(now, slot);
            return None;
        }
        if let Ok(at) = self.position(key) {
            self.index.remove(at);
        }
        self.processes.remove(slot);
        Some(queue)
    }

    fn becomes_quiet(&mut self, now: Nanos, slot: u32) {
        let newest = self.newest;
        let process = &mut self.processes[slot];
        (process.quiet_since, process.older, process.newer) = (now, newest, NONE);
        match newest {
            NONE => self.oldest = slot,
            newest => self.processes[newest].newer = slot,
        }
        self.newest = slot;
        self.quiet += 1;
    }

    fn leaves_quiet(&mut self, slot: u32) {
        let Process { older, newer, .. } = self.processes[slot];
        match older {
            NONE => self.oldest = newer,
            older => self.processes[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.processes[newer].older = older,
        }
        self.quiet -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(process: u32) -> ProcessKey {
        ProcessKey::Process(0, process)
    }

    #[test]
    fn a_quiet_process_is_forgotten_after_its_time() {
        let mut processes = Processes::new();
        processes.add(Nanos(0), key(1), 7);
        processes.add(Nanos(0), key(2), 8);
        processes.arrived(key(1));
        let late = REMEMBERED + Nanos(1);
        assert_eq!(processes.forget_one(REMEMBERED, |_| false), None);
        assert_eq!(processes.forget_one(late, |_| false), Some(8));
        assert_eq!(processes.forget_one(late, |_| false), None, "it has a request");
        assert_eq!(processes.done(late, key(1)), Some(7));
        assert_eq!(processes.done(late, key(1)), None);
        let later = late + late;
        assert_eq!(processes.forget_one(later, |queue| queue == 7), None, "its queue is in use");
        assert_eq!(processes.queue(key(1)), Some(7));
        assert_eq!(processes.forget_one(later + late, |_| false), Some(7));
        assert_eq!((processes.queue(key(1)), processes.quiet), (None, 0));
    }

    #[test]
    fn the_longest_quiet_process_makes_place() {
        let mut processes = Processes::new();
        for process in 0..=MOST_QUIET as u32 {
            processes.add(Nanos(process.into()), key(process), process);
        }
        assert_eq!(processes.forget_one(Nanos(5000), |_| false), Some(0));
        assert_eq!(processes.forget_one(Nanos(5000), |_| false), None);
    }
}
