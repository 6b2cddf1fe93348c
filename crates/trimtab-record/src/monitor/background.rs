//! Background work at the lowest priority.

use std::thread::{self, JoinHandle};

/// The lowest priority.
const NICE: i32 = 19;

/// A thread at the lowest priority, and its result. Threads that it starts inherit the
/// priority.
#[derive(Debug)]
pub struct Background<T> {
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts the work.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let thread = thread::spawn(move || {
            // On Linux this applies to the calling thread only. If it is not permitted, the
            // work runs at the usual priority.
            _ = rustix::process::setpriority_process(None, NICE);
            work()
        });
        Self { thread }
    }

    /// Whether the result is available.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the result; `None` if the work panicked.
    #[must_use]
    pub fn finish(self) -> Option<T> {
        self.thread.join().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_work_has_low_priority() {
        let here = rustix::process::getpriority_process(None).unwrap();
        let work = Background::start(|| {
            let inner = thread::spawn(|| rustix::process::getpriority_process(None).unwrap());
            (rustix::process::getpriority_process(None).unwrap(), inner.join().unwrap())
        });
        assert_eq!(work.finish(), Some((NICE, NICE)));
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), here);
    }
}
