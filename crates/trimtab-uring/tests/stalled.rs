//! A run of strategies with a drive that completes nothing. Needs root.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use trimtab_io::{Nanos, Op};
use trimtab_steer::driver::ArrayIo;
use trimtab_steer::{Replica, strategies};
use trimtab_uring::{Disk, Error, UringOptions, run};

#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
use emulated::Emulated;

const SIZE: u64 = 1 << 20;

/// A stalled drive delays neither the end of a run nor, before, requests to other drives.
#[test]
fn run_ends_despite_a_stalled_drive() {
    if !emulated::can_run() {
        return;
    }
    let emulated = Emulated::new();
    let directory = tempfile::tempdir().unwrap();
    let file = |number: u8| {
        let path = directory.path().join(number.to_string());
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        Disk { path, file, depth: 8 }
    };
    let path = Path::new(&emulated.path).to_owned();
    let stalled = Disk { file: File::open(&path).unwrap(), path, depth: 8 };
    let disks = [stalled, file(1), file(2)];
    let read = |i: u64| {
        ArrayIo::new(
            Nanos(i / 6 * 1_000_000),
            Op::Read,
            i * 4096 * 7 % (SIZE - 4096),
            4096,
            Replica((i % 3) as u8),
        )
    };
    let requests: Vec<_> = (0..6000).map(read).collect();
    emulated.stall();
    let (begun, half) = (Instant::now(), Nanos::from_millis(500));
    let clone = Box::new(strategies::Clone);
    let go_on = |now| if now < half { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let ended = run(&disks, clone, &requests, &UringOptions::default(), &mut { go_on });
    assert!(matches!(ended, Err(Error::Ended | Error::Ring(_))));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    emulated.heal();
}
