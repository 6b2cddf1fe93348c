//! Independent jobs on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` with each number below `count`, on `threads` threads, and returns the results
/// in the order of the numbers. The result does not depend on the number of threads, if `work`
/// does not.
///
/// # Panics
/// `work` panics.
pub fn map<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Vec<_> = (0..count).map(|_| Mutex::new(None)).collect();
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = results.get(number) else { return };
            let result = work(number);
            *place.lock().expect("no one panics with it") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(run);
        }
        run();
    });
    let take = |place: Mutex<Option<T>>| place.into_inner().ok().flatten().expect("all are done");
    results.into_iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_order() {
        for threads in [1, 2, 5] {
            let squares = super::map(threads, 100, |i| i * i);
            assert!(squares.into_iter().eq((0..100).map(|i| i * i)));
        }
        assert!(super::map(2, 0, |i| i).is_empty());
    }
}
