use std::path::Path;

use trimtab_device::Disk;
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId, mix64};
use trimtab_trace::Record;

use super::*;

/// The recordings of real disks; `None`, with a note, without them.
#[expect(clippy::print_stderr, reason = "says that it is skipped")]
fn real(name: &str) -> Option<Vec<Record>> {
    let Some(root) = std::env::var_os("TRIMTAB_TRACES") else {
        eprintln!("skipped: TRIMTAB_TRACES is not set");
        return None;
    };
    let path = Path::new(&root).join("hdd").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let mut complete = 0.0;
    let time = |us: f64| Nanos((us * 1e3).round() as u64);
    let records = text.lines().map(|line| {
        let f: Vec<_> = line.split_whitespace().collect();
        let number = |i: usize| f[i].parse::<f64>().unwrap();
        let issue = complete + number(5);
        complete = issue + number(4);
        let op = if f[0] == "R" { Op::Read } else { Op::Write };
        let (offset, length) = (number(2) as u64 * 512, number(3) as u64 * 512);
        let device = DeviceId(0);
        Record {
            issue: Some(time(issue)),
            complete: Some(time(complete)),
            ..Record::arriving(time(issue), device, op, offset, length)
        }
    });
    Some(records.collect())
}

/// The goal on requests that the profile was not fitted to.
#[test]
fn real_disks_are_met_within_five_percent() {
    for name in ["atlas10k.trace", "barracuda.trace", "cheetah9LP.trace"] {
        let Some(records) = real(name) else { return };
        let fitted = fit_disk(&records, name).unwrap();
        let resultant = fitted.rotation_resultant.expect("the recordings show the rotation");
        assert!(resultant > 0.8, "{name}: {resultant}");
        for class in ["all", "reads", "writes"] {
            let of = fitted.second_half.iter().find(|one| one.class == class).unwrap();
            assert!(of.demerit < 0.05, "{name}: {of:?}");
        }
    }
}

/// A recording of a simulated disk: a third of the requests are near the last one.
fn simulated(profile: &DiskProfile, requests: u64) -> Vec<Record> {
    let mut disk = Disk::new(profile, DeviceId(0), 1);
    let (mut now, mut end, mut records) = (Nanos::ZERO, 0, Vec::new());
    for i in 0..requests {
        let draw = |n: u64| mix64(mix64(i) ^ n);
        let length = 2048 * (1 + draw(1) % 4);
        let near = (end + (draw(2) % 64) * 512).saturating_sub(16 * 512);
        let far = draw(3) % (disk.capacity() - (1 << 20)) / 512 * 512;
        let offset = if draw(4) % 3 == 0 { near } else { far };
        let offset = offset.min(disk.capacity() - length);
        let op = if draw(5) % 2 == 0 { Op::Write } else { Op::Read };
        now += Nanos(5_000_000 + draw(6) % 60_000_000);
        let request = Request::new(RequestId(i), DeviceId(0), now, op, offset, length);
        disk.submit(now, &request).unwrap();
        disk.advance_to_answer(Nanos(u64::MAX));
        let done = disk.served().next().unwrap().completion;
        records.push(Record {
            issue: Some(now),
            complete: Some(done.complete),
            ..Record::arriving(now, DeviceId(0), op, offset, length)
        });
        (now, end) = (done.complete, offset + length);
    }
    records
}

#[test]
fn simulated_disk_is_found_again() {
    let mut truth = DiskProfile::builtin("disk-cheetah9lp").unwrap();
    (truth.disk.rpm, truth.interface.command_us) = (7213.0, 500.0);
    (truth.interface.write_us, truth.interface.write_after_read_us) = (460.0, Some(680.0));
    let records = simulated(&truth, 10_000);
    let fitted = fit_disk(&records, "found").unwrap();
    let rpm = fitted.profile.disk.rpm;
    assert!((rpm / 7213.0 - 1.0).abs() < 1e-3, "{rpm}, {:?}", fitted.rotation_resultant);
    let all = &fitted.second_half[0];
    assert!(all.demerit < 0.03, "{all:?}");
    let bus = fitted.profile.interface.bus_mb_s;
    assert!((bus / truth.interface.bus_mb_s - 1.0).abs() < 0.05, "{bus}");
    let found = &fitted.profile.interface;
    let after_read = found.write_after_read_us.unwrap();
    assert!((found.write_us - 460.0).abs() < 10.0, "{found:?}");
    assert!((after_read - 680.0).abs() < 10.0, "{found:?}");
    assert_eq!(fit_disk(&records, "found").unwrap().profile, fitted.profile);
}

#[test]
fn recordings_that_show_no_disk_are_refused() {
    let truth = DiskProfile::builtin("disk-cheetah9lp").unwrap();
    let records = simulated(&truth, 2000);
    let error = |records: &[Record]| fit_disk(records, "x").unwrap_err().to_string();
    assert!(error(&records[..999]).contains("999 requests with latencies, at least 1000"));
    let mut together = records.clone();
    together.iter_mut().for_each(|r| r.complete = r.complete.map(|at| at + Nanos::from_secs(1)));
    assert!(error(&together).contains("one request at a time"), "{}", error(&together));
    let mut writes = records;
    writes.iter_mut().for_each(|r| r.op = Op::Write);
    assert!(error(&writes).contains("0 reads in the recording's first half"));
}
