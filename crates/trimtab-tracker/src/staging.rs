//! The staging slot for the configuration of a drive's parallel units.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use trimtab_predict::units::UnitFunction;
use trimtab_shm::WritableMapping;
use trimtab_state::abi::{Config, FUNCTIONS};

use crate::calls::Calls;
use crate::{Error, PATIENCE};

/// The slot in which a configuration is staged for the program that applies it. One
/// configuration at a time.
pub(crate) struct StagingSlot(Mutex<WritableMapping<Config>>);

impl StagingSlot {
    pub(crate) const fn new(memory: WritableMapping<Config>) -> Self {
        Self(Mutex::new(memory))
    }

    /// Sets a drive's unit functions, and resets the rest of its state.
    pub(crate) fn configure(
        &self,
        calls: &Calls,
        index: usize,
        functions: &[UnitFunction],
    ) -> Result<(), Error> {
        let functions = &functions[..functions.len().min(FUNCTIONS)];
        if !functions.iter().all(UnitFunction::is_valid) {
            return Err(Error::InvalidUnitFunction);
        }
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without unit functions no program writes the units, so they can be cleared without
        // the drive's lock. Clearing takes the longest.
        stage(&slot, calls, index, &[])?;
        calls.clear(index);
        stage(&slot, calls, index, functions)
    }
}

/// Writes a configuration to the slot and calls the program that applies it.
fn stage(
    slot: &WritableMapping<Config>,
    calls: &Calls,
    index: usize,
    functions: &[UnitFunction],
) -> Result<(), Error> {
    slot.write(0, &Config::new(functions));
    let until = Instant::now() + PATIENCE;
    while !calls.configure(index) {
        if Instant::now() > until {
            return Err(Error::StateBusy);
        }
        thread::yield_now();
    }
    Ok(())
}
