//! A predictor as one who watches a recording.

use trimtab_io::{Nanos, Request};

use crate::history::Watcher;
use crate::predictor::{Predictor, Ticket};

/// Any predictor.
pub(crate) struct Watching(pub(crate) Box<dyn Predictor>);

impl Watcher for Watching {
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.0.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.0.completed(now, ticket, data);
    }
}
