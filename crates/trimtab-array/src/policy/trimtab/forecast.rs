//! How likely a read of a member is late.

use super::watch::State;

/// What is learnt from so many reads of a state counts; older ones fade.
const REMEMBERED: f64 = 500.0;
/// The assumption at first counts as so many reads.
const ASSUMED: f64 = 4.0;

/// The share of late reads by the state in which a member was asked. It is learnt from all reads of
/// all members, as they end.
#[derive(Clone, Debug)]
pub(super) struct Forecast {
    states: [Share; State::COUNT],
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    reads: f64,
    late: f64,
}

impl Default for Forecast {
    fn default() -> Self {
        let share = |late: f64| Share { reads: ASSUMED, late: late * ASSUMED };
        // Nothing is known: no member is gone around before reads have shown that it pays.
        Self { states: [share(0.25); State::COUNT] }
    }
}

impl Forecast {
    pub(super) fn late(&self, state: State) -> f64 {
        let Share { reads, late } = self.states[state.index()];
        late / reads
    }

    pub(super) fn learn(&mut self, state: State, late: bool) {
        let share = &mut self.states[state.index()];
        let kept = if share.reads >= REMEMBERED { 1.0 - 1.0 / REMEMBERED } else { 1.0 };
        share.reads = share.reads * kept + 1.0;
        share.late = share.late * kept + f64::from(u8::from(late));
    }
}
