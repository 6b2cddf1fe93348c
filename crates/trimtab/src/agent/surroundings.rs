//! What may be taken away from under the agent: its drives, and the BPF file system.

use trimtab_tracker::StateTracker;

use super::drive::Drive;
use crate::log;

/// What has been said of it, so that it is said once.
pub(super) struct Surroundings {
    replaced: Vec<bool>,
    unpinned: bool,
}

impl Surroundings {
    pub(super) fn of(drives: &[Drive]) -> Self {
        Self { replaced: vec![false; drives.len()], unpinned: false }
    }

    pub(super) fn look_at_drives(&mut self, drives: &[Drive]) {
        for (drive, said) in drives.iter().zip(&mut self.replaced) {
            if !*said && drive.device.is_replaced() {
                *said = true;
                let name = &drive.device.name;
                log::line(&format!(
                    "agent: {name}: was detached: what has this name from now on is another \
                     device, which is not watched until the agent is started again"
                ));
            }
        }
    }

    pub(super) fn look_at_pins(&mut self, tracker: &mut StateTracker) {
        match tracker.pin_again() {
            Ok(false) => {}
            Ok(true) => {
                self.unpinned = false;
                log::line(
                    "agent: the file of the maps had gone (was its BPF file system unmounted?): it is there again",
                );
            }
            Err(error) => {
                if !std::mem::replace(&mut self.unpinned, true) {
                    log::line(&format!(
                        "agent: the file of the maps has gone, and what opens it finds nothing: \
                         {error}; tried again each second"
                    ));
                }
            }
        }
    }
}
