//! LinnOS's view of a drive: 31 decimal digits (LinnOS, §4.3).
//!
//! | digits | what |
//! | --- | --- |
//! | 0–2 | 4 KiB pages in flight, with those of the request itself |
//! | 3–14 | pages in flight when each of the last four that were answered had been sent, the latest first |
//! | 15–30 | the latency of each of these four, µs |
//!
//! A number that has more digits than its place is written as nines.

use trimtab_io::{Nanos, Op, Request};

use crate::in_flight::{InFlight, Pending, Span, pages_of};
use crate::predictor::Ticket;
use crate::state::{Answered, DriveState, HISTORY};

/// How many digits there are.
pub const DIGITS: usize = 31;
/// Digits of a number of pages, and of a latency.
const PAGE_DIGITS: usize = 3;
const LATENCY_DIGITS: usize = 4;

/// What LinnOS knows of a drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    in_flight: InFlight,
    /// 4 KiB pages in flight.
    pages: u32,
    /// The last answers, the latest first.
    pub(crate) history: [Answered; HISTORY],
    /// The digits of these: what a decision need not write anew.
    digits: [u8; DIGITS],
}

impl Watched {
    pub(crate) fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.pages = self.pages.saturating_add(pages_of(request));
        let queue_then = self.in_flight.len() as u32;
        self.in_flight.add(Pending::new(now, request, self.pages, queue_then, Span::default()))
    }

    /// An answer has come; whether it tells something: only those to reads and
    /// writes that brought their data do.
    pub(crate) fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) -> bool {
        let pending = self.in_flight.remove(ticket);
        self.pages = self.pages.saturating_sub(pending.pages);
        if !data || !matches!(pending.op, Op::Read | Op::Write) {
            return false;
        }
        self.history.copy_within(..HISTORY - 1, 1);
        self.history[0] = pending.answered(now);
        let (_, rest) = self.digits.split_at_mut(PAGE_DIGITS);
        let (pages, latencies) = rest.split_at_mut(HISTORY * PAGE_DIGITS);
        // The others move on; only the latest is new.
        pages.copy_within(..(HISTORY - 1) * PAGE_DIGITS, PAGE_DIGITS);
        latencies.copy_within(..(HISTORY - 1) * LATENCY_DIGITS, LATENCY_DIGITS);
        let latest = &self.history[0];
        write_answer(latest, &mut pages[..PAGE_DIGITS], &mut latencies[..LATENCY_DIGITS]);
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
        let places = pages.chunks_mut(PAGE_DIGITS).zip(latencies.chunks_mut(LATENCY_DIGITS));
        for (answer, (pages, latency)) in self.history.iter().zip(places) {
            write_answer(answer, pages, latency);
        }
        digits
    }
}

fn write_answer(answer: &Answered, pages: &mut [u8], latency: &mut [u8]) {
    write(answer.pages_then.into(), pages);
    write(answer.latency.0 / 1000, latency);
}

/// Writes a number in decimal, the highest digit first.
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

    #[test]
    fn writes_digits() {
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
    fn has_the_latest_first() {
        let mut watched = Watched::default();
        let read = request(Op::Read, 0, 4096);
        let write = request(Op::Write, 0, 3 * 4096);
        let a = watched.sent(Nanos(0), &read);
        let b = watched.sent(Nanos(0), &write);
        let flush = watched.sent(Nanos(0), &request(Op::Flush, 0, 0));
        assert!(watched.completed(Nanos(123_999), b, true));
        assert!(!watched.completed(Nanos(124_000), flush, true));
        assert!(watched.completed(Nanos(20_000_000), a, true));
        let mut expected = [0; DIGITS];
        expected[2] = 1;
        expected[5] = 1;
        expected[8] = 4;
        expected[15..19].fill(9);
        expected[19..23].copy_from_slice(&[0, 1, 2, 3]);
        assert_eq!(watched.digits(&read), expected);
    }
}
