//! LinnOS's view of a drive: 31 decimal digits (LinnOS, §4.3).
//!
//! | digits | meaning |
//! | --- | --- |
//! | 0–2 | 4 KiB pages in flight, the request's own included |
//! | 3–14 | pages in flight when each of the last four completed requests was sent, the latest first |
//! | 15–30 | the latency of each of these four, µs |
//!
//! A number with more digits than its field has is written as nines.

use trimtab_io::{Nanos, Op, Request};

use crate::in_flight::{InFlight, Pending, Span};
use crate::pages::pages_of;
use crate::predictor::Ticket;
use crate::state::{CompletedIo, DriveState, HISTORY};

/// How many digits there are.
pub const DIGITS: usize = 31;
/// Digits of a number of pages, and of a latency.
const PAGE_DIGITS: usize = 3;
const LATENCY_DIGITS: usize = 4;

/// Tracks the part of a drive's state that LinnOS decides by.
#[derive(Clone, Debug, Default)]
pub(crate) struct DigitTracker {
    in_flight: InFlight,
    /// 4 KiB pages in flight.
    pages: u32,
    /// The last completed requests, the latest first.
    pub(crate) history: [CompletedIo; HISTORY],
    /// The digits of these, so that a decision need not write them again.
    digits: [u8; DIGITS],
}

impl DigitTracker {
    pub(crate) fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.pages = self.pages.saturating_add(pages_of(request));
        let queue_then = self.in_flight.len() as u32;
        self.in_flight.add(Pending::new(now, request, self.pages, queue_then, Span::default()))
    }

    /// A request completed. Returns whether it entered the history: only reads and writes
    /// that brought data do.
    pub(crate) fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) -> bool {
        let pending = self.in_flight.remove(ticket);
        self.pages = self.pages.saturating_sub(pending.pages);
        if !data || !matches!(pending.op, Op::Read | Op::Write) {
            return false;
        }
        self.history.copy_within(..HISTORY - 1, 1);
        self.history[0] = pending.completed(now);
        let (_, rest) = self.digits.split_at_mut(PAGE_DIGITS);
        let (pages, latencies) = rest.split_at_mut(HISTORY * PAGE_DIGITS);
        // The others move by one field; only the latest is written.
        pages.copy_within(..(HISTORY - 1) * PAGE_DIGITS, PAGE_DIGITS);
        latencies.copy_within(..(HISTORY - 1) * LATENCY_DIGITS, LATENCY_DIGITS);
        let latest = &self.history[0];
        write_completed(latest, &mut pages[..PAGE_DIGITS], &mut latencies[..LATENCY_DIGITS]);
        true
    }

    /// Requests in flight.
    pub(crate) const fn queue_length(&self) -> usize {
        self.in_flight.len()
    }

    /// Pages that would be in flight with those of `request`.
    fn pages_with(&self, request: &Request) -> u32 {
        self.pages.saturating_add(pages_of(request))
    }

    pub(crate) fn digits(&self, request: &Request) -> [u8; DIGITS] {
        let mut digits = self.digits;
        write(self.pages_with(request).into(), &mut digits[..PAGE_DIGITS]);
        digits
    }
}

impl DriveState {
    /// LinnOS's digits for a request that would be sent now (see
    /// [`Linnos`](crate::Linnos)).
    #[must_use]
    pub fn digits(&self, request: &Request) -> [u8; DIGITS] {
        let mut digits = [0; DIGITS];
        let (now, rest) = digits.split_at_mut(PAGE_DIGITS);
        write(self.pages.saturating_add(pages_of(request)).into(), now);
        let (pages, latencies) = rest.split_at_mut(HISTORY * PAGE_DIGITS);
        let fields = pages.chunks_mut(PAGE_DIGITS).zip(latencies.chunks_mut(LATENCY_DIGITS));
        for (completed, (pages, latency)) in self.history.iter().zip(fields) {
            write_completed(completed, pages, latency);
        }
        digits
    }
}

fn write_completed(io: &CompletedIo, pages: &mut [u8], latency: &mut [u8]) {
    write(io.pages_then.into(), pages);
    write(io.latency.0 / 1000, latency);
}

/// Writes a number in decimal, the most significant digit first.
fn write(number: u64, digits: &mut [u8]) {
    let most = 10_u64.pow(digits.len() as u32) - 1;
    let mut left = number.min(most) as u32;
    for digit in digits.iter_mut().rev() {
        *digit = (left % 10) as u8;
        left /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;
    use crate::tracker::DriveTracker;

    #[test]
    fn numbers_saturate_at_nines() {
        let digits = |number, n| {
            let mut digits = vec![0; n];
            write(number, &mut digits);
            digits
        };
        assert_eq!(digits(15, 3), [0, 1, 5]);
        assert_eq!(digits(240, 4), [0, 2, 4, 0]);
        assert_eq!(digits(10_000, 4), [9; 4]);
        assert_eq!(digits(u64::MAX, 3), [9; 3]);
    }

    #[test]
    fn history_has_the_latest_first() {
        let mut tracker = DigitTracker::default();
        let read = request(Op::Read, 0, 4096);
        let write = request(Op::Write, 0, 3 * 4096);
        let a = tracker.sent(Nanos(0), &read);
        let b = tracker.sent(Nanos(0), &write);
        let flush = tracker.sent(Nanos(0), &request(Op::Flush, 0, 0));
        assert!(tracker.completed(Nanos(123_999), b, true));
        assert!(!tracker.completed(Nanos(124_000), flush, true));
        assert!(tracker.completed(Nanos(20_000_000), a, true));
        let mut expected = [0; DIGITS];
        expected[2] = 1;
        expected[5] = 1;
        expected[8] = 4;
        expected[15..19].fill(9);
        expected[19..23].copy_from_slice(&[0, 1, 2, 3]);
        assert_eq!(tracker.digits(&read), expected);
    }

    /// The digits from a [`DriveState`] equal those from a [`DigitTracker`].
    #[test]
    fn digits_of_the_drive_state_are_the_same() {
        let (mut linnos, mut tracker) = (DigitTracker::default(), DriveTracker::new(&[]));
        let mut in_flight = Vec::new();
        let mut state = 11_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for i in 0..30_000 {
            let now = Nanos(20_000 * i);
            if random(2) == 0 && !in_flight.is_empty() {
                let (a, b) = in_flight.swap_remove(random(in_flight.len() as u64) as usize);
                let data = random(37) > 0;
                tracker.completed(now, a, data);
                linnos.completed(now, b, data);
                continue;
            }
            let op = match random(20) {
                0..12 => Op::Read,
                12..18 => Op::Write,
                18 => Op::Discard,
                _ => Op::Flush,
            };
            let length = if op == Op::Flush { 0 } else { 512 * (1 + random(64)) };
            let request = request(op, random(1 << 24) << 9, length);
            assert_eq!(tracker.state().digits(&request), linnos.digits(&request), "{i}");
            in_flight.push((tracker.sent(now, &request), linnos.sent(now, &request)));
        }
        assert!(in_flight.len() < 1000, "{}", in_flight.len());
    }
}
