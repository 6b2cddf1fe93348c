//! Memory of schedulers that see many processes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use trimtab_device::scheduler::{AnyScheduler, Scheduler as _, SchedulerKind};
use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};

/// Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Serves one request of each of these processes, eight at a time. Every eighth
/// is a write that no process waits for.
fn serve(scheduler: &mut AnyScheduler, mut now: Nanos, from: u32, to: u32) -> Nanos {
    const AT_ONCE: u32 = 8;
    for first in (from..to).step_by(AT_ONCE as usize) {
        for process in first..first + AT_ONCE {
            let (id, offset) = (RequestId(process.into()), u64::from(process % 10_000) * 8192);
            let op = if process % 4 == 0 { Op::Write } else { Op::Read };
            let made = Request::new(id, DeviceId(0), now, op, offset, 4096);
            let issuer = Issuer { group: (process % 3) as u16, ..Issuer::of_process(process) };
            let flags = if process % 8 == 0 { Flags::empty() } else { Flags::SYNC };
            scheduler.insert(now, &Request { issuer, flags, ..made });
        }
        while scheduler.len() > 0 {
            match scheduler.dispatch(now, 0) {
                Some(next) => {
                    now += Nanos::from_micros(50);
                    scheduler.completed(now, &next, Nanos::from_micros(50));
                }
                None => now = now.max(scheduler.next_timer().expect("it idles for a time")),
            }
        }
    }
    now
}

/// One test: others would allocate meanwhile.
#[test]
fn a_million_processes_take_no_more_memory_than_ten_thousand() {
    for name in SchedulerKind::NAMES {
        let kind = SchedulerKind::parse(&format!("kind = '{name}'")).unwrap();
        let mut scheduler = kind.scheduler();
        let now = serve(&mut scheduler, Nanos::ZERO, 0, 10_000);
        let before = IN_USE.load(Relaxed);
        serve(&mut scheduler, now, 10_000, 1_000_000);
        let grown = IN_USE.load(Relaxed).saturating_sub(before);
        assert!(grown < 64 << 10, "{name}: {grown} bytes");
    }
}
