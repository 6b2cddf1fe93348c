//! Measures the latency of the path to a drive, end to end, while programs use it.
//!
//! The server knows when it received and answered a request, but not what lies before and after.
//! The block layer's tracepoints do: a [`Recorder`] of the drive's own block device records when
//! each read was sent and completed. Both are matched by offset and time. The difference between
//! the block layer's latency and that of the model and the faults is what emulation adds, or takes
//! away.
//!
//! A thread does this 20 times a second, off the request path. It starts with the first read, so
//! that an unused drive loads no BPF programs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trimtab_io::{Nanos, Op};
use trimtab_trace::Record;

use super::clock;
use super::engine::Engine;
use super::figures::{CompletedRead, ObservedRead};
use trimtab_block::BlockDevice;
use trimtab_record::{Recorder, RecorderOptions, Recording};
use trimtab_serve::Error;

/// Period of the measurement.
const PERIOD: Duration = Duration::from_millis(50);
/// Size of the recorder's ring: half a second at 60,000 requests a second.
const RING_BYTES: u32 = 2 << 20;
/// An answer is dropped if the block layer's record has not come within this time: the request was
/// merged, split, or not recorded.
const PAIRING_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Unmatched answers, at most.
const MAX_UNPAIRED: usize = 1 << 17;

/// Matches answers with the block layer's records; holds the unmatched answers.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    waiting: HashMap<u64, Vec<CompletedRead>>,
    count: usize,
}

impl Pairing {
    /// Adds the server's answers.
    pub(super) fn answered(&mut self, answers: impl IntoIterator<Item = CompletedRead>) {
        for answer in answers {
            if self.count < MAX_UNPAIRED {
                self.waiting.entry(answer.offset).or_default().push(answer);
                self.count += 1;
            }
        }
    }

    /// The answer to a read that the block layer sent at `from` and completed at `to`.
    pub(super) fn pair(
        &mut self,
        offset: u64,
        length: u64,
        from: Nanos,
        to: Nanos,
    ) -> Option<ObservedRead> {
        let same_place = self.waiting.get_mut(&offset)?;
        let fits = |a: &CompletedRead| a.length == length && from <= a.arrival && a.answered <= to;
        let found = same_place.iter().position(fits)?;
        let answer = same_place.swap_remove(found);
        if same_place.is_empty() {
            self.waiting.remove(&offset);
        }
        self.count -= 1;
        Some(ObservedRead { answer, sent: from, completed: to })
    }

    /// Drops answers from before `time`.
    pub(super) fn forget_before(&mut self, time: Nanos) {
        self.waiting.retain(|_, answers| {
            answers.retain(|answer| answer.answered >= time);
            !answers.is_empty()
        });
        self.count = self.waiting.values().map(Vec::len).sum();
    }
}

/// The thread that measures the path. Ended when dropped.
#[derive(Debug)]
pub(super) struct PathMeter {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Why measurement failed, if it did.
    failure: Arc<Mutex<Option<String>>>,
}

impl PathMeter {
    /// Measures the path to the block device that `engine` serves.
    pub(super) fn start<T: Send + 'static>(
        device: &str,
        engine: &Arc<Engine<T>>,
    ) -> Result<Self, Error> {
        let ended = Arc::new(AtomicBool::new(false));
        let failure = Arc::new(Mutex::new(None));
        let (device, engine) = (device.to_owned(), Arc::clone(engine));
        let (is_over, why) = (Arc::clone(&ended), Arc::clone(&failure));
        let run = move || {
            if let Err(error) = measure(&device, &engine, &is_over) {
                engine.state().figures.stop_noting();
                *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        };
        let thread = thread::Builder::new().name("path".to_owned()).spawn(run);
        let thread = Some(thread.map_err(Error::system("start a thread"))?);
        Ok(Self { ended, thread, failure })
    }

    /// Why the path is not measured, if so.
    pub(super) fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(|why| {
            format!(
                "latency at the block layer is not measured, and compensation not corrected ({why})"
            )
        })
    }
}

impl Drop for PathMeter {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            _ = thread.join();
        }
    }
}

fn measure<T: Send>(
    device: &str,
    engine: &Engine<T>,
    ended: &AtomicBool,
) -> Result<(), trimtab_record::Error> {
    let is_over = || ended.load(Ordering::Acquire);
    while engine.state().figures.counts(Op::Read).requests == 0 {
        thread::park_timeout(PERIOD);
        if is_over() {
            return Ok(());
        }
    }
    let devices = [BlockDevice::find(device)?];
    let options =
        RecorderOptions { ring_bytes: RING_BYTES, pass_unseen: true, ..RecorderOptions::default() };
    let mut recording = Recorder::load(&devices, &options)?.start();
    let (mut pairing, mut records) = (Pairing::default(), Vec::new());
    while !is_over() {
        thread::park_timeout(PERIOD);
        // Order matters: a request that the block layer has seen complete has been answered.
        recording.poll(&mut records)?;
        pairing.answered(engine.state().figures.take_answered());
        let seen = pair(&mut pairing, &recording, &records);
        records.clear();
        pairing.forget_before(clock::now().since(PAIRING_TIMEOUT));
        engine.state().record_path(&seen);
    }
    Ok(())
}

fn pair(pairing: &mut Pairing, recording: &Recording, records: &[Record]) -> Vec<ObservedRead> {
    let origin = recording.origin();
    let reads = records.iter().filter(|record| record.op == Op::Read);
    let seen = reads.filter_map(|record| {
        let (from, to) = (origin + record.arrival, origin + record.complete?);
        pairing.pair(record.offset, record.length, from, to)
    });
    seen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(offset: u64, arrival: u64, answered: u64) -> CompletedRead {
        CompletedRead {
            offset,
            length: 4096,
            arrival: Nanos(arrival),
            answered: Nanos(answered),
            due: Nanos(50),
            compensation: Nanos(10),
            depth: 1,
        }
    }

    #[test]
    fn answers_match_block_layer_records_by_offset_and_time() {
        let mut pairing = Pairing::default();
        pairing.answered([answered(0, 100, 140), answered(0, 300, 350), answered(8192, 110, 150)]);
        let pair = |pairing: &mut Pairing, offset, length, from, to| {
            let seen = pairing.pair(offset, length, Nanos(from), Nanos(to))?;
            Some((seen.answer.arrival.0, seen.took().0, seen.beyond()))
        };
        // Two reads of one offset: the second, then the first.
        assert_eq!(pair(&mut pairing, 0, 4096, 290, 360), Some((300, 70, 20)));
        assert_eq!(pair(&mut pairing, 0, 4096, 290, 360), None);
        assert_eq!(pair(&mut pairing, 0, 4096, 95, 141), Some((100, 46, -4)));
        // Another length: merged with a neighbour.
        assert_eq!(pair(&mut pairing, 8192, 8192, 100, 160), None);
        pairing.forget_before(Nanos(151));
        assert_eq!(pair(&mut pairing, 8192, 4096, 100, 160), None);
        assert_eq!(pairing.count, 0);
    }
}
