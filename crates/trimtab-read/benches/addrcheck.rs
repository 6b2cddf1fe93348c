//! The cost of `addrcheck` beside the system call alone (`mincore`), for 16 resident pages of a
//! mapped file; and of reads that are expected in the page cache, and of automatic deadlines.

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use trimtab_io::Nanos;
use trimtab_read::{AutoDeadline, AutoOptions, ReadOptions, Reader, Urgency, addrcheck};

const PAGE: usize = 4096;
const PAGES: usize = 16;
const LENGTH: usize = PAGES * PAGE;

/// A mapped file whose pages are in memory and in the page table.
fn mapped() -> (File, *const u8) {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&vec![7; LENGTH]).expect("written");
    let null = std::ptr::null_mut();
    // SAFETY: a new mapping at an address that the kernel chooses; it stays until the end.
    let at = unsafe { mmap(null, LENGTH, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
    let at = at.expect("mapped").cast::<u8>().cast_const();
    for page in 0..PAGES {
        // SAFETY: within the mapping.
        black_box(unsafe { at.add(page * PAGE).read_volatile() });
    }
    (file, at)
}

/// The CPU time of this thread: other processes on a busy machine do not count.
fn cpu_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// The CPU time of calls.
fn timed(calls: u64, mut call: impl FnMut()) -> Duration {
    let begun = cpu_time();
    (0..calls).for_each(|_| call());
    cpu_time() - begun
}

fn check(c: &mut Criterion) {
    const BATCH: u64 = 64;
    let (_file, at) = mapped();
    let mut pages = [0_u8; PAGES];
    let mut alone = || {
        let start = black_box(at).cast_mut().cast();
        // SAFETY: the kernel writes a byte for each page.
        black_box(unsafe { libc::mincore(start, LENGTH, pages.as_mut_ptr()) });
    };
    let check = || assert!(addrcheck(black_box(at), LENGTH, Duration::ZERO).is_ok());
    let mut group = c.benchmark_group("16 pages, CPU time");
    group.bench_function("mincore", |b| b.iter_custom(|n| timed(n, &mut alone)));
    group.bench_function("addrcheck", |b| b.iter_custom(|n| timed(n, check)));
    // In turn, so that both see the same machine. The time beyond is the difference.
    let mut differences = Vec::new();
    for _ in 0..4000 {
        let alone = timed(BATCH, &mut alone);
        let with = timed(BATCH, check);
        differences.push((with.as_nanos() as f64 - alone.as_nanos() as f64) / BATCH as f64);
    }
    differences.sort_by(f64::total_cmp);
    let at = |share: usize| differences[differences.len() * share / 100];
    println!(
        "addrcheck beyond mincore, ns a call: median {:.0}, quartiles {:.0} and {:.0}, of {} pairs \
         of {BATCH} calls",
        at(50),
        at(25),
        at(75),
        differences.len(),
    );
    group.finish();
}

fn in_memory(c: &mut Criterion) {
    let (file, _) = mapped();
    let mut group = c.benchmark_group("read of 4 KiB in the page cache");
    let open = |below| {
        let options = ReadOptions { memory_below: below, publish: None, ..ReadOptions::default() };
        Reader::from_file(file.try_clone().expect("a descriptor"), &options).expect("a reader")
    };
    let mut page = [0; PAGE];
    let (memory, none) = (open(Some(Duration::from_millis(1))), open(Some(Duration::ZERO)));
    let soon = Urgency::Deadline(Duration::from_micros(900));
    for (name, reader, urgency) in [
        ("without a deadline", &none, Urgency::None),
        ("with a deadline", &none, soon),
        ("expected in memory", &memory, soon),
        ("automatic deadline", &none, Urgency::Auto),
    ] {
        group.bench_function(name, |b| b.iter(|| reader.read_at(&mut page, PAGE as u64, urgency)));
    }
    group.finish();
}

fn auto(c: &mut Criterion) {
    let mut auto = AutoDeadline::new(&AutoOptions::default()).expect("the defaults");
    let mut took = 80_000;
    c.bench_function("automatic deadline, begin and answered", |b| {
        b.iter(|| {
            let grant = auto.begin();
            took = 80_000 + took * 7 % 30_011;
            auto.answered(grant, Nanos(took));
        });
    });
}

criterion_group!(benches, check, in_memory, auto);
criterion_main!(benches);
