//! The cost of a request in each scheduler: inserted, dispatched and completed, with 128 processes
//! that have one request each at all times.

use criterion::{Criterion, criterion_group, criterion_main};
use trimtab_device::scheduler::{AnyScheduler, Scheduler as _, SchedulerKind};
use trimtab_io::{DeviceId, Issuer, Nanos, Op, Request, RequestId, SplitMix64};

const PROCESSES: u32 = 128;
const SERVICE: Nanos = Nanos::from_micros(100);

/// A scheduler above a device that serves one request at a time.
struct Loop {
    scheduler: AnyScheduler,
    now: Nanos,
    random: SplitMix64,
    requests: u64,
}

impl Loop {
    fn insert(&mut self, process: u32) {
        self.requests += 1;
        let offset = self.random.next() % (1 << 28) * 4096;
        let id = RequestId(self.requests);
        let request = Request::new(id, DeviceId(0), self.now, Op::Read, offset, 4096);
        let level = (process % 8) as u8;
        let issuer = Issuer { level, ..Issuer::of_process(process) };
        self.scheduler.insert(self.now, &Request { issuer, ..request });
    }

    /// Serves one request; its process sends the next.
    fn step(&mut self) {
        let request = loop {
            if let Some(request) = self.scheduler.dispatch(self.now, 0) {
                break request;
            }
            let timer = self.scheduler.next_timer().expect("it idles for a time");
            self.now = self.now.max(timer);
        };
        self.now += SERVICE;
        self.scheduler.completed(self.now, &request, SERVICE);
        self.insert(request.issuer.process);
    }
}

fn schedulers(c: &mut Criterion) {
    let mut group = c.benchmark_group("a request, 128 processes");
    for name in SchedulerKind::NAMES {
        let kind = SchedulerKind::parse(&format!("kind = '{name}'")).expect("it has defaults");
        let (scheduler, random) = (kind.scheduler(), SplitMix64::new(1));
        let mut all = Loop { scheduler, now: Nanos::ZERO, random, requests: 0 };
        for process in 0..PROCESSES {
            all.insert(process);
        }
        for _ in 0..100 * PROCESSES {
            all.step();
        }
        group.bench_function(name, |b| b.iter(|| all.step()));
    }
    group.finish();
}

criterion_group!(benches, schedulers);
criterion_main!(benches);
