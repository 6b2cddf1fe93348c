//! Changes outside the agent: drives that are detached, and a BPF file system that is
//! unmounted.

use trimtab_tracker::StateTracker;

use crate::Log;
use crate::drive::Drive;

/// The changes reported so far: each is reported once.
pub(crate) struct Surroundings {
    replaced: Vec<bool>,
    unpinned: bool,
}

impl Surroundings {
    pub(crate) fn of(drives: &[Drive]) -> Self {
        Self { replaced: vec![false; drives.len()], unpinned: false }
    }

    pub(crate) fn check_drives(&mut self, drives: &[Drive], log: &Log) {
        for (drive, said) in drives.iter().zip(&mut self.replaced) {
            if !*said && drive.device.is_replaced() {
                *said = true;
                let name = &drive.device.name;
                log(&format!(
                    "{name}: was detached: a new device of this name is not watched until the \
                     agent is restarted"
                ));
            }
        }
    }

    pub(crate) fn check_pins(&mut self, tracker: &mut StateTracker, log: &Log) {
        match tracker.pin_again() {
            Ok(false) => {}
            Ok(true) => {
                self.unpinned = false;
                log(
                    "the pinned state was missing (BPF file system unmounted?): it is pinned again",
                );
            }
            Err(error) => {
                if !std::mem::replace(&mut self.unpinned, true) {
                    log(&format!(
                        "the pinned state is missing, and readers cannot open it: {error}; \
                         tried again each second"
                    ));
                }
            }
        }
    }
}
