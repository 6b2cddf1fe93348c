//! A recording, gone through as it happened.

use trimtab_io::{Nanos, Op, Request};

use crate::predictor::Ticket;

/// A request of a recording, and when it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The request; it was sent to the drive when it arrived.
    pub request: Request,
    /// When its answer had come in full.
    pub complete: Nanos,
    /// Whether the answer was one: no error, no refusal.
    pub data: bool,
}

impl Recorded {
    /// How long it took.
    #[must_use]
    pub const fn latency(&self) -> Nanos {
        self.complete.since(self.request.arrival)
    }

    /// Whether it is a read that was answered with its data: what is learnt
    /// from, and what is judged.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.request.op == Op::Read && self.data
    }
}

/// What happens next in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request with this number is about to be sent.
    Sent(usize),
    /// It is answered.
    Completed(usize),
}

/// The events of a recording in the order in which they happened. Requests are
/// in order of arrival. At one instant answers go first: what is decided then
/// may know them.
///
/// What comes after an event has no influence on what comes before it; so
/// whoever is fed with these events sees nothing of the future.
pub fn events(recorded: &[Recorded]) -> impl Iterator<Item = Event> {
    let mut answers: Vec<u32> = (0..recorded.len() as u32).collect();
    answers.sort_by_key(|&i| (recorded[i as usize].complete, i));
    let (mut sent, mut answered) = (0, 0);
    std::iter::from_fn(move || {
        if let Some(&answer) = answers.get(answered) {
            let answer = answer as usize;
            let next = recorded.get(sent).map_or(Nanos(u64::MAX), |r| r.request.arrival);
            // Nothing is answered before it is sent, even if that took no time.
            if answer < sent && recorded[answer].complete <= next {
                answered += 1;
                return Some(Event::Completed(answer));
            }
        }
        (sent < recorded.len()).then(|| {
            sent += 1;
            Event::Sent(sent - 1)
        })
    })
}

/// Someone who is told what happens to a drive.
pub trait Watcher {
    /// `request` is sent to the drive.
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket;
    /// The drive has answered.
    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool);
}

/// Tells a watcher all of a recording. Before each request is sent, `before` may
/// look at what the watcher knows by then.
pub fn replay<W: Watcher>(
    recorded: &[Recorded],
    watcher: &mut W,
    mut before: impl FnMut(usize, &W),
) {
    replay_part(recorded, |_| true, watcher, &mut before);
}

/// The same, but that only some of the requests are told of.
pub(crate) fn replay_part<W: Watcher>(
    recorded: &[Recorded],
    told: impl Fn(usize) -> bool,
    watcher: &mut W,
    mut before: impl FnMut(usize, &W),
) {
    let mut tickets = vec![Ticket(0); recorded.len()];
    for event in events(recorded) {
        match event {
            Event::Sent(i) => {
                before(i, watcher);
                if told(i) {
                    let request = &recorded[i].request;
                    tickets[i] = watcher.sent(request.arrival, request);
                }
            }
            Event::Completed(i) => {
                if told(i) {
                    watcher.completed(recorded[i].complete, tickets[i], recorded[i].data);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::recorded;

    #[test]
    fn answers_go_first_but_not_before_they_are_asked_for() {
        let all = [recorded(0, 5), recorded(5, 5), recorded(5, 0), recorded(7, 1)];
        use Event::{Completed, Sent};
        let expected = [
            Sent(0),
            Completed(0),
            Sent(1),
            Sent(2),
            Completed(2),
            Sent(3),
            Completed(3),
            Completed(1),
        ];
        assert!(events(&all).eq(expected));
    }
}
