//! The path to a drive, measured from end to end while programs use it.
//!
//! The server knows when it took a request and when it answered; what lies before and after
//! that, it does not see. The block layer's tracepoints do: a [`Recorder`] of the drive's
//! own block device says when each read was sent and when it was complete. Both are
//! paired here, by place and time. The difference between what the block layer saw and
//! what the model and the faults say is what the emulation adds, or takes away.
//!
//! A thread does this some times a second, outside the way of any request. It begins with
//! the first requests, so that a drive that is not used loads no programs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trimtab_io::{Nanos, Op};
use trimtab_trace::Record;

use super::clock;
use super::engine::Engine;
use super::error::Error;
use super::figures::{Answered, Seen};
use trimtab_block::BlockDevice;
use trimtab_record::{Recorder, RecorderOptions, Recording};

/// How often it is done.
const PERIOD: Duration = Duration::from_millis(50);
/// The tracepoints' ring: half a second at 60,000 requests a second.
const RING_BYTES: u32 = 2 << 20;
/// An answer whose request the block layer has not shown for so long is given up: it was
/// merged, split, or not seen.
const GIVEN_UP: Nanos = Nanos::from_secs(10);
/// Answers that wait for their other half, at most.
const MOST_WAITING: usize = 1 << 17;

/// What has been seen from one end only: answers that wait for the block layer's word.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    waiting: HashMap<u64, Vec<Answered>>,
    count: usize,
}

impl Pairing {
    /// Takes in what the server answered.
    pub(super) fn answered(&mut self, answers: impl IntoIterator<Item = Answered>) {
        for answer in answers {
            if self.count < MOST_WAITING {
                self.waiting.entry(answer.offset).or_default().push(answer);
                self.count += 1;
            }
        }
    }

    /// The answer to a read that the block layer sent and had back at these times.
    pub(super) fn pair(
        &mut self,
        offset: u64,
        length: u64,
        from: Nanos,
        to: Nanos,
    ) -> Option<Seen> {
        let same_place = self.waiting.get_mut(&offset)?;
        let fits = |a: &Answered| a.length == length && from <= a.arrival && a.answered <= to;
        let found = same_place.iter().position(fits)?;
        let answer = same_place.swap_remove(found);
        if same_place.is_empty() {
            self.waiting.remove(&offset);
        }
        self.count -= 1;
        Some(Seen { answer, took: to.since(from) })
    }

    /// Forgets answers from before `time`.
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
    /// Why nothing is measured, if so.
    trouble: Arc<Mutex<Option<String>>>,
}

impl PathMeter {
    /// Measures the path to a block device that `engine` serves.
    pub(super) fn start<T: Send + 'static>(
        device: &str,
        engine: &Arc<Engine<T>>,
    ) -> Result<Self, Error> {
        let ended = Arc::new(AtomicBool::new(false));
        let trouble = Arc::new(Mutex::new(None));
        let (device, engine) = (device.to_owned(), Arc::clone(engine));
        let (is_over, why) = (Arc::clone(&ended), Arc::clone(&trouble));
        let run = move || {
            if let Err(error) = measure(&device, &engine, &is_over) {
                engine.state().figures.end_noting();
                *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        };
        let thread = thread::Builder::new().name("path".to_owned()).spawn(run);
        let thread = Some(thread.map_err(Error::system("start a thread"))?);
        Ok(Self { ended, thread, trouble })
    }

    /// Why the path is not measured, in words.
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble
            .as_ref()
            .map(|why| format!("what programs see is not measured, and not corrected ({why})"))
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
        // The order matters: what the block layer has seen to end has been answered.
        recording.poll(&mut records)?;
        pairing.answered(engine.state().figures.take_answered());
        let seen = pair(&mut pairing, &recording, &records);
        records.clear();
        pairing.forget_before(clock::now().since(GIVEN_UP));
        engine.state().see(&seen);
    }
    Ok(())
}

fn pair(pairing: &mut Pairing, recording: &Recording, records: &[Record]) -> Vec<Seen> {
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

    fn answered(offset: u64, arrival: u64, answered: u64) -> Answered {
        Answered {
            offset,
            length: 4096,
            arrival: Nanos(arrival),
            answered: Nanos(answered),
            due: Nanos(50),
            lead: Nanos(10),
            depth: 1,
        }
    }

    #[test]
    fn answers_are_paired_with_what_the_block_layer_saw_around_them() {
        let mut pairing = Pairing::default();
        pairing.answered([answered(0, 100, 140), answered(0, 300, 350), answered(8192, 110, 150)]);
        let pair = |pairing: &mut Pairing, offset, length, from, to| {
            let seen = pairing.pair(offset, length, Nanos(from), Nanos(to))?;
            Some((seen.answer.arrival.0, seen.took.0, seen.beyond()))
        };
        // The second of two reads of one place, and then the first.
        assert_eq!(pair(&mut pairing, 0, 4096, 290, 360), Some((300, 70, 20)));
        assert_eq!(pair(&mut pairing, 0, 4096, 290, 360), None);
        assert_eq!(pair(&mut pairing, 0, 4096, 95, 141), Some((100, 46, -4)));
        // Of another length: merged with a neighbour.
        assert_eq!(pair(&mut pairing, 8192, 8192, 100, 160), None);
        pairing.forget_before(Nanos(151));
        assert_eq!(pair(&mut pairing, 8192, 4096, 100, 160), None);
        assert_eq!(pairing.count, 0);
    }
}
