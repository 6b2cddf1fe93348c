//! Invalid comparisons, and their errors.

use trimtab_device::{Effect, FaultOps};
use trimtab_predict::ErrorShares;
use trimtab_sim::scenario::WorkloadSpec;

use super::*;

const COMPLETE: &str = "seeds = [1, 2]
phase_one = { reads = 100 }
phase_two = { reads = 100, duration_s = 60 }
strategies = ['base', { strategy = 'linnos', name = 'slow', inference_us = 6 }]
gap_s = 0.5
costs = { failover_us = 1, inference_us = { linnos = 2 } }
tuning = { margin = 0.2 }

[workload]
read_share = 0.5
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 1000 }

[[device]]
profile = 'reference'
capacity = '8G'

[[device]]
profile = 'reference'
capacity = '8G'
";

fn parse(text: &str) -> Result<Comparison, Error> {
    Comparison::parse(text, Path::new("."))
}

#[test]
fn all_keys_are_parsed() {
    let comparison = parse(COMPLETE).unwrap();
    assert_eq!((comparison.seeds.as_slice(), comparison.devices.len()), (&[1, 2][..], 2));
    assert_eq!(comparison.gap, Nanos::from_millis(500));
    assert_eq!(comparison.tuning, Tuning { margin: 0.2, ..Tuning::default() });
    let [base, slow] = comparison.entries() else { panic!("two entries") };
    assert_eq!((base.name.as_str(), base.kind), ("base", StrategyKind::Base));
    assert_eq!((slow.name.as_str(), slow.kind), ("slow", StrategyKind::Linnos));
    assert_eq!(comparison.inference(slow, None), Nanos::from_micros(6));
    assert!(comparison.predictors().eq(["linnos"]));
}

#[test]
fn defaults_of_omitted_keys() {
    let mut text = COMPLETE.to_owned();
    for key in ["seeds", "strategies", "gap_s", "costs", "tuning"] {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap().to_owned() + "\n";
        text = text.replace(&line, "");
    }
    let comparison = parse(&text).unwrap();
    assert_eq!(comparison.seeds, [1, 2, 3, 4, 5]);
    assert_eq!((comparison.gap, comparison.failover), (Nanos::from_secs(1), Costs::FAILOVER));
    assert!(comparison.correlated_bursts && comparison.copies.is_none());
    // LinnOS's rows twice, and nothing to leave out.
    assert_eq!(comparison.entries.len(), StrategyKind::ALL.len() + 3 - 1);
    let trained = Some(Nanos(150));
    for entry in &comparison.entries {
        let expected = match entry.kind.predictor() {
            _ if entry.name.ends_with("at 6 µs") => Nanos(6_000),
            _ => Nanos(150),
        };
        assert_eq!(comparison.inference(entry, trained), expected);
    }
}

/// COMPLETE with these strategies, and a change of workload.
fn changing(strategies: &str, change: &str) -> String {
    let line = COMPLETE.lines().find(|line| line.starts_with("strategies")).unwrap();
    let workload = &COMPLETE[COMPLETE.find("read_share").unwrap()..];
    let workload = workload.split("\n\n").next().unwrap();
    let text = COMPLETE.replace(line, strategies);
    format!("{text}\n{change}\n[change.workload]\n{}", workload.replace("0.5", "0.9"))
}

#[test]
fn workload_can_change() {
    let retrain = "[change]\nretrain = { reads = 50 }";
    let two = "strategies = ['trimtab', { strategy = 'trimtab', retrained = true }]";
    let comparison = parse(&changing(two, retrain)).unwrap();
    assert_eq!(comparison.change.as_ref().unwrap().devices.len(), 2);
    let names: Vec<_> = comparison.entries().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["trimtab", "trimtab, retrained"]);
    let all = parse(&changing("", retrain)).unwrap();
    let retrained = all.entries().iter().filter(|entry| entry.retrained);
    assert!(retrained.clone().all(|entry| entry.kind.predictor().is_some()));
    assert_eq!(retrained.count(), 8);

    let said = |text: &str| parse(text).unwrap_err().to_string();
    let base = changing("strategies = [{ strategy = 'base', retrained = true }]", retrain);
    assert!(
        said(&base).contains("line 4: `retrained` is for strategies that ask"),
        "{}",
        said(&base)
    );
    let none = COMPLETE.replace("inference_us = 6", "retrained = true");
    assert!(said(&none).contains("line 4: `retrained` is for"), "{}", said(&none));
    let alone = format!("{COMPLETE}\n{retrain}");
    assert!(said(&alone).contains("missing field `change.workload`"), "{}", said(&alone));
    let endless = changing("", "[change]\nretrain = {}");
    assert!(said(&endless).contains("`change.retrain.reads` or"), "{}", said(&endless));
}

/// COMPLETE with these faults of its first device.
fn faulty(faults: &str) -> String {
    COMPLETE.replacen("capacity = '8G'", &format!("capacity = '8G'\nfault = {faults}"), 1)
}

#[test]
fn devices_have_faults() {
    let text = faulty(
        "[{ kind = 'slow', factor = 10, at_s = 3.2 }, { kind = 'stall', at_s = 1, for_s = 0.5 },
          { kind = 'error', share = 1, ops = 'reads', for_s = 2 }]",
    );
    let comparison = parse(&text).unwrap();
    let error = Effect::Error { ops: FaultOps::Reads, share: 1.0 };
    let expected = [
        Fault::once(Effect::Slow { factor: 10.0 }, 3.2, f64::INFINITY),
        Fault::once(Effect::Stall, 1.0, 0.5),
        Fault::once(error, 0.0, 2.0),
    ];
    assert_eq!(comparison.faults, [expected.to_vec(), vec![]]);
    let tables = format!("{COMPLETE}\n[[device.fault]]\nkind = 'stall'\nfor_s = 1\n");
    assert_eq!(parse(&tables).unwrap().faults[1].len(), 1);
}

#[test]
fn errors_of_faults_name_the_line() {
    for (faults, expected) in [
        ("{ kind = 'stall', for_s = 1 }", "line 18: `fault` must be a list of tables"),
        ("[3]", "line 18: invalid type"),
        ("[{ kind = 'melt', for_s = 1 }]", "line 18: unknown variant `melt`"),
        ("[{ kind = 'stall' }]", "line 18: missing field `for_s`"),
        ("[{ kind = 'stall', for_s = inf }]", "line 18: a fault's for_s must be from"),
        ("[{ kind = 'stall', for_s = 1, at_s = -1 }]", "line 18: a fault's at_s must be from 0"),
        ("[\n{ kind = 'slow', factor = 0.5 }]", "line 19: a fault's factor must be from 1"),
        ("[{ kind = 'slow' }]", "line 18: `slow` takes `factor`"),
        ("[{ kind = 'error', share = 2 }]", "line 18: a fault's share must be from 0 to 1"),
        ("[{ kind = 'error', share = 1, op = 'reads' }]", "line 18: unknown field `op`"),
        (
            "[{ kind = 'media', offset = 1_000_000_000_000, bytes = 512 }]",
            "line 18: a fault's 512 bytes from offset 1000000000000 on extend beyond the drive's end",
        ),
        ("[{ kind = 'power-cut' }]", "line 18: a comparison has no `power-cut`"),
    ] {
        let shown = parse(&faulty(faults)).unwrap_err().to_string();
        assert!(shown.contains(expected), "{shown:?} should say {expected:?}");
        assert!(!shown.contains('\n'), "{shown}");
    }
}

#[test]
fn errors_name_the_key() {
    let device = &COMPLETE[COMPLETE.rfind("[[device]]").unwrap()..];
    for (from, to, expected) in [
        ("seeds = [1, 2]", "seeds = []", "line 1: `seeds` must have at least one number"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "line 1: `seeds` must have at least one number"),
        ("seeds", "seed", "line 1: unknown field `seed`"),
        ("phase_one = { reads = 100 }", "", "missing field `phase_one`"),
        ("{ reads = 100 }", "{}", "line 2: `phase_one.reads` or `phase_one.duration_s` must"),
        ("{ reads = 100 }", "{ reads = 0 }", "line 2: `phase_one.reads` must be from 1"),
        ("{ reads = 100 }", "{ writes = 1 }", "line 2: unknown field `writes`"),
        ("duration_s = 60", "duration_s = -1", "line 3: `phase_two.duration_s` must be from"),
        ("'base'", "'bass'", "line 4: unknown strategy `bass`; there are base, ideal"),
        ("'base'", "3", "line 4: invalid type"),
        ("'base'", "\"a\\nb\"", "line 4: unknown strategy `a b`"),
        ("name = 'slow'", "nome = 'slow'", "line 4: unknown field `nome`"),
        ("'slow'", "'base'", "line 4: there are two strategies called `base`"),
        ("inference_us = 6", "inference_us = -6", "line 4: `inference_us` must be from 0"),
        ("gap_s = 0.5", "gap_s = nan", "line 5: `gap_s` must be from 0"),
        ("failover_us", "fallover_us", "line 6: unknown field `fallover_us`"),
        ("{ linnos = 2 }", "{ lynx = 2 }", "line 6: `costs.inference_us.lynx`: there is no such"),
        ("margin = 0.2", "margin = 1.5", "line 7: `tuning.margin` must be from 0 to 1"),
        ("read_share", "raed_share", "line 10: unknown field `raed_share`"),
        (
            "kind = 'poisson', iops = 1000",
            "kind = 'closed', queue_depth = 1, think_us = 0",
            "line 9: a closed loop waits for answers",
        ),
        ("profile = 'reference'", "profile = 'x'", "line 16: unknown profile `x`"),
        (device, "", "there must be 2 to 32 `[[device]]`, not 1"),
    ] {
        let text = COMPLETE.replacen(from, to, 1);
        assert_ne!(text, COMPLETE, "{from}");
        let error = parse(&text).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(expected), "{shown:?} should say {expected:?}");
        assert!(!shown.contains('\n') && error.is_bad_input(), "{shown:?}");
    }
}

#[test]
fn stores_have_many_drives_and_neighbours() {
    let noise = "
        [[workload]]
        noise = true
        issuer = { process = 9, class = 'real-time' }
        read_share = 1
        arrivals = { kind = 'poisson', iops = 10 }
        offsets = { kind = 'uniform' }
        sizes = [{ bytes = 1048576, weight = 1 }]";
    let store = |keys: &str, noise: &str| {
        let rows = "strategies = ['no-noise', { strategy = 'mitt', \
                    errors = { false_negatives = 0.2 } }]";
        parse(&format!(
            "{keys}
            {rows}
            phase_one = {{ reads = 1 }}
            phase_two = {{ reads = 1 }}
            [[workload]]
            read_share = 1
            arrivals = {{ kind = 'poisson', iops = 10 }}
            offsets = {{ kind = 'uniform' }}
            sizes = [{{ bytes = 4096, weight = 1 }}]
            {noise}
            [[device]]
            name = 'node'
            count = 20
            profile = 'disk-7200'
            scheduler = {{ kind = 'cfq' }}"
        ))
    };
    let said = |keys: &str| store(keys, noise).unwrap_err().to_string();
    let comparison = store("copies = 3\nparallel = 5", noise).unwrap();
    assert_eq!((comparison.copies, comparison.parallel), (Some(3), 5));
    assert_eq!((comparison.devices.len(), comparison.devices[19].name.as_str()), (20, "node 19"));
    let is_noise: Vec<_> =
        comparison.devices[7].workloads.iter().map(WorkloadSpec::is_noise).collect();
    assert_eq!(is_noise, [false, true]);
    let errors = ErrorShares { false_negatives: 0.2, false_positives: 0.0 };
    assert_eq!(comparison.entries[1].errors, errors);

    assert!(said("").contains("`copies` must say how many of the 20 drives"), "{}", said(""));
    assert!(said("copies = 9").contains("line 1: `copies` must be from 2 to 8"));
    assert!(said("copies = 3\nparallel = 21").contains("line 2: `parallel` must be from 1 to 20"));
    let quiet = store("copies = 3", "").unwrap_err().to_string();
    assert!(quiet.contains("line 2: `no-noise` leaves out workloads with"), "{quiet}");
}

#[test]
fn groups_have_drives_and_deadlines_of_their_own() {
    let of = |first: &str, second: &str, keys: &str| {
        parse(&format!(
            "{keys}
            phase_one = {{ reads = 100 }}
            phase_two = {{ reads = 100 }}
            [workload]
            read_share = 1
            arrivals = {{ kind = 'poisson', iops = 20 }}
            offsets = {{ kind = 'uniform' }}
            sizes = [{{ bytes = 4096, weight = 1 }}]
            [[device]]
            count = 3
            profile = 'disk-7200'
            {first}
            [[device]]
            count = 2
            profile = 'reference'
            capacity = '8G'
            {second}"
        ))
    };
    let both = of("group = 'disks'\ndeadline_us = 20_000", "group = 'flash'", "deadline_us = 9e3");
    let comparison = both.unwrap();
    let [disks, flash] = &comparison.groups[..] else { panic!("{:?}", comparison.groups) };
    assert_eq!((&disks.name[..], &disks.drives[..]), ("disks", &[0, 1, 2][..]));
    assert_eq!(disks.deadline, Some(Nanos::from_millis(20)));
    assert_eq!((&flash.name[..], &flash.drives[..]), ("flash", &[3, 4][..]));
    assert_eq!(flash.deadline, Some(Nanos::from_millis(9)));
    assert_eq!(comparison.group_numbers(), [0, 0, 0, 1, 1]);
    assert!(of("", "", "").unwrap().group_numbers().is_empty());

    let said =
        |first: &str, second: &str, keys: &str| of(first, second, keys).unwrap_err().to_string();
    let one = said("group = 'disks'", "", "");
    assert!(one.contains("`group`: 3 of the 5 drives have one"), "{one}");
    let small = said("group = 'disks'", "group = 'flash'", "copies = 3");
    assert!(small.contains("group `flash` has 2 of the drives; it must have 3"), "{small}");
    let other = said("group = 'a'\ndeadline_us = 5", "group = 'a'\ndeadline_us = 6", "");
    assert!(other.contains("`deadline_us`: another device of this group"), "{other}");
    let zero = said("group = 'a'\ndeadline_us = 0", "group = 'b'", "");
    assert!(zero.contains("`deadline_us` must be from 1"), "{zero}");
    let parallel = said("group = 'a'", "group = 'b'", "parallel = 2");
    assert!(parallel.contains("`parallel` reads are of one group's users"), "{parallel}");
    let number = said("group = 7", "group = 'b'", "");
    assert!(number.contains("expected a string"), "{number}");
}

#[test]
fn settings_replace_keys() {
    let with = |settings: &[&str]| {
        let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
        Comparison::parse_with(COMPLETE, Path::new("/nowhere"), &settings)
    };
    let set = with(&["seeds = [9]", "tuning.most_extra = 0.5", "strategies = ['c3']"]).unwrap();
    assert_eq!((set.seeds.as_slice(), set.entries.len()), (&[9][..], 1));
    assert_eq!((set.tuning.margin, set.tuning.most_extra), (0.2, 0.5), "the other key stays");
    assert!(set.text().ends_with("# --set 'strategies = ['c3']'"), "{}", set.text());
    let said = |setting| with(&[setting]).unwrap_err().to_string();
    assert!(said("seeds").starts_with("--set 'seeds': "), "{}", said("seeds"));
    assert!(said("sed = 1").contains("unknown field `sed`"), "{}", said("sed = 1"));
}

#[test]
fn deadline_is_a_time_or_from_phase_one() {
    let with = |value: &str| parse(&format!("deadline_us = {value}\n{COMPLETE}"));
    assert_eq!(with("2000").unwrap().groups[0].deadline, Some(Nanos::from_millis(2)));
    assert_eq!(with("0.5e3").unwrap().groups[0].deadline, Some(Nanos::from_micros(500)));
    assert_eq!(with("'auto'").unwrap().groups[0].deadline, None);
    assert_eq!(parse(COMPLETE).unwrap().groups[0].deadline, None);
    for wrong in ["0", "-3", "2e9", "nan"] {
        let said = with(wrong).unwrap_err().to_string();
        assert!(said.contains("line 1: `deadline_us` must be from 1 to"), "{said}");
    }
    let said = with("'soon'").unwrap_err().to_string();
    assert!(said.contains("must be a number of µs, or \"auto\""), "{said}");
}
