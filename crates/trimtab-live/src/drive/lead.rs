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

use trimtab_io::{LatencyHistogram, Nanos};

use super::check::{added, one_by_one, open, places};
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

/// The lead for a drive, the way to which, without one, adds so much to reads: what three
/// quarters of them take at least. Not half of them: the machine may be busier now than
/// later, and an answer before its time is worse than a late one. None of no reads.
#[must_use]
pub fn lead_for(added: &LatencyHistogram) -> Option<Nanos> {
    Some(added.quantile(0.25)?.min(MOST_LEAD))
}

/// Measures the way by reading, and gives the lead for it. The model is as before when
/// this is over.
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
    Ok(lead_for(&added(seen, said)).unwrap_or_default())
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
