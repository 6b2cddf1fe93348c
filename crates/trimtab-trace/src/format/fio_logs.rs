//! The type of a fio log.
//!
//! fio writes latencies, bandwidths and IOPS in the same columns: only the meaning of the second
//! differs (HOWTO, "Log File Formats"), and the same numbers are plausible as nanoseconds and as
//! KiB/s. The logs are distinguished by the names that fio gives them: `PREFIX_lat.1.log`, `_clat`,
//! `_slat`, `_bw` and `_iops`. A file with another name is ambiguous, with one exception: an IOPS
//! log of single requests has a 1 in each line.

use std::path::Path;

use super::Format;
use super::fio_latency::FioLatency;
use crate::error::Error;
use crate::fields::{parse_u64, split_up_to};
use crate::input::complete_lines;
use crate::names::Names;
use crate::source::{LineParser, is_blank};

/// Content of a fio log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FioLogKind {
    /// `lat` and `clat`: from submission or issue to completion.
    Latency,
    /// `slat`: from submission to issue, without the completion.
    Submission,
    Bandwidth,
    Iops,
}

/// Lines examined.
const LINES: usize = 256;
/// A shorter IOPS log might be a latency log after all.
const MIN_ONES: usize = 4;

impl FioLogKind {
    /// The type according to fio's file name: the last of `lat`, `bw` and so on between `_` or the
    /// beginning, and `.` or the end.
    pub(super) fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let word = |text: &str| match text {
            "lat" | "clat" => Some(Self::Latency),
            "slat" => Some(Self::Submission),
            "bw" => Some(Self::Bandwidth),
            "iops" => Some(Self::Iops),
            _ => None,
        };
        name.split('.').rev().find_map(|part| word(part.rsplit('_').next().unwrap_or(part)))
    }

    /// Why this is not a trace of requests with latencies.
    const fn fault(self) -> Option<&'static str> {
        match self {
            Self::Latency => None,
            Self::Submission => Some("submission latencies (slat), which end before the requests"),
            Self::Bandwidth => Some("bandwidths in KiB/s (bw), not latencies"),
            Self::Iops => Some("rates (iops), not latencies"),
        }
    }
}

/// Whether a text has the columns of fio's logs. Its last line may be cut off.
pub(super) fn looks_like(sample: &[u8]) -> bool {
    let Some(line) = lines(sample).next() else { return false };
    let Ok((fields, count @ 4..)) = split_up_to::<7>(line, b',') else { return false };
    let number = |field: &&[u8]| field.strip_prefix(b" ").is_some_and(|n| parse_u64(n).is_some());
    parse_u64(fields[0]).is_some()
        && fields[1..4].iter().all(number)
        && matches!(fields[2], b" 0" | b" 1" | b" 2")
        && fields[4..count].iter().all(|field| field.starts_with(b" "))
}

/// Refuses a log without latencies: by its name, or because every value is 1. Accepts anything that
/// is not a fio log.
pub(crate) fn refuse_others(path: &Path, sample: &[u8], whole: bool) -> Result<(), Error> {
    if !looks_like(sample) {
        return Ok(());
    }
    let unrecognised = |why: String| Err(Error::Unrecognised { path: path.to_owned(), why });
    const INSTEAD: &str = "give fio's lat or clat log (write_lat_log)";
    if let Some(fault) = FioLogKind::of_name(path).and_then(FioLogKind::fault) {
        return unrecognised(format!("is by its name a fio log of {fault}; {INSTEAD}"));
    }
    let complete = complete_lines(sample, whole).into_inner();
    let value = |line| split_up_to::<7>(line, b',').map_or(&b""[..], |(fields, _)| fields[1]);
    let mut ones = lines(complete).map(value);
    if lines(complete).count() >= MIN_ONES && ones.all(|value| value == b" 1") {
        return unrecognised(format!(
            "has a value of 1 in each line, as fio's IOPS log; {INSTEAD}"
        ));
    }
    Ok(())
}

/// The error for a possible fio log whose name does not tell its type, with the other formats that
/// fit.
pub(super) fn ambiguous(path: &Path, fitting: &[Format]) -> Error {
    let mut candidates = "fio-latency (fio log of latencies in ns, as in NAME_lat.1.log or \
                      NAME_clat.1.log); or fio's bandwidth, IOPS or slat log, which have the same \
                      columns and cannot be read as requests"
        .to_owned();
    for format in fitting.iter().filter(|format| **format != Format::FioLatency) {
        candidates += &format!("; {format} ({})", format.describe());
    }
    Error::Ambiguous { path: path.to_owned(), candidates }
}

/// The first non-blank lines.
fn lines(sample: &[u8]) -> impl Iterator<Item = &[u8]> {
    sample.split(|&b| b == b'\n').map(<[u8]>::trim_ascii_end).filter(|l| !is_blank(l)).take(LINES)
}

/// Whether a latency log's lines have a column for the offset (fio's
/// `log_offset`).
pub(crate) fn has_offset_column(sample: &[u8]) -> bool {
    let mut parser = FioLatency::default();
    let (mut names, mut out) = (Names::default(), Vec::new());
    // The last line may be truncated; reading reports errors.
    for line in lines(sample) {
        let _ = parser.line(line, &mut names, &mut out);
    }
    parser.has_offset()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_kind_follows_fios_names() {
        for (name, kind) in [
            ("a/job_lat.1.log", Some(FioLogKind::Latency)),
            ("bw_test_clat.12.log.gz", Some(FioLogKind::Latency)),
            ("lat.log", Some(FioLogKind::Latency)),
            ("x_slat.1.log", Some(FioLogKind::Submission)),
            ("lat_bw.log", Some(FioLogKind::Bandwidth)),
            ("my.job_iops.3.log.zst", Some(FioLogKind::Iops)),
            ("flat.1.log", None),
            ("results.csv", None),
            ("job_bw/1.log", None),
            ("-", None),
        ] {
            assert_eq!(FioLogKind::of_name(Path::new(name)), kind, "{name}");
        }
    }

    #[test]
    fn fio_columns_are_detected() {
        for log in ["0, 1, 0, 4096", "\n500, 60512, 1, 0, 0\n50", "0, 9, 2, 4096, 0x4001, 7"] {
            assert!(looks_like(log.as_bytes()), "{log}");
        }
        for other in ["0,1,0,4096", "0, 9, 3, 4096", "x, 9, 0, 4096", "0, 9, 0", "", "a"] {
            assert!(!looks_like(other.as_bytes()), "{other}");
        }
    }
}
