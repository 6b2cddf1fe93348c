//! Work that must not be in the way.

use std::thread::{self, JoinHandle};

/// The lowest priority there is.
const NICE: i32 = 19;

/// A thread of the lowest priority, and what it comes to. Threads that it begins have
/// that priority too.
#[derive(Debug)]
pub struct Background<T> {
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Background<T> {
    /// Begins the work.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let thread = thread::spawn(move || {
            // On Linux this is of the calling thread alone. Where it is not allowed,
            // the work is done all the same.
            _ = rustix::process::setpriority_process(None, NICE);
            work()
        });
        Self { thread }
    }

    /// Whether the result can be had without waiting.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the result; none if the work panicked.
    #[must_use]
    pub fn finish(self) -> Option<T> {
        self.thread.join().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_a_low_priority_and_others_keep_theirs() {
        let here = rustix::process::getpriority_process(None).unwrap();
        let work = Background::start(|| {
            let inner = thread::spawn(|| rustix::process::getpriority_process(None).unwrap());
            (rustix::process::getpriority_process(None).unwrap(), inner.join().unwrap())
        });
        assert_eq!(work.finish(), Some((NICE, NICE)));
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), here);
    }
}
