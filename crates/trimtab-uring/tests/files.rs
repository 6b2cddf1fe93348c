//! Strategies over real files, with io_uring. Needs no privileges: the files are ordinary
//! ones, and their speed is not measured.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::path::Path;

use trimtab_io::{Nanos, Op};
use trimtab_steer::driver::{ArrayIo, RunOptions};
use trimtab_steer::{Reason, Replica, Strategy, Turn, strategies};
use trimtab_uring::{Disk, Error, UringOptions, UringRun, run};

const SIZE: u64 = 1 << 20;

/// Files of these sizes as disks.
fn disks(directory: &Path, sizes: &[u64], depth: u32) -> Vec<Disk> {
    let disk = |(number, &size): (usize, &u64)| {
        let path = directory.join(number.to_string());
        File::create(&path).unwrap().set_len(size).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        Disk { path, file, depth }
    };
    sizes.iter().enumerate().map(disk).collect()
}

/// Two reads of each of three drives and one write, every millisecond.
fn requests(count: u64) -> Vec<ArrayIo> {
    let io = |i: u64| {
        ArrayIo::new(
            Nanos(i / 7 * 1_000_000),
            if i % 7 == 6 { Op::Write } else { Op::Read },
            i * 4096 * 7 % (SIZE - 4096),
            4096,
            Replica((i % 3) as u8),
        )
    };
    (0..count).map(io).collect()
}

/// None where the kernel has io_uring disabled: then there is nothing to test.
fn serve(
    disks: &[Disk],
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &UringOptions,
) -> Option<UringRun> {
    match run(disks, strategy, requests, options, &mut |_| ControlFlow::Continue(())) {
        Ok(run) => Some(run),
        Err(Error::Ring(e)) => {
            trimtab_testdisk::skip(trimtab_testdisk::Feature::IoUring, &e.to_string());
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn logged() -> UringOptions {
    let run = RunOptions { seed: 1, log: true, ..RunOptions::default() };
    UringOptions { run, sample_every: 0 }
}

#[test]
fn requests_are_served_at_their_times() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 3], 4), requests(700));
    let base = Box::new(strategies::Base::new("base"));
    let Some(run) = serve(&disks, base, &requests, &logged()) else { return };
    assert_eq!((run.figures.reads.count(), run.figures.errors), (600, 0));
    assert_eq!((run.figures.counts.reads, run.figures.counts.sent), (600, 600));
    assert_eq!(run.lateness.count(), 700);
    assert!(run.took >= requests.last().unwrap().at);
    for (number, log) in run.log.iter().enumerate() {
        let own: Vec<_> = requests.iter().filter(|io| io.primary.index() == number).collect();
        assert_eq!(log.len(), own.len());
        for (entry, io) in log.iter().zip(own) {
            assert_eq!((entry.op, entry.offset, entry.length), (io.op, io.offset, io.length));
            assert!(entry.arrival >= io.at && entry.issue >= Some(entry.arrival));
            assert!(entry.complete >= entry.issue);
        }
    }
}

#[test]
fn clones_go_to_two_drives_one_request_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 3], 1), requests(350));
    let clone = Box::new(strategies::Clone);
    let Some(run) = serve(&disks, clone, &requests, &logged()) else { return };
    assert_eq!((run.figures.reads.count(), run.figures.errors), (300, 0));
    assert_eq!(run.figures.counts.sent, 600);
    for log in &run.log {
        // With a depth of one the next is issued when the previous one is complete.
        let times = log.windows(2).map(|pair| (pair[0].complete, pair[1].issue));
        assert!(times.into_iter().all(|(before, after)| before <= after));
    }
}

/// A file that is shorter than its data fails reads beyond its end; the others have them.
#[test]
fn errors_fail_over_to_another_drive() {
    let directory = tempfile::tempdir().unwrap();
    let disks = disks(directory.path(), &[SIZE, SIZE, 8192], 8);
    // A write would make the file longer.
    let requests: Vec<_> = requests(350).into_iter().filter(|io| io.op == Op::Read).collect();
    let base = Box::new(strategies::Base::new("base"));
    let Some(run) = serve(&disks, base, &requests, &logged()) else { return };
    assert_eq!((run.figures.reads.count(), run.figures.errors), (300, 0));
    assert!(run.figures.counts.sent > 390, "{:?}", run.figures.counts);
}

/// Refuses every read's primary replica.
struct Wary;

impl Strategy for Wary {
    fn name(&self) -> &'static str {
        "wary"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.refuse(turn.primary());
        turn.send(turn.order()[1], turn.now(), Reason::Fast);
    }
}

#[test]
fn some_refused_reads_are_sent_as_forced_samples() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 3], 8), requests(700));
    let run = RunOptions { thresholds: Some(vec![Nanos::from_secs(100); 3]), ..logged().run };
    let options = UringOptions { run, sample_every: 50 };
    let Some(run) = serve(&disks, Box::new(Wary), &requests, &options) else { return };
    let score = run.figures.score;
    assert_eq!((score.refused, score.sampled, score.false_revokes), (600, 12, 12));
    assert_eq!((score.submitted, score.false_submits), (600, 0));
    // Forced samples do not count as the strategy's requests.
    assert_eq!(run.figures.counts.sent, 600);
}

#[test]
fn run_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 2], 8), requests(70_000));
    let requests: Vec<_> = requests.into_iter().filter(|io| io.primary.0 < 2).collect();
    let base = Box::new(strategies::Base::new("base"));
    let options = UringOptions::default();
    let ended = run(&disks, base, &requests, &options, &mut |_| ControlFlow::Break(()));
    assert!(matches!(ended, Err(Error::Ended | Error::Ring(_))));
}
