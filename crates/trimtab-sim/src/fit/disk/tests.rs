use std::path::Path;

use trimtab_io::Op;
use trimtab_trace::Record;

use super::*;

/// The recordings of real disks; `None`, with a note, without them.
fn real(name: &str) -> Option<Vec<Record>> {
    let Some(root) = std::env::var_os("TRIMTAB_TRACES") else {
        eprintln!("skipped: TRIMTAB_TRACES is not set");
        return None;
    };
    let path = Path::new(&root).join("hdd").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let mut complete = 0.0;
    let time = |us: f64| trimtab_io::Nanos((us * 1e3).round() as u64);
    let records = text.lines().map(|line| {
        let f: Vec<_> = line.split_whitespace().collect();
        let number = |i: usize| f[i].parse::<f64>().unwrap();
        let issue = complete + number(5);
        complete = issue + number(4);
        let op = if f[0] == "R" { Op::Read } else { Op::Write };
        let (offset, length) = (number(2) as u64 * 512, number(3) as u64 * 512);
        let device = trimtab_io::DeviceId(0);
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
        if let Some(out) = std::env::var_os("FIT_OUT") {
            std::fs::write(Path::new(&out).join(name), fitted.profile.to_toml()).unwrap();
        }
        println!(
            "{name} {:?} {} halves {}",
            fitted.rotation_resultant, fitted.rotation_pairs, fitted.halves
        );
        for (half, classes) in [("first", &fitted.first_half), ("second", &fitted.second_half)] {
            for class in classes {
                println!("{half} {class:?}");
            }
        }
        assert!(fitted.second_half[0].demerit < 0.05, "{name}: {:?}", fitted.second_half[0]);
    }
}
