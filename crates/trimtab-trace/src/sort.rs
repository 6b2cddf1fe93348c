//! Sorting by arrival in bounded memory.
//!
//! Many formats are written as requests complete, so a slow request follows faster ones that
//! arrived later. A sliding window of records sorts these without disk access. If the disorder is
//! wider, sorted runs are spilled to a temporary file and merged (external merge sort).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use trimtab_io::Nanos;

use crate::packed::{PACKED, pack, unpack};
use crate::record::Record;

/// Default window, records: the disorder of 65,536 requests in flight. About 10 MB while sorting.
pub(crate) const WINDOW: usize = 1 << 16;

/// Sorts within a window; reports an error if the output would not be in order.
pub(crate) struct WindowSort {
    held: Vec<Record>,
    window: usize,
    released: Nanos,
    count: u64,
}

/// The number of a record that is out of order by more than the window.
pub(crate) struct BeyondWindow(pub(crate) u64);

impl WindowSort {
    pub(crate) fn new(window: usize) -> Self {
        Self { held: Vec::new(), window, released: Nanos::ZERO, count: 0 }
    }

    /// Drains `incoming`, and appends to `out` the records that are safe to release.
    pub(crate) fn push(
        &mut self,
        incoming: &mut Vec<Record>,
        out: &mut Vec<Record>,
    ) -> Result<(), BeyondWindow> {
        if let Some(i) = incoming.iter().position(|r| r.arrival < self.released) {
            return Err(BeyondWindow(self.count + i as u64 + 1));
        }
        self.count += incoming.len() as u64;
        self.held.append(incoming);
        if self.held.len() >= 2 * self.window {
            self.sort();
            let surplus = self.held.len() - self.window;
            self.released = self.held[surplus - 1].arrival;
            out.extend(self.held.drain(..surplus));
        }
        Ok(())
    }

    /// Releases all records at the end of the input.
    pub(crate) fn finish(&mut self, out: &mut Vec<Record>) {
        self.sort();
        out.append(&mut self.held);
    }

    fn sort(&mut self) {
        // Stable: requests that arrived in the same instant keep their order.
        if !self.held.is_sorted_by_key(|r| r.arrival) {
            self.held.sort_by_key(|r| r.arrival);
        }
    }
}

/// Sorts any disorder. Records beyond `capacity` go to an unnamed temporary file, 56 bytes each,
/// which vanishes with the process.
pub struct SpillSort {
    held: Vec<Record>,
    capacity: usize,
    file: Option<File>,
    /// Bytes written to `file`.
    written: u64,
    runs: Vec<Run>,
    /// The heads of the runs by (arrival, run): the earlier run first, so that the merge is stable.
    heads: BinaryHeap<Reverse<(Nanos, usize)>>,
}

/// A sorted run in the temporary file.
struct Run {
    next: u64,
    end: u64,
    buffer: Vec<Record>,
    /// Consumed part of `buffer`.
    taken: usize,
}

/// Records per write to the temporary file: 450 KB.
const WRITE_RECORDS: usize = 1 << 13;

/// Memory for reading runs, shared among them.
const MERGE_BUFFER: usize = 16 << 20;

impl SpillSort {
    /// Holds up to `capacity` records in memory.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            held: Vec::new(),
            capacity: capacity.max(1),
            file: None,
            written: 0,
            runs: Vec::new(),
            heads: BinaryHeap::new(),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        self.held.push(record);
        if self.held.len() >= self.capacity {
            self.spill()?;
        }
        Ok(())
    }

    /// Appends to `out`, in arrival order, the records that arrived before
    /// `watermark`. The caller promises that none earlier will be pushed.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn release_before(&mut self, watermark: Nanos, out: &mut Vec<Record>) -> io::Result<()> {
        self.held.sort_by_key(|r| r.arrival);
        let ready = self.held.partition_point(|r| r.arrival < watermark);
        if self.heads.is_empty() {
            out.extend(self.held.drain(..ready));
            return Ok(());
        }
        let mut taken = 0;
        while let Some(&Reverse((arrival, run))) = self.heads.peek() {
            if arrival >= watermark {
                break;
            }
            // Runs were pushed before anything held, so they win ties.
            while taken < ready && self.held[taken].arrival < arrival {
                out.push(self.held[taken]);
                taken += 1;
            }
            out.push(self.pop_run(run)?);
        }
        out.extend_from_slice(&self.held[taken..ready]);
        self.held.drain(..ready);
        if self.heads.is_empty() {
            self.reset_file()?;
        }
        Ok(())
    }

    /// Appends up to about `max` records in order once everything has been
    /// pushed; returns whether there are more.
    ///
    /// # Errors
    /// The temporary file cannot be read or written.
    pub fn drain(&mut self, max: usize, out: &mut Vec<Record>) -> io::Result<bool> {
        if self.runs.is_empty() {
            self.held.sort_by_key(|r| r.arrival);
            out.append(&mut self.held);
            return Ok(false);
        }
        if !self.held.is_empty() {
            self.spill()?;
        }
        // All is on the disk now: its room is the caller's.
        self.held = Vec::new();
        for _ in 0..max {
            let Some(&Reverse((_, run))) = self.heads.peek() else {
                self.reset_file()?;
                return Ok(false);
            };
            let record = self.pop_run(run)?;
            out.push(record);
        }
        Ok(true)
    }

    /// Size of the temporary file.
    pub(crate) const fn spilled_bytes(&self) -> u64 {
        self.written
    }

    fn spill(&mut self) -> io::Result<()> {
        self.held.sort_by_key(|r| r.arrival);
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        let start = self.written;
        let mut bytes = Vec::with_capacity(self.held.len().min(WRITE_RECORDS) * PACKED);
        for records in self.held.chunks(WRITE_RECORDS) {
            bytes.clear();
            records.iter().for_each(|record| bytes.extend_from_slice(&pack(record)));
            file.write_all(&bytes)?;
            self.written += bytes.len() as u64;
        }
        let first = self.held[0].arrival;
        self.heads.push(Reverse((first, self.runs.len())));
        self.runs.push(Run { next: start, end: self.written, buffer: Vec::new(), taken: 0 });
        self.held.clear();
        Ok(())
    }

    /// Takes the head of a run, and puts its next record among the heads.
    fn pop_run(&mut self, index: usize) -> io::Result<Record> {
        let share = (MERGE_BUFFER / size_of::<Record>() / self.runs.len()).clamp(16, 4096);
        let file = self.file.as_ref().expect("a run lies in the file");
        let run = &mut self.runs[index];
        run.refill(file, share)?;
        let record = run.buffer[run.taken];
        run.taken += 1;
        let more = run.refill(file, share)?;
        self.heads.pop();
        if more {
            let next = self.runs[index].buffer[self.runs[index].taken].arrival;
            self.heads.push(Reverse((next, index)));
        }
        Ok(record)
    }

    /// All runs are used up: the file's space can serve again.
    fn reset_file(&mut self) -> io::Result<()> {
        self.runs.clear();
        self.file = None;
        self.written = 0;
        Ok(())
    }
}

impl Run {
    /// Makes sure that a record is at `taken`; false at the run's end.
    fn refill(&mut self, file: &File, share: usize) -> io::Result<bool> {
        if self.taken < self.buffer.len() {
            return Ok(true);
        }
        let bytes = ((self.end - self.next) as usize).min(share * PACKED);
        if bytes == 0 {
            return Ok(false);
        }
        let mut packed = vec![0; bytes];
        file.read_exact_at(&mut packed, self.next)?;
        self.next += bytes as u64;
        self.taken = 0;
        self.buffer.clear();
        self.buffer.extend(packed.as_chunks().0.iter().map(unpack));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trimtab_io::{DeviceId, Op};

    fn record(arrival: u64, offset: u64) -> Record {
        Record::arriving(Nanos(arrival), DeviceId(3), Op::Write, offset, 4096)
    }

    fn numbered(arrivals: &[u64]) -> Vec<Record> {
        arrivals.iter().zip(0..).map(|(&a, i)| record(a, i)).collect()
    }

    fn sorted(arrivals: &[u64]) -> Vec<Record> {
        let mut records = numbered(arrivals);
        records.sort_by_key(|r| r.arrival);
        records
    }

    proptest! {
        #[test]
        fn spill_sort_is_stable(
            arrivals in prop::collection::vec(0_u64..50, 0..300),
            capacity in 1_usize..40,
        ) {
            let mut sorter = SpillSort::new(capacity);
            for r in numbered(&arrivals) {
                sorter.push(r).unwrap();
            }
            let mut out = Vec::new();
            while sorter.drain(7, &mut out).unwrap() {}
            prop_assert_eq!(out, sorted(&arrivals));
        }

        #[test]
        fn watermark_release_is_sorted(
            steps in prop::collection::vec((0_u64..20, 0_u64..10), 0..300),
            capacity in 1_usize..40,
        ) {
            // Arrivals lag behind a rising clock by up to 20; the watermark is
            // the clock less that lag.
            let (mut clock, mut pushed, mut out) = (20, Vec::new(), Vec::new());
            let mut sorter = SpillSort::new(capacity);
            for (i, (lag, step)) in steps.into_iter().enumerate() {
                clock += step;
                pushed.push(clock - lag);
                sorter.push(record(clock - lag, i as u64)).unwrap();
                sorter.release_before(Nanos(clock - 20), &mut out).unwrap();
            }
            while sorter.drain(64, &mut out).unwrap() {}
            prop_assert_eq!(out.len(), pushed.len());
            prop_assert!(out.is_sorted_by_key(|r| r.arrival));
        }

        #[test]
        fn window_sorts_or_fails(
            arrivals in prop::collection::vec(0_u64..1000, 0..300),
            window in 1_usize..50,
        ) {
            let mut sorter = WindowSort::new(window);
            let mut out = Vec::new();
            for chunk in numbered(&arrivals).chunks(10) {
                if sorter.push(&mut chunk.to_vec(), &mut out).is_err() {
                    return Ok(());
                }
            }
            sorter.finish(&mut out);
            prop_assert_eq!(out, sorted(&arrivals));
        }
    }

    #[test]
    fn drain_memory_is_bounded() {
        let mut sorter = SpillSort::new(20_000);
        let count = 70_000;
        for i in 0..count {
            sorter.push(record(count - i, i)).unwrap();
        }
        let mut out = Vec::new();
        while sorter.drain(1_000, &mut out).unwrap() {
            assert_eq!(sorter.held.capacity(), 0);
        }
        assert!(out.iter().map(|r| r.arrival.0).eq(1..=count));
    }
}
