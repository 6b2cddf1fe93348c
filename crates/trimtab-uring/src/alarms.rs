//! Timers of the kernel that end a wait.
//!
//! A wait with a time limit of its own programs a timer and takes it back, for each read. Where
//! that is the next timer of the processor its hardware is programmed twice, and on a virtual
//! processor each time costs microseconds: as much as a read of a fast drive. An alarm is not taken
//! back. It serves the waits that come after it as well: those end no earlier than it, so when it
//! rings one for the next of them is enough. A hedge's delay passes between two of them.

use io_uring::types::{TimeoutFlags, Timespec};
use io_uring::{opcode, squeue};
use trimtab_io::Nanos;

/// Marks the completions of alarms; requests have smaller numbers.
const MARK: u64 = 1 << 63;
/// Marks the completions of requests to take an alarm back.
const TAKEN_BACK: u64 = u64::MAX;
/// Alarms at a time. More than one is set where later waits have earlier ends.
const MOST: usize = 4;
const NEVER: Nanos = Nanos::MAX;

/// The alarms of one thread's queues.
#[derive(Debug)]
pub(crate) struct Alarms {
    /// When each rings; [`NEVER`] if it is not set.
    at: [Nanos; MOST],
    /// The same for the kernel, which reads it when the alarm is submitted.
    times: Box<[Timespec; MOST]>,
}

/// What is to be done so that a wait ends.
pub(crate) enum Alarm {
    /// Nothing: an alarm that is set rings by then.
    Set,
    /// Submit this one.
    New(squeue::Entry),
    /// The wait must have a limit of its own: too many alarms are set.
    TooMany,
}

impl Default for Alarms {
    fn default() -> Self {
        Self { at: [NEVER; MOST], times: Box::new([Timespec::new(); MOST]) }
    }
}

impl Alarms {
    /// An alarm that rings at this time of the monotonic clock, or before. The entry's memory is
    /// valid as long as these alarms are.
    pub(crate) fn by(&mut self, until: Nanos) -> Alarm {
        if self.at.iter().any(|&at| at <= until) {
            return Alarm::Set;
        }
        let Some(free) = self.at.iter().position(|&at| at == NEVER) else {
            return Alarm::TooMany;
        };
        self.at[free] = until;
        let (seconds, nanos) = (until.0 / 1_000_000_000, until.0 % 1_000_000_000);
        self.times[free] = Timespec::new().sec(seconds).nsec(nanos as u32);
        let alarm = opcode::Timeout::new(&raw const self.times[free]).flags(TimeoutFlags::ABS);
        Alarm::New(alarm.build().user_data(MARK | free as u64))
    }

    /// Whether none is set.
    pub(crate) fn are_over(&self) -> bool {
        self.at.iter().all(|&at| at == NEVER)
    }

    /// Entries that take back those that are set. Each alarm is over when its completion has been
    /// taken.
    pub(crate) fn to_take_back(&self) -> impl Iterator<Item = squeue::Entry> + use<> {
        let set = self.at.map(|at| at != NEVER).into_iter().zip(0..);
        set.filter(|&(is_set, _)| is_set).map(|(_, number)| {
            opcode::TimeoutRemove::new(MARK | number).build().user_data(TAKEN_BACK)
        })
    }

    /// The entry of this alarm was not submitted.
    pub(crate) fn withdraw(&mut self, until: Nanos) {
        self.at.iter_mut().filter(|at| **at == until).for_each(|at| *at = NEVER);
    }

    /// Whether this completion was an alarm's, which is then not set any more.
    pub(crate) fn rang(&mut self, user_data: u64) -> bool {
        if user_data & MARK == 0 {
            return false;
        }
        if user_data != TAKEN_BACK {
            self.at[(user_data & !MARK) as usize] = NEVER;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(alarm: &Alarm) -> Option<u64> {
        match alarm {
            Alarm::New(entry) => Some(entry.get_user_data()),
            _ => None,
        }
    }

    #[test]
    fn later_waits_share_an_alarm_and_earlier_ones_get_their_own() {
        let mut alarms = Alarms::default();
        let first = number(&alarms.by(Nanos(500))).unwrap();
        assert!(matches!(alarms.by(Nanos(600)), Alarm::Set));
        let second = number(&alarms.by(Nanos(400))).unwrap();
        assert_ne!(first, second);
        assert!(!alarms.rang(0) && alarms.rang(second));
        assert!(matches!(alarms.by(Nanos(500)), Alarm::Set));
        assert!(alarms.rang(first));
        assert!(number(&alarms.by(Nanos(600))).is_some());
    }

    #[test]
    fn alarms_that_are_taken_back_are_over_when_they_say_so() {
        let mut alarms = Alarms::default();
        assert!(alarms.are_over() && alarms.to_take_back().next().is_none());
        let set = [500, 400].map(|until| number(&alarms.by(Nanos(until))).unwrap());
        assert!(alarms.rang(set[0]));
        assert_eq!(alarms.to_take_back().count(), 1);
        assert!(alarms.rang(TAKEN_BACK) && !alarms.are_over());
        assert!(alarms.rang(set[1]) && alarms.are_over());
    }

    #[test]
    fn alarms_are_bounded() {
        let mut alarms = Alarms::default();
        for until in (1..=MOST as u64).rev() {
            assert!(number(&alarms.by(Nanos(until * 100))).is_some());
        }
        assert!(matches!(alarms.by(Nanos(50)), Alarm::TooMany));
        alarms.withdraw(Nanos(100));
        assert!(number(&alarms.by(Nanos(50))).is_some());
    }
}
