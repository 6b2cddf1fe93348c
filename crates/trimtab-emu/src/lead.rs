//! How long the way to a drive and back takes, so that answers can be given that much
//! earlier than the model says.
//!
//! What is emulated is a drive, and what a program sees is the drive and the way to
//! it: block layer, loop device, FUSE, and two processes that are woken up. On the
//! way to a real drive there is less of that. Most of it is the same for each
//! request, and can be taken off the model's time; what varies cannot.

use std::thread;
use std::time::Duration;

use trimtab_device::Ssd;
use trimtab_io::{LatencyHistogram, Nanos};

use super::check::{added, places};
use super::clock;
use super::device::Device;
use super::engine::Engine;
use super::error::Error;
use super::spec::MOST_LEAD;
use super::state::State;

/// Reads from which it is found. They take some 50 ms, unless the machine is very busy.
const READS: usize = 400;
/// Others may look at a new device too.
const TRIES: u32 = 100;

/// The lead for a drive, the way to which, without one, adds so much to reads: what three
/// quarters of them take at least. Not half of them: the machine may be busier now than
/// later, and an answer before its time is worse than a late one. None of no reads.
fn lead_for(added: &LatencyHistogram) -> Option<Nanos> {
    Some(added.quantile(0.25)?.min(MOST_LEAD))
}

/// Measures the way by reads that another process makes from the first `bytes` of a device,
/// and gives the lead for it, or why they could not be made. Then the model goes on with
/// `flash`: what was there before, to be read from, has not to be copied and kept for that.
///
/// # Errors
/// The drive is not idle.
pub(super) fn measure<T: Send>(
    device: &Device,
    bytes: u64,
    engine: &Engine<T>,
    flash: Ssd,
) -> Result<Result<Nanos, Error>, Error> {
    engine.state().figures.begin_log();
    let seen = device.read(places(bytes, READS, 0));
    let said = engine.state().figures.end_log();
    let mut flash = Some(flash);
    when_idle(engine, |state, now| state.begin(&mut flash, now))?;
    // The model is at another time than the timer knows.
    engine.call();
    // Reads of others are among what was said, at other places for the most part.
    Ok(seen.map(|seen| lead_for(&added(seen, said)).unwrap_or_default()))
}

/// Does something that an idle drive alone allows.
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
