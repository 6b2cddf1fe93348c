//! The models of mq-deadline and BFQ against the running kernel's own.
//!
//! A drive is stalled, and its few places are occupied. Then a burst of requests of several
//! processes arrives: they wait in the kernel's scheduler. When the drive goes on, the block
//! layer's tracepoints show the order in which the scheduler gives them to it. The model gets the
//! same burst and foretells that order.

#[path = "schedulers/burst.rs"]
mod burst;
#[path = "schedulers/device.rs"]
mod device;
#[path = "schedulers/drive_process.rs"]
mod drive_process;
#[path = "emulated/mod.rs"]
mod emulated;
#[path = "schedulers/foretell.rs"]
mod foretell;

use std::sync::Mutex;

use trimtab_device::scheduler::{BfqOptions, MqDeadlineOptions, SchedulerKind};
use trimtab_testdisk::note;

use self::burst::{Burst, Mix};
use self::device::ScheduledDrive;
use self::foretell::{foretold, pairs_in_order};

/// One drive at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Seeds of bursts: of a short run; all that the models were developed with; and those that were
/// looked at once, when they were done. `TRIMTAB_BURSTS` chooses.
const SHORT: std::ops::Range<u64> = 1..9;
const SEEN: std::ops::Range<u64> = 1..31;
const UNSEEN: std::ops::Range<u64> = 1001..1031;

/// The share of pairs of a burst's requests that must reach the drive in the order foretold.
const LEAST: f64 = 0.95;

/// Sends bursts and compares; checks the share over all of them.
fn compare(what: &str, kind: &SchedulerKind, mix: Mix, settings: &[(&str, &str)]) {
    if !emulated::can_run() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(mut drive) = ScheduledDrive::new(kind.name(), settings) else { return };
    let seeds = match std::env::var("TRIMTAB_BURSTS").as_deref() {
        Err(_) => SHORT,
        Ok("seen") => SEEN,
        Ok("unseen") => UNSEEN,
        Ok(other) => panic!("TRIMTAB_BURSTS is `seen` or `unseen`, not `{other}`"),
    };
    let least = seeds.clone().count() / 2;
    let mut scheduler = kind.scheduler();
    let (mut shares, mut right, mut all) = (Vec::new(), 0, 0);
    for seed in seeds {
        let burst = Burst::draw(seed, mix);
        let Some(served) = drive.serve(&burst) else { continue };
        let foretold = foretold(&mut scheduler, seed, &burst, &served);
        let (agreeing, pairs) = pairs_in_order(&served.order, &foretold);
        let share = agreeing as f64 / pairs as f64;
        if std::env::var_os("TRIMTAB_SHOW_BURSTS").is_some() {
            note(&burst.table(seed, share, &served.order, &foretold));
        }
        shares.push(share);
        (right, all) = (right + agreeing, all + pairs);
    }
    assert!(shares.len() >= least, "{what}: only {} bursts could be observed", shares.len());
    shares.sort_by(f64::total_cmp);
    let share = right as f64 / all as f64;
    note(&format!(
        "{what}: {:.2}% of {all} pairs of {} bursts in the order foretold; by burst least {:.1}%, \
         p10 {:.1}%, median {:.1}%",
        100.0 * share,
        shares.len(),
        100.0 * shares[0],
        100.0 * shares[shares.len() / 10],
        100.0 * shares[shares.len() / 2],
    ));
    assert!(share >= LEAST, "{what}: {share}");
}

/// The drive of a test, in another process.
#[test]
#[ignore = "not a test: a test of this file runs it"]
fn serve_drive() {
    drive_process::serve();
}

#[test]
fn mq_deadline_serves_a_process_in_the_order_foretold() {
    let kind = SchedulerKind::MqDeadline(MqDeadlineOptions::default());
    compare(
        "mq-deadline, one class",
        &kind,
        Mix { classes: false, idle: false, long: false, raised: false },
        &[],
    );
}

#[test]
fn mq_deadline_serves_classes_in_the_order_foretold() {
    let kind = SchedulerKind::MqDeadline(MqDeadlineOptions::default());
    compare(
        "mq-deadline, all classes",
        &kind,
        Mix { classes: true, idle: true, long: true, raised: false },
        &[],
    );
}

#[test]
fn bfq_serves_weights_in_the_order_foretold() {
    let kind = SchedulerKind::Bfq(BfqOptions { low_latency: false, ..BfqOptions::default() });
    let settings = [("iosched/low_latency", "0"), ("iosched/max_budget", "16384")];
    compare(
        "bfq, one class",
        &kind,
        Mix { classes: false, idle: false, long: true, raised: false },
        &settings,
    );
}

#[test]
fn bfq_serves_classes_in_the_order_foretold() {
    let kind = SchedulerKind::Bfq(BfqOptions { low_latency: false, ..BfqOptions::default() });
    let settings = [("iosched/low_latency", "0"), ("iosched/max_budget", "16384")];
    compare(
        "bfq, all classes",
        &kind,
        Mix { classes: true, idle: false, long: true, raised: false },
        &settings,
    );
}

#[test]
fn bfq_raises_weights_in_the_order_foretold() {
    let kind = SchedulerKind::Bfq(BfqOptions::default());
    let settings = [("iosched/low_latency", "1"), ("iosched/max_budget", "16384")];
    compare(
        "bfq, weights raised",
        &kind,
        Mix { classes: true, idle: false, long: true, raised: true },
        &settings,
    );
}
