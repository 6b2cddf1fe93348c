//! Invalid scenarios, and their errors.

use trimtab_device::Profile;

use super::*;

const COMPLETE: &str = "seed = 1
requests = 100
warm_up_requests = 10

[[device]]
name = 'nvme0'
profile = 'reference'
capacity = '8G'
override.gc.preemptive = true
override.timing.read_us = 50
fill = 0.5
host = { queue_depth = 64, submission_queues = 2, arbitration = 'round-robin' }

[device.workload]
read_share = 0.5
sizes = [{ bytes = 4096, weight = 1 }, { bytes = 8192, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'closed', queue_depth = 4, think_us = 0 }
";

fn parse(text: &str) -> Result<Scenario, Error> {
    Scenario::parse(text, Path::new("."))
}

/// The profile of a flash drive.
fn flash(device: &DeviceSpec<DriveProfile>) -> &Profile {
    match &device.profile {
        DriveProfile::Flash(profile) => profile,
        DriveProfile::Disk(disk) => panic!("{} is a disk", disk.name),
    }
}

#[test]
fn disks_are_devices() {
    let text = "seed = 1
        requests = 200
        [[device]]
        profile = 'disk-7200'
        override.queue.order = 'sstf'
        override.disk.rpm = 15000
        [device.workload]
        read_share = 1
        arrivals = { kind = 'closed', queue_depth = 1, think_us = 0 }
        offsets = { kind = 'uniform' }
        sizes = [{ bytes = 4096, weight = 1 }]";
    let scenario = parse(text).unwrap();
    let DriveProfile::Disk(disk) = &scenario.devices[0].profile else { panic!("not a disk") };
    assert_eq!((disk.disk.rpm, disk.queue.order), (15_000.0, trimtab_device::Order::Sstf));
    let mut simulation = scenario.simulation().unwrap();
    simulation.run().unwrap();
    let report = simulation.report();
    // A disk keeps its own size.
    assert!(report.devices[0].capacity_bytes > 900 << 30);
    let mean = report.devices[0].ops[0].latency.mean.unwrap();
    assert!(mean > Nanos::from_millis(4) && mean < Nanos::from_millis(15), "{mean}");
    let error = |from: &str, to: &str| parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
    let wrong = error("override.disk.rpm = 15000", "override.disk.rpm = 1");
    assert!(wrong.contains("line 6: `override.disk.rpm`: disk.rpm must be from 100"), "{wrong}");
    let wrong = error("override.disk.rpm = 15000", "fill = 0.5");
    assert!(wrong.contains("line 6: `fill` has no meaning for a disk"), "{wrong}");
    assert!(error("'disk-7200'", "'disk-7'").contains("unknown profile `disk-7`"));
}

#[test]
fn all_keys_are_parsed() {
    let scenario = parse(COMPLETE).unwrap();
    let device = &scenario.devices[0];
    assert!(flash(device).gc.preemptive);
    assert_eq!(flash(device).timing.read_us, 50.0);
    assert_eq!(device.fill, Fill { share: 0.5, ..Fill::default() });
    assert_eq!((device.host.queue_depth, device.host.submission_queues), (64, 2));
    assert!(device.profile.capacity_bytes().abs_diff(8 << 30) < 64 << 20);
    assert_eq!(scenario.span.requests, Some(100));
    let simulation = scenario.simulation().unwrap();
    assert_eq!(simulation.report().devices[0].capacity_bytes, device.profile.capacity_bytes());
}

#[test]
fn defaults_of_omitted_keys() {
    let mut text = COMPLETE.to_owned();
    for line in ["name = 'nvme0'\n", "capacity = '8G'\n", "fill = 0.5\n"] {
        text = text.replace(line, "");
    }
    let scenario = parse(&text).unwrap();
    let device = &scenario.devices[0];
    assert_eq!((device.name.as_str(), device.fill.share), ("device 0", 1.0));
    assert!(device.profile.capacity_bytes().abs_diff(64 << 30) < 64 << 20);

    // An override of the blocks sets the size of the drive.
    let text = text.replace("timing.read_us = 50", "geometry.blocks_per_plane = 300");
    assert_eq!(flash(&parse(&text).unwrap().devices[0]).geometry.blocks_per_plane, 300);
}

#[test]
fn notations_are_equivalent() {
    let of = |text: &str| {
        let mut simulation = parse(text).unwrap().simulation().unwrap();
        simulation.run().unwrap();
        simulation.report()
    };
    let overrides = "override.gc.preemptive = true\noverride.timing.read_us = 50";
    let expected = of(COMPLETE);
    for (from, to) in [
        ("fill = 0.5", "fill = { share = 0.5, kind = 'sequential' }"),
        ("capacity = '8G'", "capacity = 8589934592"),
        (overrides, "override = { gc = { preemptive = true }, timing = { read_us = 50.0 } }"),
        ("[device.workload]", "[[device.workload]]\nname = 'workload 0'"),
    ] {
        let text = COMPLETE.replace(from, to);
        assert_ne!(text, COMPLETE);
        assert_eq!(of(&text), expected, "{to}");
    }
}

#[test]
fn errors_name_the_line() {
    let trace = "trace = 'x.csv'\noffsets = 'wrap'\n";
    let no_workload = COMPLETE.split("[device.workload]").next().unwrap();
    for (from, to, expected) in [
        ("seed = 1", "", "missing field `seed`"),
        ("seed = 1", "sead = 1", "line 1: unknown field `sead`"),
        ("seed = 1", "seed = -1", "line 1: invalid value"),
        ("seed = 1", "seed =", "line 1: "),
        ("requests = 100", "requests = 0", "line 2: `requests` must be from 1"),
        ("requests = 100", "duration_s = -1", "line 2: `duration_s` must be from"),
        ("requests = 100", "duration_s = nan", "line 2: `duration_s` must be from"),
        ("requests = 100", "warm_up_s = -1", "line 2: `warm_up_s` must be from 0"),
        ("requests = 100\n", "", "line 13: `requests` or `duration_s` must set where"),
        ("name = 'nvme0'", "nome = 'nvme0'", "line 6: unknown field `nome`"),
        (
            "'reference'",
            "'riference'",
            "line 7: unknown profile `riference`: no built-in one (reference",
        ),
        ("profile = 'reference'", "", "line 5: missing field `profile`"),
        ("'8G'", "'8GB'", "line 8: invalid value: string \"8GB\", expected bytes"),
        ("'8G'", "-5", "line 8: invalid value: integer `-5`, expected bytes"),
        ("'8G'", "'1K'", "line 8: `capacity` of 1024 bytes: "),
        (
            "gc.preemptive = true",
            "gc.preemptiv = true",
            "line 9: `override.gc.preemptiv`: unknown field `preemptiv`",
        ),
        (
            "gc.preemptive = true",
            "gc.preemptive = 3",
            "line 9: `override.gc.preemptive`: invalid type",
        ),
        (
            "read_us = 50",
            "read_us = -1",
            "line 10: `override.timing.read_us`: timing.read_us must be",
        ),
        (
            "override.gc.preemptive = true\noverride.timing.read_us = 50",
            "override = 3",
            "line 9: `override` must be a table",
        ),
        ("fill = 0.5", "fill = 1.5", "line 11: `fill` must be from 0 to 1, not 1.5"),
        ("fill = 0.5", "fill = 'all'", "line 11: invalid type: string \"all\", expected a share"),
        ("fill = 0.5", "fill = { share = 1.0, kind = 'x' }", "line 11: unknown variant `x`"),
        (
            "queue_depth = 64",
            "queue_depth = 0",
            "line 12: `host.queue_depth` must be from 1 to 65536, not 0",
        ),
        (
            "submission_queues = 2",
            "submission_queues = 0",
            "line 12: `host.submission_queues` must be",
        ),
        ("queue_depth = 64", "depth = 64", "line 12: unknown field `depth`"),
        ("'round-robin'", "'lottery'", "line 12: unknown variant `lottery`"),
        ("[device.workload]", "[device.warkload]", "unknown field `warkload`"),
        ("read_share = 0.5", "raed_share = 0.5", "line 15: unknown field `raed_share`"),
        (
            "read_share = 0.5",
            "read_share = 1.5",
            "line 15: `read_share` must be from 0 to 1, not 1.5",
        ),
        (
            "read_share = 0.5",
            "read_share = 0.5\nqueue = 2",
            "line 16: `queue` must be from 0 to 1, not 2",
        ),
        ("read_share = 0.5", "read_share = 0.5\nqueue = 'x'", "line 16: invalid type"),
        (
            "read_share = 0.5",
            "read_share = 0.5\ncapacity_gb = 100",
            "line 16: `capacity_gb` is more than the device's",
        ),
        (
            "bytes = 8192, weight = 1",
            "bytes = 8000, weight = 1",
            "line 16: `sizes.bytes` must be a multiple of 512",
        ),
        ("think_us = 0", "think_us = -2", "line 18: `arrivals.think_us` must be"),
        ("'uniform'", "'spiral'", "line 17: unknown variant `spiral`"),
    ] {
        assert_ne!(COMPLETE.replace(from, to), COMPLETE, "{from}");
        says(&COMPLETE.replace(from, to), expected);
    }
    let with = |workload: &str| [no_workload, workload].concat();
    says(no_workload, "line 5: missing field `workload`");
    says(&with("workload = 3"), "line 14: `workload` must be a table");
    says(&with(&format!("[device.workload]\n{trace}speed = 2")), "line 17: unknown field `speed`");
    says(&with(&format!("[device.workload]\n{trace}rate = 0")), "line 17: `rate` must be from");
    says(&with(&format!("[device.workload]\n{trace}format = 'doc'")), "line 17: ");
    says(
        &with(&trace.replace("wrap", "bend").replacen("", "[device.workload]\n", 1)),
        "line 16: unknown variant `bend`",
    );
    let twice = "[[device.workload]]\nname = 'a'\ntrace = 'x'\n";
    says(&with(&twice.repeat(2)), "line 17: there are two workloads called `a`");
    says("seed = 1\ndevice = []", "at least one `[[device]]`");
    let device = &COMPLETE[COMPLETE.find("[[device]]").unwrap()..];
    says(&[COMPLETE, device].concat(), "line 20: there are two devices called `nvme0`");
}

fn says(text: &str, expected: &str) {
    let error = parse(text).unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains(expected), "{shown:?} should say {expected:?}");
    assert!(!shown.contains('\n') && error.is_bad_input(), "{shown:?}");
}
