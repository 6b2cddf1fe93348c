//! What came of a replica's forecasts, by the reads in flight beside them.
//!
//! A predictor was trained on a drive that served its own reads. A strategy that moves reads
//! changes that: a fast drive gets the reads of others, and its forecast, which comes from trees,
//! stays at what the recording ended with. Drives also change. So a forecast is multiplied by what
//! reads took lately as a multiple of what was expected of them, for each power of two of reads in
//! flight. Where nothing is known, at queues that were never as long, the latency is taken to grow
//! faster than the queue: the first reads that go there tell.
//!
//! Drives may be so unlike that a small share of the reads of one is more than another can take,
//! and no latency tells before it is too late. So the reads of faster replicas that are in flight on
//! a replica are limited by a window, which grows while they are as fast as forecast, and is halved
//! when one is not.
//!
//! The same reads say what another request costs those in flight: the [`price`](Calibration::price)
//! of a duplicate.

use trimtab_io::{Nanos, RequestId};

use crate::drain::{Ahead, DEPTHS, Drains, depth};
use crate::median::RunningMedian;

/// What is known of one replica.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    depths: [Depth; DEPTHS],
    drains: Drains,
    /// Reads in flight when another is sent, in the mean.
    in_flight: f64,
    /// No latency counts as more, ns, unless its forecast is long.
    longest: f64,
    pending: Box<[Option<Pending>]>,
    /// Reads of other replicas that were moved here and are in flight, and how many may be.
    moved: u32,
    window: f64,
    /// Where the window stops growing by each read, and grows by one for each window.
    threshold: f64,
    /// When it was halved last: reads that were sent before say nothing of what it is now.
    halved: Nanos,
}

/// Reads that were sent with 2^n - 1 to 2^(n+1) - 2 others in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    /// Decaying sums of latencies and of what was expected of the same reads, ns.
    took: f64,
    expected: f64,
    /// The number of forecasts that these are from, up to some thousands.
    forecasts: f64,
    reads: u32,
    median: RunningMedian,
}

/// A read that was forecast or sent.
#[derive(Clone, Copy, Debug)]
struct Pending {
    read: RequestId,
    /// The forecast, ns.
    expected: Option<f64>,
    /// When it was sent, and behind what.
    sent: Option<(Nanos, Ahead)>,
    /// Its primary replica is another one.
    moved: bool,
    /// Until when a user would have waited for it, because a hedge returned the data, or would have.
    overtaken: Option<Nanos>,
}

/// Reads that are followed at once. One that is still in flight when its place is needed has
/// taken [`UNFINISHED`] times its time so far.
const FOLLOWED: usize = 1024;
const UNFINISHED: u64 = 2;
/// What the sums keep with each read: 33 reads say what lately means.
const KEPT: f64 = 0.97;
const FORECASTS_KEPT: f64 = 0.9995;
/// What is left of the sums when a replica has recovered.
const REMEMBERED: f64 = 0.1;
/// A read counts as at most so many times its forecast, or the longest latency that counts on this replica, if that
/// is longer: one that was stuck says little of the next, and many that are slow say enough.
const MOST_OF_FORECAST: f64 = 8.0;
/// Where nothing is known, twice the queue is so many times the latency; the assumption weighs
/// as much as so many reads.
const GROWTH: f64 = 3.0;
const ASSUMED: f64 = 2.0;
/// A forecast that is right to within this factor holds.
const DOUBT: f64 = 1.5;
/// The window of moved reads at first, and at least. It is halved by a moved read that takes more
/// than so many times its forecast.
const FIRST_WINDOW: f64 = 4.0;
const LEAST_WINDOW: f64 = 4.0;
const CONGESTED: f64 = 8.0;
/// So many times the latency without a queue is added by one at most, for the price of a request: where it
/// is more the drive is overloaded for a while, which ends, and is not in the equilibrium that the price
/// assumes.
const MOST_CROWDING: f64 = 8.0;
/// The step of the running medians, and the reads after which they count.
const MEDIAN_STEP: f64 = 0.02;
const LEAST_READS: u32 = 8;

impl Calibration {
    pub(crate) fn new() -> Self {
        Self {
            depths: Default::default(),
            drains: Drains::default(),
            in_flight: 0.0,
            longest: 0.0,
            pending: vec![None; FOLLOWED].into(),
            moved: 0,
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            halved: Nanos::ZERO,
        }
    }

    /// What the latency is expected to be, as a multiple of the forecast, with so many reads in
    /// flight.
    pub(crate) fn factor(&self, in_flight: u32) -> f64 {
        // What is within the doubt is noise, and the rest is reduced by it: a factor that comes
        // from few and unequal reads would else reorder replicas that are alike.
        let seen = self.seen(in_flight);
        seen / seen.clamp(1.0 / DOUBT, DOUBT)
    }

    fn seen(&self, in_flight: u32) -> f64 {
        let mut factor = 1.0 / GROWTH;
        for depth in &self.depths[..=depth(in_flight)] {
            factor *= GROWTH;
            if depth.forecasts > 0.0 {
                let seen = depth.took / depth.expected;
                let all = depth.forecasts + ASSUMED;
                factor = (depth.forecasts * seen + ASSUMED * factor) / all;
            }
        }
        factor
    }

    /// How long a read waits that is sent behind these requests, ns.
    pub(crate) fn drain(&self, ahead: &Ahead) -> f64 {
        self.drains.wait(ahead)
    }

    /// What another request costs other reads, ns: it delays each that is in flight now or usually.
    /// Where the queue is long it delays all that come until it is short again: with M/M/1 these are
    /// n ρ / (1 - ρ) behind n requests, and ρ / (1 - ρ) is by how much longer than without a queue
    /// reads take.
    pub(crate) fn price(&self, in_flight: u32, pace: f64, usual: Nanos) -> f64 {
        let delayed = f64::from(in_flight).max(self.in_flight);
        delayed * self.crowding(usual).clamp(1.0, MOST_CROWDING) * self.delay(in_flight, pace)
    }

    /// The median latency without a queue, or with the shortest that is known.
    pub(crate) fn alone(&self) -> Option<Nanos> {
        let shortest = self.depths.iter().find(|depth| depth.reads >= LEAST_READS);
        shortest.map(|depth| depth.median.get())
    }

    /// By how many times the latency without a queue `usual` is longer, as far as is known.
    fn crowding(&self, usual: Nanos) -> f64 {
        let alone = self.alone().unwrap_or(usual);
        usual.0 as f64 / alone.0.max(1) as f64 - 1.0
    }

    /// By how much a request delays the next one, ns: the slope of the latency over the queue's length, or
    /// what the drive needs for a request (`pace`, ns), if that is more. The slope is that of medians,
    /// because stalls lengthen the queue, not the queue stalls; and it says nothing where most reads are
    /// served from memory, or the queue is hardly ever longer.
    pub(crate) fn delay(&self, in_flight: u32, pace: f64) -> f64 {
        self.slope(in_flight).max(pace)
    }

    /// By how much each request in flight lengthens the median latency, ns.
    fn slope(&self, in_flight: u32) -> f64 {
        let at = depth(in_flight);
        let median = |at: usize| {
            let depth = self.depths.get(at).filter(|depth| depth.reads >= LEAST_READS);
            depth.map(|depth| depth.median.get().0 as f64)
        };
        let Some(here) = median(at) else { return 0.0 };
        let width = f64::from(1_u32 << at);
        let up = median(at + 1).map(|up| (up - here) / width);
        let down = at.checked_sub(1).and_then(median).map(|down| (here - down) / (0.5 * width));
        let slope = match (up, down) {
            (Some(up), Some(down)) => 0.5 * (up + down),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => 0.0,
        };
        slope.clamp(0.0, 2.0 * here / width)
    }

    /// The read would take so long, says its forecast.
    pub(crate) fn forecast(&mut self, now: Nanos, read: RequestId, expected: Nanos) {
        let expected = (expected.0 > 0).then_some(expected.0 as f64);
        *self.place(now, read) =
            Some(Pending { read, expected, sent: None, moved: false, overtaken: None });
    }

    /// The read is sent behind others.
    pub(crate) fn sent(&mut self, now: Nanos, read: RequestId, ahead: Ahead) {
        /// The weight of a read in the mean.
        const WEIGHT: f64 = 0.01;
        self.in_flight += WEIGHT * (f64::from(ahead.reads) - self.in_flight);
        let place = self.place(now, read);
        let (expected, moved) = place.map_or((None, false), |it| (it.expected, it.moved));
        *place = Some(Pending { read, expected, sent: Some((now, ahead)), moved, overtaken: None });
    }

    /// Whether a read of another replica may be moved here. A replica may have a small part of the
    /// throughput of another, and would be overloaded by a small share of its reads before any
    /// latency tells: so few are moved at first, and more the longer they are as fast as forecast,
    /// as TCP does it (Jacobson, 1988).
    pub(crate) fn admits(&self) -> bool {
        f64::from(self.moved) < self.window
    }

    /// A read of another replica is moved here.
    pub(crate) fn moved_here(&mut self, now: Nanos, read: RequestId) {
        let place = self.place(now, read);
        let expected = place.and_then(|pending| pending.expected);
        if !place.is_some_and(|pending| pending.moved) {
            *place = Some(Pending { read, expected, sent: None, moved: true, overtaken: None });
            self.moved += 1;
        }
    }

    fn moved_read_ended(&mut self, pending: &Pending, latency: Option<Nanos>) {
        if !pending.moved {
            return;
        }
        self.moved -= 1;
        let usual = self.depths[0].median.get().0 as f64;
        let expected = pending.expected.unwrap_or(usual).max(usual);
        let sent = pending.sent.map_or(self.halved, |(sent, _)| sent);
        if latency.is_none_or(|latency| latency.0 as f64 > CONGESTED * expected) {
            if sent < self.halved {
                return;
            }
            self.halved = sent + latency.unwrap_or_default();
            self.threshold = (0.5 * self.window).max(LEAST_WINDOW);
            self.window = self.threshold;
        } else {
            self.window += if self.window < self.threshold { 1.0 } else { self.window.recip() };
        }
    }

    /// The read has returned its data; no latency counts as more than `longest` now, unless its forecast is long.
    pub(crate) fn completed(&mut self, read: RequestId, latency: Nanos, longest: Nanos) {
        self.longest = longest.0 as f64;
        if let Some(pending) = self.take(read) {
            self.moved_read_ended(&pending, Some(latency));
            self.record(&pending, latency);
        }
    }

    /// Another replica has returned the read's data before this one. Without it the user would have waited
    /// for what is left of `hedged`.
    pub(crate) fn was_overtaken(&mut self, now: Nanos, read: RequestId, hedged: Nanos) {
        let place = &mut self.pending[place_of(read)];
        let pending = place.as_mut().filter(|pending| pending.read == read);
        if let Some((pending, (sent, _))) = pending.and_then(|it| it.sent.map(|sent| (it, sent))) {
            pending.overtaken = Some(now.max(sent + hedged));
        }
    }

    /// The read has ended without data: its latency means nothing.
    pub(crate) fn failed(&mut self, read: RequestId) {
        if let Some(pending) = self.take(read) {
            self.moved_read_ended(&pending, None);
        }
    }

    /// What was learned counts less: the replica has recovered. Without it the few probes that a
    /// replica gets which is avoided would take seconds to tell.
    pub(crate) fn forget(&mut self) {
        for depth in &mut self.depths {
            depth.took *= REMEMBERED;
            depth.expected *= REMEMBERED;
        }
        self.drains.forget(REMEMBERED);
    }

    fn take(&mut self, read: RequestId) -> Option<Pending> {
        self.pending[place_of(read)].take_if(|pending| pending.read == read)
    }

    /// The read's place among those that are followed, after what was there has been counted.
    fn place(&mut self, now: Nanos, read: RequestId) -> &mut Option<Pending> {
        let at = place_of(read);
        if let Some(other) = self.pending[at].take_if(|pending| pending.read != read) {
            if let Some((sent, _)) = other.sent {
                let latency = Nanos(now.since(sent).0.saturating_mul(UNFINISHED));
                self.moved_read_ended(&other, Some(latency));
                self.record(&other, latency);
            } else {
                // It was not sent, or not yet, and says nothing of the replica.
                self.moved -= u32::from(other.moved);
            }
        }
        &mut self.pending[at]
    }

    fn record(&mut self, pending: &Pending, latency: Nanos) {
        let Some((sent, ahead)) = pending.sent else { return };
        self.drains.record(&ahead, latency);
        let depth = &mut self.depths[depth(ahead.reads)];
        if depth.reads == 0 {
            depth.median = RunningMedian::new(MEDIAN_STEP, latency);
        }
        depth.reads = depth.reads.saturating_add(1);
        depth.median.record(latency);
        if let Some(expected) = pending.expected {
            // A hedge ends the wait only where one is sent, and is sooner.
            let took = pending.overtaken.map_or(latency, |at| latency.min(at.since(sent)));
            let took = (took.0 as f64).min((MOST_OF_FORECAST * expected).max(self.longest));
            depth.took = KEPT * depth.took + took;
            depth.expected = KEPT * depth.expected + expected;
            depth.forecasts = FORECASTS_KEPT * depth.forecasts + 1.0;
        }
    }
}

/// Where a read is followed: few of those that are in flight together have one place, whether they are numbered
/// in a row or by thread (Fibonacci hashing; Knuth, volume 3, 6.4).
const fn place_of(read: RequestId) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    (read.0.wrapping_mul(GOLDEN) >> (u64::BITS - FOLLOWED.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Nanos = Nanos::from_micros(100);

    /// Reads one after another that take `took`, with so many others in flight.
    fn serve(calibration: &mut Calibration, reads: u64, in_flight: u32, took: Nanos) {
        for i in 0..reads {
            let (read, now) = (RequestId(i), Nanos::from_millis(i));
            calibration.forecast(now, read, EXPECTED);
            calibration.sent(now, read, Ahead { reads: in_flight, ..Ahead::default() });
            calibration.completed(read, took, Nanos::ZERO);
        }
    }

    #[test]
    fn forecasts_that_hold_stay_as_they_are() {
        let mut calibration = Calibration::new();
        assert!((calibration.factor(0) - 1.0).abs() < 1e-9);
        serve(&mut calibration, 100, 0, EXPECTED);
        assert!((calibration.factor(0) - 1.0).abs() < 1e-9);
    }

    /// Reads on a drive whose latencies have a tail, longer than what a hedged read takes. It counts where no
    /// hedge ends it: forecasts that leave it out send reads into it.
    #[test]
    fn a_tail_counts_as_long_as_users_wait_for_it() {
        let times = |times: u64| Nanos(times * EXPECTED.0);
        let seen = |overtaken: Option<(Nanos, Nanos)>| {
            let mut calibration = Calibration::new();
            for i in 0..500 {
                let (read, now) = (RequestId(i), Nanos::from_millis(10 * i));
                calibration.forecast(now, read, EXPECTED);
                calibration.sent(now, read, Ahead::default());
                if let Some((after, hedged)) = overtaken {
                    calibration.was_overtaken(now + after, read, hedged);
                }
                calibration.completed(read, times(20), times(32));
            }
            (DOUBT * calibration.factor(0)).round()
        };
        assert_eq!(seen(None), 20.0);
        assert_eq!(seen(Some((times(3), Nanos::ZERO))), 3.0, "its hedge was sooner");
        assert_eq!(seen(Some((times(1), times(3)))), 3.0, "its hedge would have been");
        assert_eq!(seen(Some((times(30), Nanos::ZERO))), 20.0, "it was sooner after all");
    }

    #[test]
    fn few_reads_that_are_in_flight_together_have_one_place() {
        let places = |reads: &mut dyn Iterator<Item = u64>| {
            let mut places: Vec<_> = reads.map(|read| place_of(RequestId(read))).collect();
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        assert_eq!(places(&mut (0..512)), 512, "in a row");
        // Of 32 threads, of eight primaries each.
        let mut threads = (0..32_u64).flat_map(|thread| (0..8).map(move |i| thread << 43 | i));
        assert!(places(&mut threads) > 200);
    }

    #[test]
    fn a_drive_that_slows_down_is_known_within_some_tens_of_reads() {
        let mut calibration = Calibration::new();
        serve(&mut calibration, 10_000, 0, EXPECTED);
        serve(&mut calibration, 50, 0, Nanos(5 * EXPECTED.0));
        let factor = DOUBT * calibration.factor(0);
        assert!((4.0..5.0).contains(&factor), "{factor}");
        // And one that recovers.
        serve(&mut calibration, 100, 0, EXPECTED);
        let factor = calibration.factor(0);
        assert!((1.0..1.01).contains(&factor), "{factor}");
    }

    #[test]
    fn a_queue_that_was_never_as_long_counts_more_until_it_is_known() {
        let mut calibration = Calibration::new();
        serve(&mut calibration, 1_000, 1, EXPECTED);
        let unknown = [3, 7, 15].map(|in_flight| DOUBT * calibration.factor(in_flight));
        assert!(unknown[0] > 2.5 && unknown[1] > 2.5 * unknown[0], "{unknown:?}");
        assert!(unknown[2] > 2.5 * unknown[1], "{unknown:?}");
        // The drive serves many at once.
        serve(&mut calibration, 30, 15, EXPECTED);
        let factor = calibration.factor(15);
        assert!(factor < 3.0, "{factor}");
    }

    #[test]
    fn a_read_that_never_completes_counts_when_its_place_is_needed() {
        let mut calibration = Calibration::new();
        for i in 0..4 * FOLLOWED as u64 {
            let (read, now) = (RequestId(i), Nanos::from_micros(i));
            calibration.forecast(now, read, EXPECTED);
            calibration.sent(now, read, Ahead::default());
        }
        assert!(
            DOUBT * calibration.factor(0) > 0.9 * MOST_OF_FORECAST,
            "{}",
            calibration.factor(0)
        );
        (0..5_000).for_each(|i| calibration.failed(RequestId(i)));
        assert!(calibration.pending.iter().all(Option::is_none));
    }

    /// Moved reads that take `took`, as many at once as are admitted; returns how many these were.
    fn move_reads(calibration: &mut Calibration, round: u64, took: Nanos) -> u64 {
        let now = Nanos::from_millis(round);
        let first = 10_000 * round;
        let mut read = first;
        while calibration.admits() && read - first < FOLLOWED as u64 {
            calibration.forecast(now, RequestId(read), EXPECTED);
            calibration.moved_here(now, RequestId(read));
            calibration.sent(now, RequestId(read), Ahead::default());
            read += 1;
        }
        (first..read).for_each(|id| calibration.completed(RequestId(id), took, Nanos::ZERO));
        assert_eq!(calibration.moved, 0);
        read - first
    }

    #[test]
    fn reads_are_moved_here_as_long_as_they_are_as_fast_as_forecast() {
        let mut calibration = Calibration::new();
        let fast: Vec<u64> =
            (0..6).map(|round| move_reads(&mut calibration, round, EXPECTED)).collect();
        assert_eq!(fast, [4, 8, 16, 32, 64, 128], "twice as many each time");
        // Congestion: half as many, once for all reads that were in flight together.
        let slow = Nanos(20 * EXPECTED.0);
        assert_eq!(move_reads(&mut calibration, 6, slow), 256);
        let halved = move_reads(&mut calibration, 20, EXPECTED);
        assert!((128..=132).contains(&halved), "{halved}");
        // Failures as well, and then it grows by one read at a time.
        for i in 0..10 {
            let (read, now) = (RequestId(i), Nanos::from_secs(1 + i));
            calibration.moved_here(now, read);
            calibration.sent(now, read, Ahead::default());
            calibration.failed(read);
        }
        let least = LEAST_WINDOW as u64;
        assert_eq!(move_reads(&mut calibration, 100_000, EXPECTED), least);
        assert_eq!(move_reads(&mut calibration, 200_000, EXPECTED), least + 1);
    }

    #[test]
    fn moved_reads_that_are_never_sent_or_fail_make_room() {
        let mut calibration = Calibration::new();
        for i in 0..3 {
            calibration.moved_here(Nanos::ZERO, RequestId(i));
            calibration.moved_here(Nanos::ZERO, RequestId(i));
        }
        assert_eq!(calibration.moved, 3);
        calibration.failed(RequestId(0));
        let is_there = |read: &RequestId| place_of(*read) == place_of(RequestId(1));
        let other = (3..).map(RequestId).find(is_there).unwrap();
        calibration.sent(Nanos::ZERO, other, Ahead::default());
        calibration.sent(Nanos::ZERO, RequestId(2), Ahead::default());
        calibration.completed(RequestId(2), EXPECTED, Nanos::ZERO);
        assert_eq!(calibration.moved, 0);
    }

    #[test]
    fn a_request_costs_what_others_wait_longer() {
        let mut calibration = Calibration::new();
        assert_eq!(calibration.price(0, 0.0, EXPECTED), 0.0, "nothing is known");
        for (in_flight, us) in [(0, 100), (1, 100), (3, 100), (7, 180)] {
            serve(&mut calibration, 200, in_flight, Nanos::from_micros(us));
        }
        // Up to four the drive serves at once; beyond, each request delays the others by 20 µs.
        let prices = [1, 7].map(|in_flight| calibration.price(in_flight, 0.0, EXPECTED) / 1e3);
        assert!(prices[0] < 1.0 && (100.0..200.0).contains(&prices[1]), "{prices:?}");
        let by_pace = calibration.price(2, 30_000.0, EXPECTED) / 1e3;
        assert!((60.0..220.0).contains(&by_pace), "at least the time of two requests: {by_pace}");
        // Queues that are usually long are not short again soon.
        serve(&mut calibration, 2_000, 15, Nanos::from_micros(700));
        let price = calibration.price(15, 0.0, Nanos::from_micros(700)) / 1e3;
        let slope = calibration.slope(15) / 1e3;
        assert!((0.95..1.05).contains(&(price / (15.0 * slope * 6.0))), "{price} of {slope}");
    }
}
