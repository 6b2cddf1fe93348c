//! A progress line, on a terminal only.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::console;

/// How often the line changes: often enough to look alive.
const PERIOD: Duration = Duration::from_millis(200);
/// How often the line of [`during`] changes, which counts seconds.
const TICK: Duration = Duration::from_secs(1);

/// When a [`Progress`] was last shown; [`during`] shows nothing soon after.
static LAST_SHOWN: Mutex<Option<Instant>> = Mutex::new(None);

/// Counts records, and shows the count on standard error if that is a terminal. Dropping it
/// erases the line.
pub(crate) struct Progress {
    terminal: bool,
    records: u64,
    begun: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let terminal = console::errors_are_on_terminal();
        Self { terminal, records: 0, begun: Instant::now(), shown: None }
    }

    /// A progress that is never shown.
    pub(crate) fn hidden() -> Self {
        Self { terminal: false, ..Self::new() }
    }

    /// Adds `records` to the count.
    pub(crate) fn add(&mut self, records: usize) {
        self.records += records as u64;
        let records = self.records;
        self.show(|elapsed| line(records, elapsed));
    }

    /// Shows a line made from the time since the beginning, at most once per period.
    pub(crate) fn show(&mut self, line: impl FnOnce(Duration) -> String) {
        if !self.terminal || self.shown.unwrap_or(self.begun).elapsed() < PERIOD {
            return;
        }
        self.shown = Some(Instant::now());
        if let Ok(mut last) = LAST_SHOWN.lock() {
            *last = self.shown;
        }
        let line = line(self.begun.elapsed());
        console::rewrite_line(&line);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            console::rewrite_line("");
        }
    }
}

/// Runs `work`, which does not report progress, and shows on a terminal what is being done and
/// for how long, unless a [`Progress`] within it shows more.
pub(crate) fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    in_stages(what, |_| work())
}

/// The current stage of the work.
pub(crate) struct Stage(Mutex<String>);

impl Stage {
    /// Enters a stage.
    pub(crate) fn set(&self, what: String) {
        if let Ok(mut stage) = self.0.lock() {
            *stage = what;
        }
    }
}

/// Like [`during`], for work that reports its stage; `what` is the first.
pub(crate) fn in_stages<T>(what: &str, work: impl FnOnce(&Stage) -> T) -> T {
    let stage = Stage(Mutex::new(what.to_owned()));
    if !console::errors_are_on_terminal() {
        return work(&stage);
    }
    let (end, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        let stage = &stage;
        scope.spawn(move || tick(stage, &ended));
        // Dropped also if `work` panics: the scope waits for the thread.
        let _end = end;
        work(stage)
    })
}

/// Shows the stage until the other end of the channel is dropped.
fn tick(stage: &Stage, ended: &Receiver<()>) {
    let begun = Instant::now();
    let mut shown = false;
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let last = LAST_SHOWN.lock().ok().and_then(|last| *last);
        if last.is_some_and(|last| last.elapsed() < 2 * TICK) {
            continue;
        }
        let Ok(what) = stage.0.lock().map(|stage| stage.clone()) else { continue };
        shown = true;
        console::rewrite_line(&format!("{what}; {} s", begun.elapsed().as_secs()));
    }
    if shown {
        console::rewrite_line("");
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
    fn line_shows_count_and_rate() {
        let line = line(12_340_000, Duration::from_secs(2));
        assert_eq!(line, "12.3 million records, 6.2 million/s");
    }
}
