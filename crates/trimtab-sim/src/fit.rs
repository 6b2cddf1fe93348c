//! A profile for a drive that was recorded.
//!
//! The recording is played to a model of the drive, with its times of arrival,
//! and the model's latencies are compared with those measured: at every fifth
//! percentile, by their ratio. Starting from the profile that comes nearest,
//! one key after the other is made larger or smaller as long as that brings the
//! model nearer, again and again until none does; first in large steps and then in
//! small ones. What comes out
//! behaves like the drive under this load; that its inside is like the drive's
//! is not claimed.
//!
//! The profile is fitted to the first half of the recording only. How well it
//! does on the second half is what it is worth.

mod knobs;

use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, LatencyHistogram, Nanos, Op, RequestId};
use trimtab_trace::Record;

use crate::error::Error;
use knobs::Knob;

/// Requests of each half that are played, at most: the last ones of the first
/// half, the first of the second.
const MOST: usize = 20_000;
/// More requests on their way than this: the model is too slow for the load.
const HOPELESS: usize = 4096;
/// The error of a model that is too slow for the load.
const FAR: f64 = 10.0;
/// What a knob is turned by, in this order.
const STEPS: [f64; 4] = [2.0, 1.4, 1.15, 1.06];
/// A turn has to win so much of the error, or it is not worth having.
const WORTH: f64 = 0.002;

/// How far a model's latencies are from those measured.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Distance {
    /// Reads compared.
    pub reads: u64,
    /// Mean factor between the read latencies of model and drive at every fifth
    /// percentile, less 1: 0.1 is ten percent off.
    pub read_error: Option<f64>,
    /// The greatest distance between the two CDFs of read latencies
    /// (Kolmogorov–Smirnov), 0 to 1.
    pub read_ks: Option<f64>,
    /// The same of writes.
    pub writes: u64,
    /// See `read_error`.
    pub write_error: Option<f64>,
    /// See `read_ks`.
    pub write_ks: Option<f64>,
}

/// A profile that was fitted.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// The one it began with.
    pub base: String,
    /// On the half that it was fitted to.
    pub first_half: Distance,
    /// On the half that it has not seen.
    pub second_half: Distance,
    /// Models that were tried.
    pub tried: usize,
}

/// Fits a profile to a recording of one drive, in order of arrival. The models
/// have about `capacity` bytes; places beyond that are folded in. `progress` is
/// told how many models were tried, and the least error so far; it may end the
/// search by returning false.
///
/// # Errors
/// The recording has too few latencies, or no profile can have that capacity.
pub fn fit(
    records: &[Record],
    bases: &[Profile],
    capacity: u64,
    mut progress: impl FnMut(usize, f64) -> bool,
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
    let first = &measured[half.saturating_sub(MOST)..half];
    let second = &measured[half..measured.len().min(half + MOST)];
    let truth = Latencies::measured(first);
    let mut search = Search { first, truth: &truth, tried: 0, go_on: true };
    let sized = bases.iter().filter_map(|base| base.clone().with_capacity(capacity).ok());
    let mut best: Option<(f64, Profile)> = None;
    for base in sized {
        let error = search.error(&base, &mut progress, best.as_ref().map_or(FAR, |b| b.0));
        if best.as_ref().is_none_or(|best| error < best.0) {
            best = Some((error, base));
        }
    }
    let Some((mut error, mut profile)) = best else {
        let what = format!("no profile can have a capacity of {capacity} bytes");
        return Err(Error::Fit(what));
    };
    let base = profile.name.clone();
    for step in STEPS {
        while search.round(&mut profile, &mut error, step, &mut progress) {}
    }
    profile.name = format!("{base}-fitted");
    profile.about = format!("Fitted to a recording, beginning with {base}");
    // The first half brings the drive into its state; the second is judged.
    let (warm_up, both) = (first.len(), &measured[half - first.len()..half + second.len()]);
    let second_half = Latencies::of(&profile, both, warm_up)
        .map(|model| model.distance(&Latencies::measured(second)));
    let first_half = Latencies::of(&profile, first, 0).map(|model| model.distance(&truth));
    let slow = || Error::Fit("no model keeps up with the recording's load".into());
    Ok(Fitted {
        profile,
        base,
        first_half: first_half.ok_or_else(slow)?,
        second_half: second_half.ok_or_else(slow)?,
        tried: search.tried,
    })
}

/// The latencies of reads and of writes.
#[derive(Default)]
struct Latencies {
    reads: LatencyHistogram,
    writes: LatencyHistogram,
}

impl Latencies {
    fn add(&mut self, op: Op, latency: Nanos) {
        match op {
            Op::Read => self.reads.record(latency),
            _ => self.writes.record(latency),
        }
    }

    fn measured(records: &[Record]) -> Self {
        let mut all = Self::default();
        for record in records {
            all.add(record.op, record.response_time().unwrap_or_default());
        }
        all
    }

    /// A model's, of all requests but the first so many; none if it does not
    /// keep up with the load.
    fn of(profile: &Profile, records: &[Record], warm_up: usize) -> Option<Self> {
        let mut ssd = Ssd::new(profile, DeviceId(0), 1);
        ssd.age(profile, 1.0, 3.0);
        let (capacity, start) = (ssd.capacity(), records.first()?.arrival);
        let mut all = Self::default();
        let mut take = |ssd: &mut Ssd| {
            for served in ssd.served() {
                let number = served.completion.request.0 as usize;
                if number >= warm_up {
                    all.add(records[number].op, served.completion.service_time());
                }
            }
        };
        for (number, record) in records.iter().enumerate() {
            let at = ssd.now().max(Nanos(record.arrival.since(start).0));
            let mut request = record.request(RequestId(number as u64));
            request.arrival = at;
            request.length = request.length.min(capacity / 2);
            request.offset %= capacity - request.length;
            request.offset -= request.offset % 512;
            ssd.submit(at, &request).ok()?;
            take(&mut ssd);
            if ssd.in_flight() > HOPELESS {
                return None;
            }
        }
        while ssd.in_flight() > 0 {
            let at = ssd.next_event()?;
            ssd.advance(at);
            take(&mut ssd);
        }
        Some(all)
    }

    fn distance(&self, truth: &Self) -> Distance {
        Distance {
            reads: truth.reads.count(),
            read_error: error(&self.reads, &truth.reads),
            read_ks: ks(&self.reads, &truth.reads),
            writes: truth.writes.count(),
            write_error: error(&self.writes, &truth.writes),
            write_ks: ks(&self.writes, &truth.writes),
        }
    }
}

/// The mean factor between the latencies at every fifth percentile, less 1.
fn error(model: &LatencyHistogram, truth: &LatencyHistogram) -> Option<f64> {
    let mut sum = 0.0;
    for k in 1..20 {
        let (a, b) = (model.quantile(f64::from(k) / 20.0)?, truth.quantile(f64::from(k) / 20.0)?);
        let ratio = a.0.max(1) as f64 / b.0.max(1) as f64;
        sum += libm::fabs(libm::log(ratio));
    }
    Some(libm::exp(sum / 19.0) - 1.0)
}

/// The greatest distance between two CDFs.
fn ks(model: &LatencyHistogram, truth: &LatencyHistogram) -> Option<f64> {
    if model.count() == 0 || truth.count() == 0 {
        return None;
    }
    let mut steps: Vec<(Nanos, f64)> = Vec::new();
    let mut add = |histogram: &LatencyHistogram, sign: f64| {
        let weight = sign / histogram.count() as f64;
        steps.extend(histogram.buckets().map(|(at, count)| (at, weight * count as f64)));
    };
    add(model, 1.0);
    add(truth, -1.0);
    steps.sort_by_key(|step| step.0);
    let (mut difference, mut most) = (0.0, 0.0_f64);
    for same in steps.chunk_by(|a, b| a.0 == b.0) {
        difference += same.iter().map(|step| step.1).sum::<f64>();
        most = most.max(libm::fabs(difference));
    }
    Some(most)
}

/// Tries models.
struct Search<'a> {
    first: &'a [Record],
    truth: &'a Latencies,
    tried: usize,
    go_on: bool,
}

impl Search<'_> {
    /// A model's error: that of reads and of writes, by how many there are.
    fn error(
        &mut self,
        profile: &Profile,
        progress: &mut impl FnMut(usize, f64) -> bool,
        least: f64,
    ) -> f64 {
        if !self.go_on {
            return f64::INFINITY;
        }
        self.tried += 1;
        let model = Latencies::of(profile, self.first, 0);
        let distance = model.map(|model| model.distance(self.truth));
        let error = distance.map_or(FAR, |d| {
            let sum = |(sum, count): (f64, f64), (error, n): (Option<f64>, u64)| match error {
                Some(error) => (sum + error * n as f64, count + n as f64),
                None => (sum, count),
            };
            let parts = [(d.read_error, d.reads), (d.write_error, d.writes)];
            let (sum, count) = parts.into_iter().fold((0.0, 0.0), sum);
            sum / f64::max(count, 1.0)
        });
        self.go_on = progress(self.tried, error.min(least));
        error
    }

    /// Turns each knob, up or else down, as long as that is worth it; whether any
    /// of it was.
    fn round(
        &mut self,
        profile: &mut Profile,
        error: &mut f64,
        step: f64,
        progress: &mut impl FnMut(usize, f64) -> bool,
    ) -> bool {
        let before = *error;
        for knob in Knob::ALL {
            for factor in [step, 1.0 / step] {
                let begun = *error;
                while let Some(turned) = knob.turn(profile, factor) {
                    let found = self.error(&turned, progress, *error);
                    if found >= *error - WORTH {
                        break;
                    }
                    (*error, *profile) = (found, turned);
                }
                if *error < begun {
                    break;
                }
            }
        }
        *error < before
    }
}

#[cfg(test)]
mod tests;
