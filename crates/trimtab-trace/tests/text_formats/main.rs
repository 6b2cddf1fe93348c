//! Text formats: detection by content, exact parsing, and errors with line and column.

use std::path::{Path, PathBuf};

use trimtab_trace::{Error, Format, Record, Trace, TraceOptions};

mod detect;
mod read;
mod real;
mod refuse;

const TEXT: [Format; 14] = [
    Format::Msr,
    Format::Alibaba,
    Format::Tencent,
    Format::FioIolog,
    Format::FioLatency,
    Format::Spc,
    Format::Disksim,
    Format::DisksimNs,
    Format::DisksimMs,
    Format::Biosnoop,
    Format::Replay,
    Format::Cut,
    Format::Cloudphysics,
    Format::HddValidation,
];

/// Every test file, and the formats that its content fits.
const FILES: [(&str, &[Format]); 18] = [
    ("msr.csv", &[Format::Msr]),
    ("alibaba.csv", &[Format::Alibaba]),
    ("tencent.csv", &[Format::Tencent]),
    ("spc.csv", &[Format::Spc]),
    ("disksim_ns.trace", &[Format::DisksimNs, Format::DisksimMs, Format::Cut]),
    ("disksim_ms.trace", &[Format::DisksimMs, Format::Cut]),
    // A step back in time: DiskSim does not allow it.
    ("cut.trace", &[Format::Cut]),
    ("cloudphysics.csv", &[Format::Cloudphysics]),
    ("hdd_validation.trace", &[Format::HddValidation]),
    ("replay.csv", &[Format::Replay]),
    ("biosnoop_bcc.txt", &[Format::Biosnoop]),
    ("biosnoop_bcc_qp.txt", &[Format::Biosnoop]),
    ("biosnoop_libbpf.txt", &[Format::Biosnoop]),
    ("fio_iolog_v2.log", &[Format::FioIolog]),
    ("fio_iolog_v3.log", &[Format::FioIolog]),
    ("fio_plain_lat.1.log", &[Format::FioLatency]),
    ("fio_offset_lat.1.log", &[Format::FioLatency]),
    ("fio_prio_lat.1.log", &[Format::FioLatency]),
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn content(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn as_format(format: Format) -> TraceOptions {
    TraceOptions { format: Some(format), ..TraceOptions::default() }
}

fn drain(mut trace: Trace) -> Result<(Trace, Vec<Record>), Error> {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while trace.read(&mut batch)? {
        all.append(&mut batch);
    }
    Ok((trace, all))
}

fn read_bytes(bytes: &[u8], options: &TraceOptions) -> Result<Vec<Record>, Error> {
    Ok(drain(Trace::from_bytes(bytes, options)?)?.1)
}

fn read_file(name: &str, format: Format) -> (Trace, Vec<Record>) {
    drain(Trace::open(&[path(name)], &as_format(format)).unwrap()).unwrap()
}
