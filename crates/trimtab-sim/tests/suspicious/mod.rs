//! A predictor simple enough for tests.

use trimtab_io::{Nanos, Request};
use trimtab_predict::{Forecast, Predictor, Ticket, Verdict};

/// Predicts a drive slow as long as one of its last four completions was.
#[derive(Clone)]
pub(crate) struct Suspicious {
    slow: Nanos,
    sent: Vec<Nanos>,
    free: Vec<u32>,
    last: [Nanos; 4],
    answers: usize,
}

impl Suspicious {
    /// With the latency from which on a completion is slow.
    pub(crate) fn new(slow: Nanos) -> Self {
        Self { slow, sent: Vec::new(), free: Vec::new(), last: [Nanos::ZERO; 4], answers: 0 }
    }
}

impl Predictor for Suspicious {
    fn name(&self) -> &'static str {
        "suspicious"
    }

    fn predict(&self, _: Nanos, _: &Request) -> Forecast {
        let slow = self.last.iter().filter(|&&latency| latency > self.slow).count() as f32;
        let verdict = if slow > 0.0 { Verdict::Late } else { Verdict::Fast };
        let wait = self.last.iter().max().copied();
        Forecast { probability: slow / 4.0, wait, ..Forecast::bare(verdict) }
    }

    fn sent(&mut self, now: Nanos, _: &Request) -> Ticket {
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.sent.push(now);
            self.sent.len() as u32 - 1
        });
        self.sent[ticket as usize] = now;
        Ticket(ticket)
    }

    fn completed(&mut self, now: Nanos, Ticket(ticket): Ticket, data: bool) {
        self.free.push(ticket);
        if data {
            self.last[self.answers % 4] = now.since(self.sent[ticket as usize]);
            self.answers += 1;
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}
