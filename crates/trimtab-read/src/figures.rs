//! A reader's counters, which any process may read.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Why a read was sent without a forecast. Without one, nothing is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailOpenReason {
    NoModel,
    OtherModel,
    NoDevice,
    NotTracked,
    Stale,
    Unsure,
    OtherDrive,
    SeveralDrives,
    UnknownMapping,
}

const DOUBTS: usize = 9;

/// Reads that were sent without a forecast, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailedOpen {
    /// No model was given.
    pub no_model: u64,
    /// The model uses other unit functions than the tracker.
    pub other_model: u64,
    /// The data are on no disk whose requests the block layer sees: in memory, on the network,
    /// on a file system without one device.
    pub no_device: u64,
    /// The state of the drive is not tracked: no BPF programs are attached.
    pub not_tracked: u64,
    /// The state is older than the reader accepts.
    pub stale: u64,
    /// The state was being written, or the model has no forecast for such a read.
    pub unsure: u64,
    /// The model was trained on another drive: [`Reader::other_drive`] gives the difference.
    ///
    /// [`Reader::other_drive`]: super::Reader::other_drive
    pub other_drive: u64,
    /// Several drives hold the data, or any of several may be read: mirrors, a read across two
    /// members of an array.
    pub several_drives: u64,
    /// The mapping of the devices below is unknown (thin volumes, caches, arrays that are
    /// being reshaped), or the process may not read it.
    pub unknown_mapping: u64,
}

impl FailedOpen {
    /// The sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let mut total = 0;
        let reasons = self.by_reason();
        let mut i = 0;
        while i < reasons.len() {
            total += reasons[i].1;
            i += 1;
        }
        total
    }

    /// Each reason's name, and the number of reads admitted for it.
    #[must_use]
    pub const fn by_reason(&self) -> [(&'static str, u64); DOUBTS] {
        [
            ("no_model", self.no_model),
            ("other_model", self.other_model),
            ("other_drive", self.other_drive),
            ("no_device", self.no_device),
            ("not_tracked", self.not_tracked),
            ("stale", self.stale),
            ("unsure", self.unsure),
            ("several_drives", self.several_drives),
            ("unknown_mapping", self.unknown_mapping),
        ]
    }
}

/// A reader's counters since it was opened. They are exact when no read is in progress;
/// otherwise some may be one read ahead of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Reads without a deadline: admitted without a decision.
    pub without_deadline: u64,
    /// Reads with one: the sum of [`admitted`](Self::admitted),
    /// [`refused`](Self::refused), [`cached`](Self::cached), [`probed`](Self::probed),
    /// [`sampled`](Self::sampled), [`over_cap`](Self::over_cap) and
    /// [`failed_open`](Self::failed_open).
    pub with_deadline: u64,
    /// Sent, because they were expected to be in time.
    pub admitted: u64,
    /// Refused, including those that were [`bounded`](Self::bounded).
    pub refused: u64,
    /// Predicted late, or expected in memory, and the page cache held them; or predicted late
    /// in a hole of the file. No drive was needed.
    pub cached: u64,
    /// Predicted late, and sent to probe an avoided drive.
    pub probed: u64,
    /// Predicted late, and sent to measure how many refusals are wrong.
    pub sampled: u64,
    /// Predicted late, and sent because too many were refused.
    pub over_cap: u64,
    /// Sent without a forecast.
    pub failed_open: FailedOpen,
    /// Of the admitted: late nevertheless, by the model's label (false submits).
    pub late: u64,
    /// Probes, samples and reads over the ceiling that have completed.
    pub forced_samples: u64,
    /// Of these: fast. Refusing them would have been wrong (false revokes).
    pub fast_forced_samples: u64,
    /// Of the refused: would have been sent, but the drive had the maximum of such reads
    /// outstanding ([`ReadOptions::probes_out`], [`ReadOptions::most_abandoned`]).
    ///
    /// [`ReadOptions::probes_out`]: super::ReadOptions::probes_out
    /// [`ReadOptions::most_abandoned`]: super::ReadOptions::most_abandoned
    pub bounded: u64,
    /// Of those that were sent: not completed at their deadline.
    pub timed_out: u64,
    /// Of the refused: expected in memory, where their pages had been and were gone.
    pub evicted: u64,
    /// Of the admitted: expected in memory, but read for the first time, as far as known.
    pub first_accesses: u64,
}

impl Figures {
    /// The sum of two readers' counters.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// The difference to earlier counters.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self {
        let (a, b) = (&self.failed_open, &other.failed_open);
        Self {
            without_deadline: f(self.without_deadline, other.without_deadline),
            with_deadline: f(self.with_deadline, other.with_deadline),
            admitted: f(self.admitted, other.admitted),
            refused: f(self.refused, other.refused),
            cached: f(self.cached, other.cached),
            probed: f(self.probed, other.probed),
            sampled: f(self.sampled, other.sampled),
            over_cap: f(self.over_cap, other.over_cap),
            failed_open: FailedOpen {
                no_model: f(a.no_model, b.no_model),
                other_model: f(a.other_model, b.other_model),
                no_device: f(a.no_device, b.no_device),
                not_tracked: f(a.not_tracked, b.not_tracked),
                stale: f(a.stale, b.stale),
                unsure: f(a.unsure, b.unsure),
                other_drive: f(a.other_drive, b.other_drive),
                several_drives: f(a.several_drives, b.several_drives),
                unknown_mapping: f(a.unknown_mapping, b.unknown_mapping),
            },
            late: f(self.late, other.late),
            forced_samples: f(self.forced_samples, other.forced_samples),
            fast_forced_samples: f(self.fast_forced_samples, other.fast_forced_samples),
            bounded: f(self.bounded, other.bounded),
            timed_out: f(self.timed_out, other.timed_out),
            evicted: f(self.evicted, other.evicted),
            first_accesses: f(self.first_accesses, other.first_accesses),
        }
    }
}

/// A separate cache line: a core that updates one counter does not invalidate its neighbours
/// in other cores' caches.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line<T>(T);

/// The counters, in memory that other processes may read. The layout is version 3 of the files
/// in the readers' directory (docs/reading.md).
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Counters {
    with_deadline: Line<AtomicU64>,
    without_deadline: Line<AtomicU64>,
    late: Line<AtomicU64>,
    refused: Line<AtomicU64>,
    seldom: Line<Seldom>,
    open: Line<[AtomicU64; DOUBTS]>,
    memory: Line<ExpectedInMemory>,
}

/// Counters of reads that were expected in memory.
#[derive(Debug, Default)]
#[repr(C)]
struct ExpectedInMemory {
    evicted: AtomicU64,
    first_accesses: AtomicU64,
}

/// Counters of events rare enough to share a line.
#[derive(Debug, Default)]
#[repr(C)]
struct Seldom {
    cached: AtomicU64,
    probed: AtomicU64,
    sampled: AtomicU64,
    over_cap: AtomicU64,
    forced_samples: AtomicU64,
    fast_forced_samples: AtomicU64,
    bounded: AtomicU64,
    timed_out: AtomicU64,
}

const _: () = {
    assert!(size_of::<Counters>() == 8 * 64);
    assert!(offset_of!(Counters, refused) == 192 && offset_of!(Counters, memory) == 448);
    assert!(offset_of!(Seldom, fast_forced_samples) == 40);
    assert!(offset_of!(Seldom, timed_out) == 56 && size_of::<Seldom>() == 64);
};

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(super) fn without_deadline(&self) {
        count(&self.without_deadline.0);
    }

    /// Counts a read with a deadline. Returns how many there have been, with it.
    pub(super) fn with_deadline(&self) -> u64 {
        self.with_deadline.0.fetch_add(1, Relaxed) + 1
    }

    pub(super) fn refused(&self) {
        count(&self.refused.0);
    }

    /// A refused read would have been sent but for the bound.
    pub(super) fn bounded(&self) {
        count(&self.seldom.0.bounded);
    }

    /// A read was abandoned at its deadline.
    pub(super) fn timed_out(&self) {
        count(&self.seldom.0.timed_out);
    }

    /// A read was refused because its pages are gone from memory.
    pub(super) fn evicted(&self) {
        count(&self.refused.0);
        count(&self.memory.0.evicted);
    }

    /// A read that was expected in memory is sent, because it is the first of its pages.
    pub(super) fn first_access(&self) {
        count(&self.memory.0.first_accesses);
    }

    pub(super) fn cached(&self) {
        count(&self.seldom.0.cached);
    }

    pub(super) fn probed(&self) {
        count(&self.seldom.0.probed);
    }

    pub(super) fn sampled(&self) {
        count(&self.seldom.0.sampled);
    }

    pub(super) fn over_cap(&self) {
        count(&self.seldom.0.over_cap);
    }

    pub(super) fn failed_open(&self, doubt: FailOpenReason) {
        count(&self.open.0[doubt as usize]);
    }

    /// A read that was admitted as fast has completed.
    pub(super) fn was_late(&self) {
        count(&self.late.0);
    }

    /// A read that was sent although predicted late has completed.
    pub(super) fn tried(&self, was_late: bool) {
        count(&self.seldom.0.forced_samples);
        if !was_late {
            count(&self.seldom.0.fast_forced_samples);
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let open = &self.open.0;
        let failed_open = FailedOpen {
            no_model: get(&open[FailOpenReason::NoModel as usize]),
            other_model: get(&open[FailOpenReason::OtherModel as usize]),
            no_device: get(&open[FailOpenReason::NoDevice as usize]),
            not_tracked: get(&open[FailOpenReason::NotTracked as usize]),
            stale: get(&open[FailOpenReason::Stale as usize]),
            unsure: get(&open[FailOpenReason::Unsure as usize]),
            other_drive: get(&open[FailOpenReason::OtherDrive as usize]),
            several_drives: get(&open[FailOpenReason::SeveralDrives as usize]),
            unknown_mapping: get(&open[FailOpenReason::UnknownMapping as usize]),
        };
        let seldom = &self.seldom.0;
        let mut figures = Figures {
            without_deadline: get(&self.without_deadline.0),
            with_deadline: get(&self.with_deadline.0),
            admitted: 0,
            refused: get(&self.refused.0),
            cached: get(&seldom.cached),
            probed: get(&seldom.probed),
            sampled: get(&seldom.sampled),
            over_cap: get(&seldom.over_cap),
            failed_open,
            late: get(&self.late.0),
            forced_samples: get(&seldom.forced_samples),
            fast_forced_samples: get(&seldom.fast_forced_samples),
            bounded: get(&seldom.bounded),
            timed_out: get(&seldom.timed_out),
            evicted: get(&self.memory.0.evicted),
            first_accesses: get(&self.memory.0.first_accesses),
        };
        // The most frequent counter is not stored: it is the remainder.
        let others = figures.refused + figures.cached + figures.probed + figures.sampled;
        let others = others + figures.over_cap + failed_open.total();
        figures.admitted = figures.with_deadline.saturating_sub(others);
        figures
    }

    /// Parses counters from another process's file.
    pub(super) fn of_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        let this = Self::default();
        let all = this.all();
        for (counter, offset) in all {
            let word = bytes[offset..offset + 8].try_into().expect("eight bytes");
            counter.store(u64::from_ne_bytes(word), Relaxed);
        }
        this
    }

    /// Every counter, with its offset in bytes.
    fn all(&self) -> impl Iterator<Item = (&AtomicU64, usize)> {
        let seldom = &self.seldom.0;
        let start = std::ptr::from_ref(self).addr();
        let lines =
            [&self.with_deadline.0, &self.without_deadline.0, &self.late.0, &self.refused.0];
        let seldom = [
            &seldom.cached,
            &seldom.probed,
            &seldom.sampled,
            &seldom.over_cap,
            &seldom.forced_samples,
            &seldom.fast_forced_samples,
            &seldom.bounded,
            &seldom.timed_out,
        ];
        let memory = [&self.memory.0.evicted, &self.memory.0.first_accesses];
        let all = lines.into_iter().chain(seldom).chain(&self.open.0).chain(memory);
        all.map(move |counter| (counter, std::ptr::from_ref(counter).addr() - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admitted_is_the_remainder_also_from_bytes() {
        let counters = Counters::default();
        for _ in 0..100 {
            counters.with_deadline();
        }
        counters.without_deadline();
        (0..20).for_each(|_| counters.refused());
        (0..3).for_each(|_| counters.probed());
        counters.tried(true);
        counters.tried(false);
        counters.failed_open(FailOpenReason::Stale);
        counters.was_late();
        counters.bounded();
        (0..5).for_each(|_| counters.timed_out());
        (0..2).for_each(|_| counters.evicted());
        (0..3).for_each(|_| counters.first_access());
        let figures = counters.figures();
        assert_eq!(
            (figures.without_deadline, figures.with_deadline, figures.admitted),
            (1, 100, 74)
        );
        assert_eq!((figures.forced_samples, figures.fast_forced_samples, figures.late), (2, 1, 1));
        assert_eq!((figures.bounded, figures.timed_out), (1, 5));
        assert_eq!((figures.refused, figures.evicted, figures.first_accesses), (22, 2, 3));
        assert_eq!(figures.failed_open, FailedOpen { stale: 1, ..FailedOpen::default() });
        let mut bytes = [0; size_of::<Counters>()];
        for (counter, offset) in counters.all() {
            bytes[offset..offset + 8].copy_from_slice(&counter.load(Relaxed).to_ne_bytes());
        }
        assert_eq!(Counters::of_bytes(&bytes).figures(), figures);
    }
}
