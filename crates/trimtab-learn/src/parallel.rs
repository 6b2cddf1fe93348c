//! Multithreading whose result does not depend on the number of threads.

use std::thread;

/// Runs `work` on each item, on up to `threads` threads, each with a contiguous part. An item's
/// result must depend on the item only.
pub(crate) fn each<T: Send>(threads: usize, items: &mut [T], work: impl Fn(usize, &mut T) + Sync) {
    let length = items.len().div_ceil(threads.max(1)).max(1);
    let work = &work;
    let all = move |part: usize, items: &mut [T]| {
        for (i, item) in items.iter_mut().enumerate() {
            work(part * length + i, item);
        }
    };
    thread::scope(|scope| {
        let mut parts = items.chunks_mut(length).enumerate();
        let own = parts.next();
        for (part, items) in parts {
            scope.spawn(move || all(part, items));
        }
        if let Some((part, items)) = own {
            all(part, items);
        }
    });
}
