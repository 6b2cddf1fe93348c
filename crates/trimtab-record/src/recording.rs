//! A recording in progress.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trimtab_block::BlockDevice;
use trimtab_bpf::{Arrival, Overhead};
use trimtab_io::{DeviceId, Flags, Nanos, Op, monotonic};
use trimtab_trace::{Names, Record, SpillSort};

use crate::abi::Event;
use crate::error::Error;
use crate::recorder::Recorder;
use crate::table::InFlight;
use crate::unseen::Unseen;

/// Records held back for sorting before the disk is used: 10 MB.
const SORT_IN_MEMORY: usize = 1 << 17;

/// A request that was not issued for this long is assumed to be gone. (It is still recorded if
/// it completes; only its position may be out of order.)
const GONE_AFTER_NS: u64 = 60_000_000_000;

/// The longest time between a handler's reading of the clock and the visibility of its slot's
/// time to other CPUs.
const BEGINNING_NS: u64 = 1_000_000;

/// A request that is in flight for longer may have completed unseen.
const BEHIND: Nanos = Nanos::from_secs(1);

/// How long the drivers must be idle before a request without a completion is given up.
/// (Between the driver's completion and the tracepoint there is one soft interrupt.)
const UNSEEN_AFTER: Duration = Duration::from_millis(100);

/// A recording in progress. Poll it every few tens of milliseconds: events that do not fit
/// into the ring until then are lost, and counted.
pub struct Recording {
    sorter: SpillSort,
    recorder: Recorder,
    /// `CLOCK_MONOTONIC` at the start: the trace's time 0.
    origin: u64,
    started: SystemTime,
    /// Events taken out of the ring.
    received: u64,
    in_flight: u64,
    watermark: Nanos,
    unseen: Unseen,
    /// Records taken out of the ring by one poll, in order of completion.
    fresh: Vec<Record>,
    tap: Option<Tap>,
}

/// Receives records immediately, before they are sorted by arrival.
type Tap = Box<dyn FnMut(&[Record], &Names) + Send>;

/// What was lost, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events for which the ring had no space.
    pub ring_full: u64,
    /// Requests for which the table of requests had no space.
    pub table_full: u64,
    /// Runs of the handlers for arrival, issue, requeue and merge that the
    /// kernel skipped. The requests are recorded, without that time.
    pub skipped_runs: u64,
    /// Requests that were issued and whose completion was not seen.
    pub never_completed: u64,
}

impl Losses {
    /// The sum; zero for a complete recording.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.ring_full + self.table_full + self.skipped_runs + self.never_completed
    }

    /// Requests that are missing from the records.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.ring_full + self.table_full
    }
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Records released.
    pub records: u64,
    /// The names of devices and commands in them.
    pub names: Names,
    /// What was lost.
    pub losses: Losses,
    /// Flush requests without data, which flush commands completed: the kernel counts them as
    /// writes of no bytes.
    pub empty_flushes: u64,
    /// Requests that were merged into others before their issue.
    pub merged: u64,
    /// Requests that arrived and disappeared without being issued.
    pub abandoned: u64,
    /// Driver commands and zone management, which traces do not contain.
    pub passthrough: u64,
    /// Completions that were recorded although the first of the two completion
    /// handlers was skipped.
    pub rescued: u64,
    /// The handlers' runs and, if requested, their time.
    pub overhead: Overhead,
}

impl Recording {
    pub(crate) fn start(recorder: Recorder) -> Self {
        let (origin, started) = (monotonic().0, SystemTime::now());
        recorder.switchboard.set_active(true);
        Self {
            sorter: SpillSort::new(SORT_IN_MEMORY),
            recorder,
            origin,
            started,
            received: 0,
            in_flight: 0,
            watermark: Nanos::ZERO,
            unseen: Unseen::default(),
            fresh: Vec::new(),
            tap: None,
        }
    }

    /// Passes all records to `tap` on arrival, in order of completion: it is called with each
    /// poll, even without records. A request whose completion is not seen holds back later
    /// ones from [`poll`](Self::poll), but not from `tap`.
    pub fn set_tap(&mut self, tap: impl FnMut(&[Record], &Names) + Send + 'static) {
        self.tap = Some(Box::new(tap));
    }

    /// Processes events since the last call, and appends to `out`, in order of arrival, all
    /// requests that no earlier one can precede any more.
    ///
    /// # Errors
    /// The disk cannot be used for sorting.
    pub fn poll(&mut self, out: &mut Vec<Record>) -> Result<(), Error> {
        // The order matters. A request missing from this scan of the table either has its
        // event in the ring, which is read next, or arrives after `now`.
        let now = monotonic().0;
        if self.recorder.pass_unseen && self.since_origin(now).since(self.watermark) > BEHIND {
            self.unseen.look(&self.recorder.devices, now);
        }
        let seen = self.look(now);
        self.in_flight = seen.issued;
        let sent = self.recorder.ring.begun(&self.recorder.switchboard);
        self.receive()?;
        // Reading stops at an event that is still being written (its CPU may have been
        // interrupted), and later ones stay behind it.
        if self.recorder.ring.read() < sent {
            return Ok(());
        }
        let latest = now.saturating_sub(BEGINNING_NS);
        let watermark = seen.oldest.map_or(latest, |oldest| oldest.min(latest));
        self.watermark = self.watermark.max(self.since_origin(watermark));
        self.sorter.release_before(self.watermark, out).map_err(Error::Sort)
    }

    /// Ends the recording: ignores new requests, waits up to `patience` for those in flight
    /// (less if the kernel counts none), and passes the remaining records to `give`, some ten
    /// thousand at a time: after a long wait for one request they may not fit into memory. An
    /// issued request that is still incomplete then is recorded without a completion time, and
    /// counted as lost.
    ///
    /// # Errors
    /// As [`poll`](Self::poll), and those of `give`.
    pub fn stop<E: From<Error>>(
        mut self,
        patience: Duration,
        mut give: impl FnMut(&[Record], &Names) -> Result<(), E>,
    ) -> Result<Outcome, E> {
        self.recorder.switchboard.set_active(false);
        let deadline = Instant::now() + patience;
        let mut batch = Vec::new();
        let mut idle_since = None;
        loop {
            self.poll(&mut batch)?;
            give(&batch, self.names())?;
            batch.clear();
            let seen = self.look(monotonic().0);
            if seen.queued + seen.issued == 0 || Instant::now() >= deadline {
                break;
            }
            // If the drivers are idle, the requests still in the table have completed unseen,
            // and waiting for them is useless.
            if seen.queued + seen.flushes > 0
                || !self.recorder.devices.iter().all(BlockDevice::is_idle)
            {
                idle_since = None;
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= UNSEEN_AFTER {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let overhead = Overhead::of(&self.recorder.object).map_err(Error::from)?;
        self.recorder.links.clear();
        // Handlers that were running must finish: each request that they complete must be
        // either in the ring or in the table.
        std::thread::sleep(Duration::from_millis(10));
        self.receive()?;
        let mut unfinished = Vec::new();
        self.recorder.table.for_each_issued(|request| unfinished.push(Event::unfinished(request)));
        for event in &unfinished {
            self.take(event)?;
        }
        let mut more = true;
        while more {
            let drained = self.sorter.drain(1 << 14, &mut batch);
            more = drained.map_err(Error::Sort)?;
            give(&batch, self.names())?;
            batch.clear();
        }

        let counters = self.recorder.switchboard.counters();
        let skipped_runs = overhead
            .handlers
            .iter()
            .filter(|handler| !handler.name.starts_with("on_complete"))
            .map(|handler| handler.skipped)
            .sum();
        Ok(Outcome {
            records: self.received,
            names: self.recorder.names,
            losses: Losses {
                ring_full: counters.ring_full,
                table_full: counters.table_full,
                skipped_runs,
                never_completed: counters.never_completed + unfinished.len() as u64,
            },
            empty_flushes: counters.empty_flushes,
            merged: counters.merged,
            abandoned: counters.abandoned,
            passthrough: counters.passthrough,
            rescued: counters.rescued,
            overhead,
        })
    }

    /// Losses so far. (Skipped runs are known only at the end.)
    #[must_use]
    pub fn losses(&self) -> Losses {
        let counters = self.recorder.switchboard.counters();
        Losses {
            ring_full: counters.ring_full,
            table_full: counters.table_full,
            skipped_runs: 0,
            never_completed: counters.never_completed,
        }
    }

    /// Requests issued and not completed at the last poll.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// All requests that arrived before this time have been released, on the records' clock.
    /// It does not advance while a request is in flight.
    #[must_use]
    pub const fn watermark(&self) -> Nanos {
        self.watermark
    }

    /// The current time, on the records' clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.since_origin(monotonic().0)
    }

    /// Time 0 of the records, on the monotonic clock.
    #[must_use]
    pub const fn origin(&self) -> Nanos {
        Nanos(self.origin)
    }

    /// The names of devices and commands.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.recorder.names
    }

    /// The wall-clock time of the trace's time 0, in nanoseconds since the Unix
    /// epoch.
    #[must_use]
    pub fn started_unix(&self) -> Nanos {
        let since = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        Nanos(since.as_nanos() as u64)
    }

    /// Scans for requests in flight. If arrivals are keyed by bio, a request moves to another
    /// slot when it is issued, and one scan may miss both slots. It moves only once, so a
    /// second scan then finds it.
    fn look(&self, now: u64) -> InFlight {
        let scan = || self.recorder.table.scan(now.saturating_sub(GONE_AFTER_NS), &self.unseen);
        let first = scan();
        if self.recorder.arrival == Arrival::IoStart {
            return first;
        }
        let second = scan();
        let oldest = first.oldest.into_iter().chain(second.oldest).min();
        InFlight { oldest, ..second }
    }

    fn receive(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while result.is_ok()
            && let Some(event) = self.recorder.ring.next()
        {
            result = self.take(&event);
        }
        self.recorder.ring.free(&self.recorder.switchboard);
        if let Some(tap) = &mut self.tap {
            tap(&self.fresh, &self.recorder.names);
        }
        self.fresh.clear();
        result
    }

    fn take(&mut self, event: &Event) -> Result<(), Error> {
        let record = self.record_of(event);
        self.received += 1;
        if self.tap.is_some() {
            self.fresh.push(record);
        }
        self.sorter.push(record).map_err(Error::Sort)
    }

    fn record_of(&mut self, event: &Event) -> Record {
        // Contradictory times would make the whole trace invalid, so they are corrected.
        let not_before = |first: u64, ns: u64| (ns != 0).then(|| first.max(ns));
        let op = Op::from_u8(event.op()).expect("enum rec_op has the numbers of Op");
        let issue = not_before(event.arrival_ns, event.issue_ns);
        let complete = not_before(issue.unwrap_or(event.arrival_ns), event.complete_ns);
        let (issue, complete) =
            (issue.map(|ns| self.since_origin(ns)), complete.map(|ns| self.since_origin(ns)));
        let mut record = Record {
            issue,
            complete,
            pid: (event.pid != 0).then_some(event.pid),
            flags: Flags::from_bits_truncate(event.flags()),
            ..Record::arriving(
                self.since_origin(event.arrival_ns),
                DeviceId(event.device().into()),
                op,
                event.sector.saturating_mul(512),
                event.bytes.into(),
            )
        };
        let command = event.command();
        if !command.is_empty() {
            let name = String::from_utf8_lossy(command);
            record.command = self.recorder.names.add_command(&name).ok();
        }
        record
    }

    const fn since_origin(&self, monotonic: u64) -> Nanos {
        Nanos(monotonic.saturating_sub(self.origin))
    }
}
