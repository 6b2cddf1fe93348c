//! Replay: a recording's submissions and completions, in the order in which they happened.

use trimtab_io::{Nanos, Request};
use trimtab_predict::{DriveTracker, Predictor, Recorded, Ticket};

/// An event of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request of this index is about to be sent.
    Sent(usize),
    /// The request of this index completes.
    Completed(usize),
}

/// The events of a recording, which holds requests in order of arrival, in the order in which
/// they happened. At one instant completions come first: a decision made then may use them.
///
/// The events up to a moment do not depend on what comes after it. So a consumer of these
/// events sees nothing of the future.
pub fn events(recorded: &[Recorded]) -> impl Iterator<Item = Event> {
    let mut completions: Vec<u32> = (0..recorded.len() as u32).collect();
    completions.sort_by_key(|&i| (recorded[i as usize].complete, i));
    let (mut sent, mut completed) = (0, 0);
    std::iter::from_fn(move || {
        if let Some(&index) = completions.get(completed) {
            let index = index as usize;
            let next = recorded.get(sent).map_or(Nanos(u64::MAX), |r| r.request.arrival);
            // A request that took no time still completes after it was sent.
            if index < sent && recorded[index].complete <= next {
                completed += 1;
                return Some(Event::Completed(index));
            }
        }
        (sent < recorded.len()).then(|| {
            sent += 1;
            Event::Sent(sent - 1)
        })
    })
}

/// Takes the events of a drive.
pub trait Observer {
    /// `request` is sent to the drive.
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket;
    /// The request of this ticket completes; `data` as in [`Predictor::completed`].
    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool);
}

impl Observer for DriveTracker {
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        Self::sent(self, now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        Self::completed(self, now, ticket, data);
    }
}

impl Observer for Box<dyn Predictor> {
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.as_mut().sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.as_mut().completed(now, ticket, data);
    }
}

/// Feeds a recording to an observer. Before each request is sent, `before` gets its index and
/// the observer as it is by then.
pub fn replay<O: Observer>(
    recorded: &[Recorded],
    observer: &mut O,
    mut before: impl FnMut(usize, &O),
) {
    replay_part(recorded, |_| true, observer, &mut before);
}

/// As [`replay`], with only those requests sent to this drive that `is_sent` selects.
pub(crate) fn replay_part<O: Observer>(
    recorded: &[Recorded],
    is_sent: impl Fn(usize) -> bool,
    observer: &mut O,
    mut before: impl FnMut(usize, &O),
) {
    let mut tickets = vec![Ticket(0); recorded.len()];
    for event in events(recorded) {
        match event {
            Event::Sent(i) => {
                before(i, observer);
                if is_sent(i) {
                    let request = &recorded[i].request;
                    tickets[i] = observer.sent(request.arrival, request);
                }
            }
            Event::Completed(i) => {
                if is_sent(i) {
                    observer.completed(recorded[i].complete, tickets[i], recorded[i].data);
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
    fn completions_come_first_at_one_instant_but_after_their_submission() {
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
