//! Reading speed of blktrace recordings: decoding, merging, pairing and sorting, from files in the
//! page cache. 1 M requests of five events each (Q, G, I, D, C), 32 in flight.

use std::collections::VecDeque;
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trimtab_trace::{Trace, TraceOptions};

const REQUESTS: u64 = 1_000_000;
const EVENTS: u64 = 5 * REQUESTS;
const IN_FLIGHT: usize = 32;

/// An action: its letter, number and category.
type Action = (char, u32, u32);
const SUBMISSION: [Action; 4] =
    [('Q', 1, 1 << 4), ('G', 4, 1 << 4), ('I', 12, 1 << 4), ('D', 7, 1 << 6)];
const COMPLETION: Action = ('C', 8, 1 << 7);

/// Calls `event` with time, sector and action of every event.
fn events(mut event: impl FnMut(u64, u64, Action)) {
    let (mut time, mut random) = (0, 1_u64);
    let mut flying = VecDeque::new();
    let mut tick = |sector, action| {
        time += 500;
        event(time, sector, action);
    };
    for _ in 0..REQUESTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let sector = (random >> 33) * 8;
        SUBMISSION.into_iter().for_each(|action| tick(sector, action));
        flying.push_back(sector);
        if flying.len() == IN_FLIGHT {
            tick(flying.pop_front().unwrap_or_default(), COMPLETION);
        }
    }
    flying.into_iter().for_each(|sector| tick(sector, COMPLETION));
}

fn binary() -> Vec<u8> {
    let mut bytes = Vec::new();
    events(|time, sector, (_, number, category)| {
        const WRITE: u32 = 1 << 1;
        let words = [4096, number | (category | WRITE) << 16, 1234, 8 << 20, 0, 0];
        bytes.extend_from_slice(&0x6561_7407_u64.to_le_bytes());
        bytes.extend_from_slice(&time.to_le_bytes());
        bytes.extend_from_slice(&sector.to_le_bytes());
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    });
    bytes
}

fn text() -> String {
    let mut text = String::new();
    events(|time, sector, (letter, ..)| {
        let (s, ns) = (time / 1_000_000_000, time % 1_000_000_000);
        let note = if letter == 'C' { "0" } else { "fio" };
        let number = time / 500;
        writeln!(
            text,
            "  8,0    1 {number:8} {s:5}.{ns:09}  1234  {letter}   W {sector} + 8 [{note}]"
        )
        .expect("a string takes everything");
    });
    text
}

fn read(path: &Path) -> u64 {
    let mut trace =
        Trace::open(&[PathBuf::from(path)], &TraceOptions::default()).expect("it exists");
    let (mut batch, mut records) = (Vec::new(), 0);
    while trace.read(&mut batch).expect("it is well-formed") {
        records += batch.len() as u64;
    }
    records
}

fn reading(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    for (name, content) in [("blktrace", binary()), ("blkparse", text().into_bytes())] {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("room for 400 MB");
        assert_eq!(read(&path), REQUESTS);
        group.bench_function(name, |bencher| bencher.iter(|| black_box(read(&path))));
        fs::remove_file(&path).expect("it was written");
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
