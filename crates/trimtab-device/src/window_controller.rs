//! Windows managed by the host (IODA, §7.2).
//!
//! This is the array's side, and no part of a drive: drives that clean in windows take the length
//! from it ([`Ssd::set_windows`](crate::Ssd::set_windows)), instead of having it computed from
//! their own figures ([`WindowFormula`](crate::WindowFormula)).

use trimtab_io::Nanos;

/// Finds the length of the windows at run time: additive increase, multiplicative decrease.
///
/// Long windows are better for the flash, because fewer valid pages are moved (§4.3.5). They are
/// too long when drives run out of space between their turns, clean out of turn, and more sub-I/Os
/// of a stripe are busy than its parity can make up for. So the length grows by a step each period,
/// and is halved when a stripe had more than that many busy sub-I/Os: once in a period, because one
/// cleaning out of turn is seen by many stripes.
///
/// An array applies a new length at the end of a cycle
/// ([`WindowSchedule::from_next_cycle`](crate::WindowSchedule::from_next_cycle)), so it sees the
/// effect late. With a period shorter than a cycle, as in the paper's example, the length goes on
/// growing meanwhile, and swings further than with one of about a cycle.
///
/// ```
/// use trimtab_device::WindowController;
/// use trimtab_io::Nanos;
///
/// let mut controller = WindowController::default();
/// assert_eq!(controller.length(), Nanos::from_millis(500));
/// assert_eq!(controller.advance(Nanos::from_millis(50)), Some(Nanos::from_millis(510)));
/// let at = Nanos::from_millis(60);
/// assert_eq!(controller.observe(at, 1), None, "one parity makes up for one");
/// assert_eq!(controller.observe(at, 2), Some(Nanos::from_millis(255)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowController {
    settings: ControllerSettings,
    length: Nanos,
    /// End of the current period.
    period_ends: Nanos,
    /// Whether the length was halved in the current period.
    halved: bool,
}

/// Parameters of a [`WindowController`]. The defaults are those of IODA, §7.2, where it names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// The first length: B, 500 ms.
    pub base: Nanos,
    /// Time between increases: P, 50 ms.
    pub period: Nanos,
    /// An increase: I, 10 ms.
    pub step: Nanos,
    /// Busy sub-I/Os that a stripe tolerates: k, its parities.
    pub tolerated: u32,
    /// The least length: no window should be shorter than one cleaning (§4.3.2). 20 ms.
    pub least: Nanos,
    /// The greatest length, 60 s.
    pub most: Nanos,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            base: Nanos::from_millis(500),
            period: Nanos::from_millis(50),
            step: Nanos::from_millis(10),
            tolerated: 1,
            least: Nanos::from_millis(20),
            most: Nanos::from_secs(60),
        }
    }
}

impl Default for WindowController {
    fn default() -> Self {
        Self::new(Nanos::ZERO, ControllerSettings::default())
    }
}

impl WindowController {
    /// Starts at time `now` with the base length.
    #[must_use]
    pub fn new(now: Nanos, settings: ControllerSettings) -> Self {
        let length = settings.base.max(settings.least).min(settings.most);
        let period_ends = now + settings.period.max(Nanos(1));
        Self { settings, length, period_ends, halved: false }
    }

    /// The current length.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.length
    }

    /// When [`advance`](Self::advance) has something to do.
    #[must_use]
    pub const fn next_period(&self) -> Nanos {
        self.period_ends
    }

    /// Ends all periods up to `now`; returns the length if it changes.
    pub fn advance(&mut self, now: Nanos) -> Option<Nanos> {
        let before = self.length;
        let ControllerSettings { period, step, least, most, .. } = self.settings;
        while self.period_ends <= now {
            if !self.halved {
                self.length = (self.length + step).max(least).min(most);
            }
            self.halved = false;
            self.period_ends += period.max(Nanos(1));
        }
        (self.length != before).then_some(self.length)
    }

    /// A stripe was read, or written, of which this many sub-I/Os were busy at once. Returns the
    /// length if it changes.
    pub fn observe(&mut self, now: Nanos, busy: u32) -> Option<Nanos> {
        let before = self.length;
        self.advance(now);
        if busy > self.settings.tolerated && !self.halved {
            self.halved = true;
            self.length = Nanos(self.length.0 / 2).max(self.settings.least);
        }
        (self.length != before).then_some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn grows_by_a_step_each_quiet_period() {
        let mut controller = WindowController::default();
        assert_eq!(controller.advance(ms(49)), None);
        assert_eq!(controller.advance(ms(50)), Some(ms(510)));
        assert_eq!(controller.observe(ms(249), 1), Some(ms(540)));
        assert_eq!(controller.next_period(), ms(250));
        assert_eq!(controller.advance(ms(100_000_000)), Some(Nanos::from_secs(60)));
    }

    #[test]
    fn halves_once_in_a_period() {
        let mut controller = WindowController::default();
        assert_eq!(controller.observe(ms(10), 2), Some(ms(250)));
        assert_eq!(controller.observe(ms(40), 4), None);
        // The period of the decrease ends without an increase.
        assert_eq!(controller.advance(ms(50)), None);
        assert_eq!(controller.observe(ms(60), 2), Some(ms(125)));
        for period in 2..20 {
            controller.observe(ms(50 * period), 3);
        }
        assert_eq!(controller.length(), ms(20));
    }

    #[test]
    fn tolerates_as_many_as_there_are_parities() {
        let settings = ControllerSettings { tolerated: 2, ..ControllerSettings::default() };
        let mut controller = WindowController::new(ms(7), settings);
        assert_eq!(controller.observe(ms(8), 2), None);
        assert_eq!(controller.observe(ms(8), 3), Some(ms(250)));
    }

    proptest! {
        #[test]
        fn length_stays_within_bounds(
            events in prop::collection::vec((0_u64..200, 0_u32..4), 0..300),
            base in 1_u64..100_000,
        ) {
            let settings = ControllerSettings { base: ms(base), ..ControllerSettings::default() };
            let mut controller = WindowController::new(ms(0), settings);
            let mut now = 0;
            for (later, busy) in events {
                now += later;
                let before = controller.length();
                let changed = controller.observe(ms(now), busy);
                prop_assert_eq!(changed, (controller.length() != before).then(|| controller.length()));
                prop_assert!((settings.least..=settings.most).contains(&controller.length()));
                prop_assert!(controller.next_period() > ms(now));
            }
        }
    }
}
