//! Flushes. A flush is answered when the model has completed it and, if flushes are durable, the
//! disk below has too.
//!
//! A thread of its own waits for the disk, so that the serving thread and the workers never do. If
//! the disk is done first, the flush waits for the model; if the disk is later, the flush is
//! answered late, and counted.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::clock;
use super::engine::Answer;
use super::store::{Mark, Store};
use trimtab_serve::Error;

/// A flush in progress.
pub(super) struct Flush<A> {
    answer: Mutex<Option<A>>,
    mark: Mark,
    store: Arc<Store>,
    /// How many of model and disk have not completed it.
    left: AtomicU8,
    failed: AtomicBool,
}

impl<A: Answer> Flush<A> {
    fn new(answer: A, mark: Mark, store: Arc<Store>, parties: u8) -> Arc<Self> {
        let answer = Mutex::new(Some(answer));
        let (left, failed) = (AtomicU8::new(parties), AtomicBool::new(false));
        Arc::new(Self { answer, mark, store, left, failed })
    }

    /// Model or disk has completed it, or failed. The last one answers; returns whether this was
    /// the last.
    fn done_by_one(&self, well: bool) -> bool {
        if !well {
            self.failed.store(true, Ordering::Release);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return false;
        }
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let holds = !self.failed.load(Ordering::Acquire) && self.store.end_flush(self.mark);
        match answer {
            Some(answer) if holds => answer.done(),
            Some(answer) => answer.failed(),
            None => {}
        }
        true
    }
}

/// The model's share of a flush.
pub(super) struct ByModel<A>(Arc<Flush<A>>);

impl<A: Answer> Answer for ByModel<A> {
    fn done(self) {
        self.0.done_by_one(true);
    }

    fn failed(self) {
        self.0.done_by_one(false);
    }
}

/// Starts flushes.
pub(super) struct Flusher<A> {
    store: Arc<Store>,
    /// None if the model alone has to complete them.
    disk: Option<Disk<A>>,
}

/// The thread that flushes the disk below.
struct Disk<A> {
    jobs: Sender<Arc<Flush<A>>>,
    thread: JoinHandle<()>,
}

impl<A: Answer + 'static> Flusher<A> {
    pub(super) fn start(store: Arc<Store>) -> Result<Self, Error> {
        if !store.is_durable() {
            return Ok(Self { store, disk: None });
        }
        let (jobs, flushes) = channel();
        let below = Arc::clone(&store);
        let wait = move || wait_for_disk(&below, &flushes);
        let thread = std::thread::Builder::new().name("flusher".to_owned()).spawn(wait);
        let thread = thread.map_err(Error::system("start a thread"))?;
        Ok(Self { store, disk: Some(Disk { jobs, thread }) })
    }

    /// Starts a flush; the result is answered when the model completes. Returns `answer` if the
    /// power is off.
    pub(super) fn begin(&self, answer: A) -> Result<ByModel<A>, A> {
        let Ok(mark) = self.store.begin_flush() else { return Err(answer) };
        let parties = if self.disk.is_some() { 2 } else { 1 };
        let flush = Flush::new(answer, mark, Arc::clone(&self.store), parties);
        if let Some(disk) = &self.disk
            && disk.jobs.send(Arc::clone(&flush)).is_err()
        {
            // The thread has died: nothing is durable any more.
            flush.done_by_one(false);
        }
        Ok(ByModel(flush))
    }
}

impl<A> Drop for Flusher<A> {
    fn drop(&mut self) {
        if let Some(Disk { jobs, thread }) = self.disk.take() {
            drop(jobs);
            _ = thread.join();
        }
    }
}

/// Flushes the disk below, once for all flushes that arrived before that began.
fn wait_for_disk<A: Answer>(store: &Store, flushes: &Receiver<Arc<Flush<A>>>) {
    while let Ok(first) = flushes.recv() {
        let together: Vec<_> = std::iter::once(first).chain(flushes.try_iter()).collect();
        let begun = clock::now();
        let failed = store.sync().is_err();
        let took = clock::now().since(begun);
        for flush in together {
            store.disk_flushes().record(took, failed);
            if flush.done_by_one(!failed) {
                store.disk_flushes().late += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;
    use std::time::Duration;

    use trimtab_device::Profile;

    use super::super::spec::{self, Data, Spec};
    use super::*;

    struct Waiting(Sender<bool>);

    impl Answer for Waiting {
        fn done(self) {
            self.0.send(true).unwrap();
        }

        fn failed(self) {
            self.0.send(false).unwrap();
        }
    }

    /// A store in a file, and the directory that it is in.
    fn store(flush: spec::Flush) -> (Arc<Store>, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile::builtin("consumer-a").unwrap().with_capacity(3 << 30).unwrap();
        let data = Data::File { path: directory.path().join("drive"), flush };
        let store = Store::open(&Spec { data, ..Spec::new("test", profile) }).unwrap();
        (Arc::new(store), directory)
    }

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[test]
    fn durable_flush_waits_for_model_and_disk() {
        let (store, _directory) = store(spec::Flush::Durable);
        let flusher = Flusher::start(Arc::clone(&store)).unwrap();
        store.write(0, &[1; 512]).unwrap();
        let (answer, answered) = channel();
        let flush = flusher.begin(Waiting(answer)).ok().unwrap();
        while store.disk_flushes().latency.count() == 0 {
            std::thread::yield_now();
        }
        assert!(answered.try_recv().is_err(), "the model has not done it yet");
        assert_eq!(store.unflushed().0, 512);
        flush.done();
        assert!(answered.recv_timeout(TIMEOUT).unwrap());
        assert_eq!(store.unflushed().0, 0);
    }

    #[test]
    fn flush_across_a_power_cut_fails() {
        let (store, _directory) = store(spec::Flush::Fast);
        let flusher = Flusher::start(Arc::clone(&store)).unwrap();
        store.write(0, &[1; 512]).unwrap();
        let (answer, answered) = channel();
        let flush = flusher.begin(Waiting(answer.clone())).ok().unwrap();
        store.cut_power(1);
        assert!(flusher.begin(Waiting(answer)).is_err(), "the power is off");
        store.restore_power();
        flush.done();
        assert!(!answered.recv_timeout(TIMEOUT).unwrap());
    }
}
