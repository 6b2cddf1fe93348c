//! Measures the path latency of a new drive: the first estimate for latency compensation
//! (compensation.rs).

use std::thread;
use std::time::Duration;

use trimtab_device::Drive;
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_serve::{Device, Error};

use super::check::{added_latency, offsets};
use super::clock;
use super::engine::Engine;
use super::spec::MAX_COMPENSATION;
use super::state::State;

/// Reads of a measurement. They take some 50 ms, unless the machine is very busy.
const READS: usize = 400;
/// Other programs may read from a new device too.
const TRIES: u32 = 100;

/// The compensation for a path that adds `added` to reads: the first quartile. Not the median: the
/// machine may be busier now than later, and an early answer is worse than a late one. `None`
/// without reads.
fn compensation_for(added: &LatencyHistogram) -> Option<Nanos> {
    Some(added.quantile(0.25)?.min(MAX_COMPENSATION))
}

/// Measures the path by a helper's reads from the first `bytes` of a device. Returns the
/// compensation, or why the reads failed. Then the drive continues with `model`, so that the one
/// that was read from need not be copied.
///
/// # Errors
/// The drive is not idle.
pub(super) fn measure<T: Send>(
    device: &Device,
    bytes: u64,
    engine: &Engine<T>,
    model: Drive,
) -> Result<Result<Nanos, Error>, Error> {
    engine.state().figures.begin_log();
    let seen = device.read(offsets(bytes, READS, 0));
    let log = engine.state().figures.end_log();
    let mut model = Some(model);
    when_idle(engine, |state, now| state.begin(&mut model, now))?;
    // The model's time has changed: recompute the timer.
    engine.call();
    // The log includes reads of other programs, mostly at other offsets.
    Ok(seen.map(|seen| compensation_for(&added_latency(seen, log)).unwrap_or_default()))
}

/// Runs something that needs an idle drive, once it is idle.
fn when_idle<T: Send>(
    engine: &Engine<T>,
    mut act: impl FnMut(&mut State<T>, Nanos) -> Result<(), Error>,
) -> Result<(), Error> {
    for _ in 1..TRIES {
        if act(&mut engine.state(), clock::now()).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    act(&mut engine.state(), clock::now())
}
