//! One line that tells how far long work has come, on a terminal only.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the line changes: often enough to look alive.
const PERIOD: Duration = Duration::from_millis(200);

/// Counts records, and shows them on standard error if that is a terminal.
/// The line is wiped when this is dropped.
pub(crate) struct Progress {
    terminal: bool,
    records: u64,
    begun: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        Self { terminal, records: 0, begun: Instant::now(), shown: None }
    }

    /// One that is never seen.
    pub(crate) fn hidden() -> Self {
        Self { terminal: false, ..Self::new() }
    }

    /// Counts another `records`.
    pub(crate) fn add(&mut self, records: usize) {
        self.records += records as u64;
        let records = self.records;
        self.show(|elapsed| line(records, elapsed));
    }

    /// Shows a line, which is given the time since the beginning; not on every
    /// call.
    pub(crate) fn show(&mut self, line: impl FnOnce(Duration) -> String) {
        if !self.terminal || self.shown.unwrap_or(self.begun).elapsed() < PERIOD {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(self.begun.elapsed());
        // Work must not fail because its progress cannot be shown.
        _ = write!(io::stderr(), "\r{line}\x1b[K");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(records: u64, elapsed: Duration) -> String {
    let million = records as f64 / 1e6;
    let rate = million / elapsed.as_secs_f64();
    format!("{million:.1} million records, {rate:.1} million/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_count_and_rate() {
        let line = line(12_340_000, Duration::from_secs(2));
        assert_eq!(line, "12.3 million records, 6.2 million/s");
    }
}
