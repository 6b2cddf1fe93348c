//! A profile for a drive that was recorded.
//!
//! The recording is played to a model of the drive (player.rs), and the model's latencies are
//! compared with those measured: at every fifth percentile and at p99, by their ratio
//! (distance.rs). The search starts with the known profiles, and breeds the nearest: children
//! equal one of them except for a few keys, whose changes are large at first and small later
//! (search.rs). The result behaves like the drive under this load; its internal structure may
//! differ.
//!
//! The profile is fitted to the first half of the recording only. Its distance on the second
//! half is the measure of its quality. The distance between the drive's own latencies in the two
//! halves says how much of that the load does not explain or the recording does not show: what the
//! drive's write cache held, what it was cleaning, what else it served.

pub(crate) mod disk;
mod distance;
mod knobs;
mod player;
mod search;

use trimtab_device::Profile;
use trimtab_io::Op;
use trimtab_trace::Record;

use crate::error::Error;
use distance::Latencies;
use knobs::Size;
use player::{Player, sent};
use search::Search;

pub use disk::{
    DiskDistance, DiskProbe, DiskProfiler, FittedDisk, RotationProbe, fit_disk, mean_forecast_error,
};
pub use distance::Distance;

/// Requests of each half that are played, at most: the last ones of the first
/// half, the first of the second.
const MOST: usize = 20_000;
/// Models are tried at this size if a larger one is requested, because the time to age a model
/// is proportional to its size. The last few are compared at the requested size.
const TRIED: u64 = 2 << 30;

/// A profile that was fitted.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// The profile that the search started with.
    pub base: String,
    /// On the half that it was fitted to.
    pub first_half: Distance,
    /// On the half that it has not seen.
    pub second_half: Distance,
    /// Between the drive's own latencies in the first half and in the second.
    pub halves: Distance,
    /// Models that were tried.
    pub tried: usize,
}

/// Fits a profile to a recording of one drive, in order of arrival. The profile has about
/// `capacity` bytes, and the models that are tried that or 2 GiB, whichever is less; offsets
/// beyond that wrap around. `progress` is called with the number of models tried and the least
/// error so far (infinite at first); it may end the search by returning false. The result is
/// the same for any number of threads.
///
/// # Errors
/// The recording has too few latencies, or no profile can have that capacity.
pub fn fit(
    records: &[Record],
    bases: &[Profile],
    capacity: u64,
    threads: usize,
    progress: impl FnMut(usize, f64) -> bool,
) -> Result<Fitted, Error> {
    const LEAST: usize = 1000;
    let measured: Vec<Record> = records
        .iter()
        .filter(|r| matches!(r.op, Op::Read | Op::Write) && r.complete.is_some() && r.length > 0)
        .copied()
        .collect();
    if measured.len() < LEAST {
        let found = measured.len();
        let what = format!("{found} requests with latencies, at least {LEAST} are needed");
        return Err(Error::Fit(what));
    }
    let half = measured.len() / 2;
    let sent = sent(&measured);
    let first = &sent[half.saturating_sub(MOST)..half];
    let second = &sent[half..measured.len().min(half + MOST)];
    // A short recording is played several times: garbage collection may only show after a
    // while.
    let long = first.repeat((MOST / first.len()).clamp(1, 4));
    let truth = Latencies::measured(&long);
    let player = Player::default();
    let size = Size { tried: capacity.min(TRIED), asked: capacity };
    let mut search = Search::new(&player, &long, &truth, size, threads, progress);
    let found = search.nearest(bases, first);
    let tried = search.tried();
    // The nearest at the requested size.
    let sized = found.into_iter().filter_map(|found| found.with_capacity(capacity).ok());
    let scored = sized.map(|profile| {
        let error = player.play(&profile, &long, 0).map(|model| model.distance(&truth).error());
        (error.unwrap_or(f64::INFINITY), profile)
    });
    let Some((_, mut profile)) = scored.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        let what = format!("no profile can have a capacity of {capacity} bytes");
        return Err(Error::Fit(what));
    };
    let base = std::mem::take(&mut profile.name);
    profile.name = format!("{base}-fitted");
    profile.about = format!("Fitted to a recording, beginning with {base}");
    // The first half brings the drive into its state; the second is evaluated.
    let (warm_up, both) = (first.len(), &sent[half - first.len()..half + second.len()]);
    let second_half = player
        .play(&profile, both, warm_up)
        .map(|model| model.distance(&Latencies::measured(second)));
    let first_half = player.play(&profile, &long, 0).map(|model| model.distance(&truth));
    let halves = Latencies::measured(first).distance(&Latencies::measured(second));
    let slow = || Error::Fit("no model keeps up with the recording's load".into());
    Ok(Fitted {
        profile,
        base,
        first_half: first_half.ok_or_else(slow)?,
        second_half: second_half.ok_or_else(slow)?,
        halves,
        tried,
    })
}

#[cfg(test)]
mod tests;
