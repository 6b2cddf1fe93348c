//! Parity arrays and mirrors of simulated drives: the back end of [`trimtab_array::driver`] in
//! virtual time.

use trimtab_array::driver::{ArrayDriver, DriverOptions, Figures, Load, UserIo};
use trimtab_array::planner::Planner;
use trimtab_io::Nanos;

use crate::array::{ArrayDrive, Sampler, Simulated};
use crate::error::Error;
use crate::source::Source;

/// The result of a run.
#[derive(Debug)]
pub struct RaidRun {
    /// The figures.
    pub figures: Figures,
    /// The drives afterwards. Those of a run that ended by a number of reads have requests in
    /// flight.
    pub drives: Vec<ArrayDrive>,
}

/// Serves the requests of a source with an array of drives, under a planner.
///
/// # Errors
/// The source cannot be read on or does not fit, a drive does not take a request, or makes no
/// progress.
///
/// # Panics
/// The planner has another number of members than there are drives.
pub fn run_raid(
    drives: Vec<ArrayDrive>,
    planner: Planner,
    source: Source,
    options: DriverOptions,
) -> Result<RaidRun, Error> {
    let backend = Simulated::new(drives, None, Sampler::new(0, 0));
    let mut load = SourceLoad { source, error: None };
    let mut driver = ArrayDriver::new(backend, planner, options);
    driver.run(&mut load)?;
    if let Some(error) = load.error {
        return Err(error);
    }
    let (backend, figures) = driver.into_parts();
    Ok(RaidRun { figures, drives: backend.drives })
}

struct SourceLoad {
    source: Source,
    error: Option<Error>,
}

impl Load for SourceLoad {
    fn next(&self) -> Nanos {
        self.source.next()
    }

    fn take(&mut self) -> Option<UserIo> {
        match self.source.take() {
            Ok((io, _)) => Some(UserIo { op: io.op, offset: io.offset, length: io.length }),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn completed(&mut self, now: Nanos) {
        self.source.completed(now);
    }
}
