//! What is known of a member from its own reads.

use std::collections::VecDeque;

use trimtab_io::Nanos;

/// Reads whose outcomes are part of the state.
const RECENT: u32 = 8;
/// Classes of a member by its late reads in flight: none, one, two, more.
const IN_FLIGHT: u32 = 4;

/// The reads of one member: those in flight, and how the last ones ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// When reads were sent, and whether they have ended; the oldest, in flight, first.
    sent: VecDeque<(Nanos, bool)>,
    /// The number of the first of them.
    first: u32,
    /// The first so many of them were in flight for longer than is usual.
    passed: usize,
    /// How many of these have not ended.
    late: u32,
    /// When a read ended last.
    answered: Nanos,
    /// Outcomes of the last reads, the newest first: 1 is late.
    recent: u32,
}

/// The state of a member, as the forecast sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u8);

impl State {
    /// How many there are.
    pub(super) const COUNT: usize = (IN_FLIGHT * (RECENT + 1)) as usize;

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A read of a member: the state in which it was sent, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(pub(super) u32);

const STATE_BITS: u32 = 6;
const _: () = assert!(State::COUNT <= 1 << STATE_BITS);

impl Ticket {
    pub(super) const fn state(self) -> State {
        State((self.0 & ((1 << STATE_BITS) - 1)) as u8)
    }
}

impl Watch {
    /// Takes note of reads that are late by now: in flight for longer than `usual`.
    pub(super) fn pass(&mut self, now: Nanos, usual: Nanos) {
        while let Some(&(sent, ended)) = self.sent.get(self.passed) {
            if now.since(sent) < usual {
                return;
            }
            self.passed += 1;
            if !ended {
                self.late += 1;
                self.recent = self.recent << 1 | 1;
            }
        }
    }

    pub(super) fn state(&self) -> State {
        let recent = (self.recent & ((1 << RECENT) - 1)).count_ones();
        State((self.late.min(IN_FLIGHT - 1) * (RECENT + 1) + recent) as u8)
    }

    /// For how long it has answered none of the reads that are in flight.
    pub(super) fn silent(&self, now: Nanos) -> Nanos {
        let oldest = self.sent.front().map_or(now, |&(sent, _)| sent);
        now.since(oldest.max(self.answered))
    }

    /// A read is sent.
    pub(super) fn sent(&mut self, now: Nanos) -> Ticket {
        let number = self.first.wrapping_add(self.sent.len() as u32);
        self.sent.push_back((now, false));
        Ticket(number << STATE_BITS | u32::from(self.state().0))
    }

    /// A read has ended. Returns whether it was late.
    pub(super) fn ended(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.answered = now;
        // Numbers are modulo what the ticket has room for.
        let place = (ticket.0 >> STATE_BITS).wrapping_sub(self.first) << STATE_BITS >> STATE_BITS;
        let place = place as usize;
        let Some((_, ended)) = self.sent.get_mut(place) else { return false };
        *ended = true;
        let was_late = place < self.passed;
        if was_late {
            self.late -= 1;
        } else {
            self.recent <<= 1;
        }
        while self.sent.front().is_some_and(|&(_, ended)| ended) {
            self.sent.pop_front();
            self.first = self.first.wrapping_add(1);
            self.passed = self.passed.saturating_sub(1);
        }
        was_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Nanos = Nanos::from_millis(1);

    /// Late reads in flight, three at most, and late ones among the last.
    fn parts(state: State) -> (u32, u32) {
        (u32::from(state.0) / (RECENT + 1), u32::from(state.0) % (RECENT + 1))
    }

    #[test]
    fn late_reads_are_known_while_they_are_in_flight() {
        let mut watch = Watch::default();
        let first = watch.sent(Nanos::ZERO);
        let second = watch.sent(Nanos::from_micros(500));
        watch.pass(Nanos::from_micros(900), USUAL);
        assert_eq!(parts(watch.state()), (0, 0));
        watch.pass(Nanos::from_micros(1_000), USUAL);
        assert_eq!(parts(watch.state()), (1, 1));
        assert!(!watch.ended(Nanos::from_millis(1), second), "half a millisecond");
        assert_eq!(parts(watch.state()), (1, 1));
        assert_eq!(parts(watch.sent(Nanos::from_micros(1_100)).state()), (1, 1));
        assert!(watch.ended(Nanos::from_millis(2), first));
        assert_eq!(parts(watch.state()), (0, 1));
    }

    #[test]
    fn members_that_answer_nothing_are_silent() {
        let mut watch = Watch::default();
        let ms = Nanos::from_millis;
        assert_eq!(watch.silent(ms(500)), Nanos::ZERO, "nothing is asked of it");
        let (_, second) = (watch.sent(ms(500)), watch.sent(ms(600)));
        assert_eq!(watch.silent(ms(700)), ms(200));
        watch.ended(ms(700), second);
        assert_eq!(watch.silent(ms(900)), ms(200), "since the answer, not the oldest");
    }

    #[test]
    fn numbers_start_again_at_their_end() {
        let mut watch = Watch { first: (1 << (32 - STATE_BITS)) - 1, ..Watch::default() };
        let tickets = [watch.sent(Nanos::ZERO), watch.sent(Nanos::ZERO), watch.sent(Nanos::ZERO)];
        watch.pass(Nanos::from_secs(1), USUAL);
        assert_eq!(parts(watch.state()), (3, 3));
        for ticket in [tickets[1], tickets[0], tickets[2]] {
            assert!(watch.ended(Nanos::from_secs(1), ticket));
        }
        assert_eq!(parts(watch.state()).0, 0);
        assert!(watch.sent.is_empty());
    }
}
