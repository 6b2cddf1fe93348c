//! How long the way to a drive and back takes, so that answers can be given that much
//! earlier than the model says.
//!
//! What is emulated is a drive, and what a program sees is the drive and the way to
//! it: block layer, loop device, FUSE, and two processes that are woken up. On the
//! way to a real drive there is less of that. Most of it is the same for each
//! request, and can be taken off the model's time; what varies cannot.

use std::path::Path;
use std::thread;
use std::time::Duration;

use trimtab_io::Nanos;

use super::check::{one_by_one, open, places};
use super::clock;
use super::engine::{Answer, Engine};
use super::error::Error;
use super::spec::MOST_LEAD;
use super::state::State;

/// Reads from which it is found.
const READS: usize = 400;
/// They take about a tenth of that, unless the machine is very busy.
const PATIENCE: Nanos = Nanos::from_millis(500);
/// Others may look at a new device too.
const TRIES: u32 = 100;

/// Measures it: what three quarters of all reads take at least. Not half of them: the
/// machine may be busier now than later, and an answer before its time is worse than
/// a late one. The model is as before when this is over.
pub(super) fn measure<A: Answer>(
    device: &Path,
    capacity: u64,
    engine: &Engine<A>,
) -> Result<Nanos, Error> {
    let failed = || Error::system(format!("measure the way to {}", device.display()));
    let file = open(device).map_err(failed())?;
    let places = places(capacity, READS, 0);
    when_idle(engine, |state, now| state.take_snapshot(now))?;
    engine.state().figures.begin_log();
    let seen = one_by_one(&file, &places, clock::now() + PATIENCE).map_err(failed())?;
    let said = engine.state().figures.end_log();
    when_idle(engine, State::forget_since_snapshot)?;
    // The model is at another time than the timer knows.
    engine.call();
    // Reads of others are among what was said, at other places for the most part.
    let mut added = seen.iter().filter_map(|&(offset, latency)| {
        let sample = said.iter().find(|sample| sample.offset == offset)?;
        Some(latency.since(sample.model))
    });
    Ok(quarter(&mut added).min(MOST_LEAD))
}

/// The first quartile; 0 of nothing.
fn quarter(times: &mut dyn Iterator<Item = Nanos>) -> Nanos {
    let mut times: Vec<Nanos> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 4).copied().unwrap_or_default()
}

/// Does something that an idle drive alone allows.
fn when_idle<A: Answer>(
    engine: &Engine<A>,
    mut act: impl FnMut(&mut State<A>, Nanos) -> Result<(), Error>,
) -> Result<(), Error> {
    for _ in 1..TRIES {
        if act(&mut engine.state(), clock::now()).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    act(&mut engine.state(), clock::now())
}
