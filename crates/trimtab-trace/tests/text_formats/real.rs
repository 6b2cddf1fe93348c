//! Real traces, in the folder that `TRIMTAB_TRACES` names.

use std::path::{Path, PathBuf};

use trimtab_io::Op;
use trimtab_trace::{Error, Format, Record, Trace, TraceOptions};

use super::{as_format, drain};

/// Reads a real trace and checks general invariants.
fn read_real(root: &Path, name: &str, format: Format, count: usize) -> Vec<Record> {
    let path = root.join(name);
    let (_, records) =
        drain(Trace::open(&[path], &as_format(format)).unwrap()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(records.len(), count, "{name}");
    assert!(records.is_sorted_by_key(|r| r.arrival), "{name}");
    assert!(records.iter().all(|r| r.complete.is_none_or(|at| at >= r.arrival)), "{name}");
    records
}

#[test]
fn real_traces() {
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Traces]) {
        return;
    }
    let root = PathBuf::from(std::env::var_os("TRIMTAB_TRACES").unwrap());
    let detect = |name: &str| Trace::open(&[root.join(name)], &TraceOptions::default());
    let recognised = |name: &str| detect(name).unwrap_or_else(|e| panic!("{e}")).meta().format;

    for name in ["nvme-replay/nvme-a.csv", "nvme-replay/nvme-b.csv"] {
        assert_eq!(recognised(name), Format::Replay);
        let records = read_real(&root, name, Format::Replay, 50_000);
        assert!(records.iter().all(|r| r.complete.is_some()));
    }
    let name = "workload/cloudphysics.csv";
    assert_eq!(recognised(name), Format::Cloudphysics);
    let records = read_real(&root, name, Format::Cloudphysics, 113_872);
    assert_eq!(records.iter().filter(|r| r.op == Op::Read).count(), 46_974);
    for name in ["hdd/atlas10k.trace", "hdd/barracuda.trace", "hdd/cheetah9LP.trace"] {
        assert_eq!(recognised(name), Format::HddValidation);
        read_real(&root, name, Format::HddValidation, 10_000);
    }
    let candidates = |name: &str| match detect(name) {
        Err(error @ Error::Ambiguous { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(trace) => panic!("{name}: taken for {}", trace.meta().format),
    };
    for name in ["workload/msr-rand-iops.trace", "workload/msr-rw20-80.trace"] {
        let candidates = candidates(name);
        assert!(candidates.contains("cut (") && candidates.contains("disksim-ms ("));
        assert!(!candidates.contains("disksim-ns ("), "{candidates}");
        read_real(&root, name, Format::Cut, 10_000);
    }
    for name in ["workload/tpcc-small.trace", "workload/wsrch-small.trace"] {
        let candidates = candidates(name);
        assert!(candidates.contains("disksim-ns (") && candidates.contains("disksim-ms ("));
        let text = std::fs::read(root.join(name)).unwrap();
        let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).count();
        let records = read_real(&root, name, Format::Disksim, lines);
        assert_eq!(records, read_real(&root, name, Format::DisksimNs, lines));
    }
}
