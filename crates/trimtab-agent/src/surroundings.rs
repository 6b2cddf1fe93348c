//! Changes outside the agent: drives that are detached, and a BPF file system that goes.

use trimtab_tracker::StateTracker;

use crate::Log;
use crate::drive::Drive;

/// The changes that were reported, so that each is reported once.
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
                    "{name}: was detached: what has this name from now on is another \
                     device, which is not watched until the agent is started again"
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
                    "the file of the maps had gone (was its BPF file system unmounted?): it is there again",
                );
            }
            Err(error) => {
                if !std::mem::replace(&mut self.unpinned, true) {
                    log(&format!(
                        "the file of the maps has gone, and what opens it finds nothing: \
                         {error}; tried again each second"
                    ));
                }
            }
        }
    }
}
