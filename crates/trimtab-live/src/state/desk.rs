//! How a drive's units are told apart, on its way to the kernel.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use trimtab_predict::units::UnitFunction;

use super::PATIENCE;
use super::abi::{Config, FUNCTIONS};
use super::calls::Calls;
use crate::bpf::mapping::Mapping;
use crate::record::Error;

/// Where a configuration is laid down for the program that takes it up.
/// One at a time.
pub(super) struct Desk(Mutex<Mapping<Config>>);

impl Desk {
    pub(super) const fn new(memory: Mapping<Config>) -> Self {
        Self(Mutex::new(memory))
    }

    /// Tells a drive's units apart by these functions, and knows nothing else of it.
    pub(super) fn configure(
        &self,
        calls: &Calls,
        index: usize,
        functions: &[UnitFunction],
    ) -> Result<(), Error> {
        let functions = &functions[..functions.len().min(FUNCTIONS)];
        if !functions.iter().all(UnitFunction::is_valid) {
            return Err(Error::Kernel("a unit function of the model is not valid".to_owned()));
        }
        let desk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // With no units told apart none is written, so that nobody need be kept waiting
        // while they are cleared, which takes the longest.
        take_up(&desk, calls, index, &[])?;
        calls.clear(index);
        take_up(&desk, calls, index, functions)
    }
}

/// Lays a configuration down and has the program take it up.
fn take_up(
    desk: &Mapping<Config>,
    calls: &Calls,
    index: usize,
    functions: &[UnitFunction],
) -> Result<(), Error> {
    // SAFETY: within the mapping, which is writable, and only read by the program
    // that is called now.
    unsafe { desk.at(0).write_volatile(Config::new(functions)) };
    let until = Instant::now() + PATIENCE;
    while !calls.configure(index) {
        if Instant::now() > until {
            let why = "the drive's state is being written all the time";
            return Err(Error::Kernel(why.to_owned()));
        }
        thread::yield_now();
    }
    Ok(())
}
