//! Strategies over real files, with io_uring. Needs no privileges: the files are
//! ordinary ones, and what is measured here is not how fast they are.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use trimtab_io::{Nanos, Op};
use trimtab_live::array::{Disk, Error, LiveOptions, LiveRun, run};
use trimtab_steer::array::ArrayIo;
use trimtab_steer::{Replica, Strategy, Turn, Why, strategies};

#[path = "../../trimtab-read/tests/emulated/mod.rs"]
mod emulated;
use emulated::Emulated;

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
    let io = |i: u64| ArrayIo {
        at: Nanos(i / 7 * 1_000_000),
        op: if i % 7 == 6 { Op::Write } else { Op::Read },
        offset: i * 4096 * 7 % (SIZE - 4096),
        length: 4096,
        home: Replica((i % 3) as u8),
    };
    (0..count).map(io).collect()
}

/// None where the kernel has no io_uring for us: then there is nothing to test.
fn serve(
    disks: &[Disk],
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &LiveOptions,
) -> Option<LiveRun> {
    match run(disks, strategy, requests, options, &mut |_| ControlFlow::Continue(())) {
        Ok(run) => Some(run),
        Err(Error::Ring(e)) => {
            trimtab_testdisk::note(&format!("skipped: no io_uring: {e}"));
            None
        }
        Err(e) => panic!("{e}"),
    }
}

const RECORDED: LiveOptions =
    LiveOptions { seed: 1, thresholds: None, trial_every: 0, record: true };

#[test]
fn everything_is_served_at_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 3], 4), requests(700));
    let base = Box::new(strategies::Base::new("base"));
    let Some(run) = serve(&disks, base, &requests, &RECORDED) else { return };
    assert_eq!((run.figures.reads.count(), run.figures.errors), (600, 0));
    assert_eq!((run.figures.counts.reads, run.figures.counts.sent), (600, 600));
    assert_eq!(run.lateness.count(), 700);
    assert!(run.took >= requests.last().unwrap().at);
    for (number, records) in run.records.iter().enumerate() {
        let own: Vec<_> = requests.iter().filter(|io| io.home.index() == number).collect();
        assert_eq!(records.len(), own.len());
        for (record, io) in records.iter().zip(own) {
            assert_eq!((record.op, record.offset, record.length), (io.op, io.offset, io.length));
            assert!(record.arrival >= io.at && record.issue >= Some(record.arrival));
            assert!(record.complete >= record.issue);
        }
    }
}

#[test]
fn clones_go_to_two_drives_one_request_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 3], 1), requests(350));
    let clone = Box::new(strategies::Clone);
    let Some(run) = serve(&disks, clone, &requests, &RECORDED) else { return };
    assert_eq!((run.figures.reads.count(), run.figures.errors), (300, 0));
    assert_eq!(run.figures.counts.sent, 600);
    for records in &run.records {
        // With a depth of one the next is issued when the one before is answered.
        let times = records.windows(2).map(|pair| (pair[0].complete, pair[1].issue));
        assert!(times.into_iter().all(|(before, after)| before <= after));
    }
}

/// A drive that is shorter than its data fails what is beyond; others have it.
#[test]
fn what_one_drive_fails_another_answers() {
    let directory = tempfile::tempdir().unwrap();
    let disks = disks(directory.path(), &[SIZE, SIZE, 8192], 8);
    // A write would make the file longer.
    let requests: Vec<_> = requests(350).into_iter().filter(|io| io.op == Op::Read).collect();
    let base = Box::new(strategies::Base::new("base"));
    let Some(run) = serve(&disks, base, &requests, &RECORDED) else { return };
    assert_eq!((run.figures.reads.count(), run.figures.errors), (300, 0));
    assert!(run.figures.counts.sent > 390, "{:?}", run.figures.counts);
}

/// Decides against every read's home.
struct Wary;

impl Strategy for Wary {
    fn name(&self) -> &'static str {
        "wary"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.refuse(turn.home());
        turn.send(turn.order()[1], turn.now(), Why::Fast);
    }
}

#[test]
fn some_refused_reads_are_tried_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 3], 8), requests(700));
    let options = LiveOptions {
        thresholds: Some(vec![Nanos::from_secs(100); 3]),
        trial_every: 50,
        ..RECORDED
    };
    let Some(run) = serve(&disks, Box::new(Wary), &requests, &options) else { return };
    let judged = run.figures.judged;
    assert_eq!((judged.refused, judged.sampled, judged.false_revokes), (600, 12, 12));
    assert_eq!((judged.submitted, judged.false_submits), (600, 0));
    // What nobody waits for is not the strategy's.
    assert_eq!(run.figures.counts.sent, 600);
}

#[test]
fn a_run_can_be_ended() {
    let directory = tempfile::tempdir().unwrap();
    let (disks, requests) = (disks(directory.path(), &[SIZE; 2], 8), requests(70_000));
    let requests: Vec<_> = requests.into_iter().filter(|io| io.home.0 < 2).collect();
    let base = Box::new(strategies::Base::new("base"));
    let options = LiveOptions::default();
    let ended = run(&disks, base, &requests, &options, &mut |_| ControlFlow::Break(()));
    assert!(matches!(ended, Err(Error::Ended | Error::Ring(_))));
}

/// One that is stuck holds up neither the end of a run nor, before, what others are asked.
#[test]
fn a_run_ends_though_a_drive_does_not_answer() {
    if let Some(why) = emulated::missing() {
        return trimtab_testdisk::note(&format!("skipped a run on a stalled drive: {why}"));
    }
    let emulated = Emulated::new();
    let directory = tempfile::tempdir().unwrap();
    let mut disks = disks(directory.path(), &[SIZE; 2], 8);
    let path = Path::new(&emulated.path).to_owned();
    let file = File::open(&path).unwrap();
    disks.insert(0, Disk { path, file, depth: 8 });
    let requests: Vec<_> = requests(7000).into_iter().filter(|io| io.op == Op::Read).collect();
    emulated.stall();
    let (begun, half) = (Instant::now(), Nanos::from_millis(500));
    let clone = Box::new(strategies::Clone);
    let go_on = |now| if now < half { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let ended = run(&disks, clone, &requests, &LiveOptions::default(), &mut { go_on });
    assert!(matches!(ended, Err(Error::Ended | Error::Ring(_))));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    emulated.heal();
}
