//! Trace formats, and their detection by content.

use std::fmt;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Position};
use crate::fields::show;
use crate::input::{Input, complete_lines};
use crate::names::Names;
use crate::source::{LineParser, Lines, Source, is_blank};

pub(crate) use self::fio_logs::{has_offset_column, refuse_others};

mod alibaba;
mod backdate;
mod biosnoop;
mod blkparse;
pub(crate) mod blktrace;
mod cloudphysics;
mod cut;
mod disksim;
mod fio_iolog;
mod fio_latency;
mod fio_logs;
mod hdd_validation;
pub(crate) mod msr;
pub(crate) mod parquet;
mod replay;
mod spc;
mod tencent;

/// A trace format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// The native format: docs/trace-format.md.
    Parquet,
    /// Binary output of blktrace, one file per CPU or merged.
    Blktrace,
    /// Default text output of blkparse.
    Blkparse,
    /// MSR Cambridge CSV.
    Msr,
    /// Alibaba block-store CSV.
    Alibaba,
    /// Tencent block-store CSV.
    Tencent,
    /// fio's I/O log, versions 2 and 3.
    FioIolog,
    /// fio's latency logs: lat and clat.
    FioLatency,
    /// UMass/SPC.
    Spc,
    /// DiskSim's five columns; times with decimals are ms, whole ones ns.
    Disksim,
    /// DiskSim's five columns, times in ns.
    DisksimNs,
    /// DiskSim's five columns, times in ms.
    DisksimMs,
    /// Text output of bcc's biosnoop.
    Biosnoop,
    /// Replayed requests with measured latencies, seven columns.
    Replay,
    /// Cuts of server traces, five columns.
    Cut,
    /// CloudPhysics CSV.
    Cloudphysics,
    /// Disk-drive validation traces: service times and gaps.
    HddValidation,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Parquet,
        Self::Blktrace,
        Self::Blkparse,
        Self::Msr,
        Self::Alibaba,
        Self::Tencent,
        Self::FioIolog,
        Self::FioLatency,
        Self::Spc,
        Self::Disksim,
        Self::DisksimNs,
        Self::DisksimMs,
        Self::Biosnoop,
        Self::Replay,
        Self::Cut,
        Self::Cloudphysics,
        Self::HddValidation,
    ];

    /// The name that `--format` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Blktrace => "blktrace",
            Self::Blkparse => "blkparse",
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::FioIolog => "fio-iolog",
            Self::FioLatency => "fio-latency",
            Self::Spc => "spc",
            Self::Disksim => "disksim",
            Self::DisksimNs => "disksim-ns",
            Self::DisksimMs => "disksim-ms",
            Self::Biosnoop => "biosnoop",
            Self::Replay => "replay",
            Self::Cut => "cut",
            Self::Cloudphysics => "cloudphysics",
            Self::HddValidation => "hdd-validation",
        }
    }

    /// The format's columns, in one line.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Parquet => "the native format",
            Self::Blktrace => "blktrace's binary output",
            Self::Blkparse => "blkparse's default text output",
            Self::Msr => "filetime, host, disk, Read|Write, offset B, size B, response 100 ns",
            Self::Alibaba => "device, R|W, offset B, length B, time µs",
            Self::Tencent => "time s, offset sectors, size sectors, 0 read|1 write, volume",
            Self::FioIolog => "fio I/O log, version 2 or 3",
            Self::FioLatency => {
                "fio lat or clat log: time ms, latency ns, direction, size B[, offset B]"
            }
            Self::Spc => "ASU, LBA sectors, size B, R|W, time s",
            Self::Disksim => "time, device, sector, sectors, 1 read|0 write; decimals: ms, else ns",
            Self::DisksimNs => "time ns, device, sector, sectors, 1 read|0 write",
            Self::DisksimMs => "time ms, device, sector, sectors, 1 read|0 write",
            Self::Biosnoop => "bcc biosnoop's text output",
            Self::Replay => {
                "time ms, latency µs, 1 read|0 write, bytes, offset B, submit ms, result"
            }
            Self::Cut => "time ms, device, offset B, bytes, 1 read|0 write",
            Self::Cloudphysics => "version, time s, SCSI opcode, bytes, sector; with a header",
            Self::HddValidation => "R|W, Hit|Miss, sector, sectors, service µs, gap µs",
        }
    }

    /// Whether records may be out of arrival order, as in logs written at completion. In the other
    /// formats a step back is an error, which the parser reports with its line.
    pub(crate) const fn needs_sorting(self) -> bool {
        !matches!(
            self,
            Self::Parquet
                | Self::Spc
                | Self::Disksim
                | Self::DisksimNs
                | Self::DisksimMs
                | Self::FioIolog
                | Self::HddValidation
        )
    }

    /// Whether a request's times may come from slightly different clocks.
    pub(crate) const fn has_a_clock_per_cpu(self) -> bool {
        matches!(self, Self::Blktrace | Self::Blkparse)
    }

    /// Whether times count from the Unix epoch rather than from the start.
    pub(crate) const fn counts_from_unix_epoch(self) -> bool {
        matches!(self, Self::Msr | Self::Alibaba | Self::Tencent)
    }

    /// Detects an input's format by its content.
    pub(crate) fn detect(input: &Input) -> Result<Self, Error> {
        if parquet::looks_like(&input.sample) {
            return Ok(Self::Parquet);
        }
        if blktrace::looks_like(&input.sample) {
            return Ok(Self::Blktrace);
        }
        let unrecognised = |why: String| Error::Unrecognised { path: input.path.clone(), why };
        if input.sample.starts_with(crate::recording_spool::MAGIC) {
            let file = input.path.display();
            return Err(unrecognised(format!(
                "is what a recording has left behind: `trimtab trace recover {file}` makes a trace of it"
            )));
        }
        if input.sample.contains(&0) {
            return Err(unrecognised(
                "is a binary file, but neither parquet nor blktrace".to_owned(),
            ));
        }
        let Some(first) = input.sample.split(|&b| b == b'\n').position(|line| !is_blank(line))
        else {
            return Err(unrecognised("has only blank lines, expected a trace".to_owned()));
        };
        refuse_others(&input.path, &input.sample, input.whole)?;
        let of_fio = fio_logs::looks_like(&input.sample);
        if of_fio && fio_logs::FioLogKind::of_name(&input.path).is_some() {
            return Ok(Self::FioLatency);
        }
        let trials: Vec<_> =
            Self::ALL.into_iter().filter_map(|f| Some((f, f.try_on(input)?))).collect();
        let those = |fits: &dyn Fn(&ParseTrial) -> bool| -> Vec<Self> {
            trials.iter().filter(|(_, trial)| fits(trial)).map(|(format, _)| *format).collect()
        };
        // The best match is a format that fits the whole sample: with records, or (an empty log)
        // without. Otherwise the one that fits furthest, even if only its header: the user needs
        // its error about the rest.
        let mut fitting = those(&|t| t.bad_line.is_none() && t.records > 0);
        if fitting.is_empty() {
            fitting = those(&|t| t.bad_line.is_none());
        }
        if fitting.is_empty() {
            let furthest = trials.iter().filter_map(|(_, t)| t.bad_line).max().unwrap_or(0);
            if furthest > first as u64 + 1 {
                fitting = those(&|t| t.bad_line == Some(furthest));
            }
        }
        match fitting[..] {
            _ if of_fio => Err(fio_logs::ambiguous(&input.path, &fitting)),
            [format] => Ok(format),
            [] => {
                let line = input.sample.split(|&b| b == b'\n').nth(first).unwrap_or_default();
                let names: Vec<_> = Self::ALL.iter().map(|f| f.name()).collect();
                Err(unrecognised(format!(
                    "is in no known trace format (its first line is {}); known are {}",
                    show(line.trim_ascii_end()),
                    names.join(", ")
                )))
            }
            _ => {
                let candidates: Vec<_> =
                    fitting.iter().map(|f| format!("{f} ({})", f.describe())).collect();
                let candidates = candidates.join("; ");
                Err(Error::Ambiguous { path: input.path.clone(), candidates })
            }
        }
    }

    /// How far this text format's parser gets in the sample; `None` for binary formats, and for
    /// `disksim`, which stands for its two units.
    fn try_on(self, input: &Input) -> Option<ParseTrial> {
        const DECISIVE_LINES: usize = 256;
        if self == Self::Disksim {
            return None;
        }
        let sample = complete_lines(&input.sample, input.whole);
        let mut source = self.text_source(sample, &input.path)?;
        let (mut names, mut records) = (Names::default(), Vec::new());
        let mut error = None;
        while records.len() < DECISIVE_LINES && error.is_none() {
            match source.fill(&mut names, &mut records) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => error = Some(e),
            }
        }
        Some(ParseTrial { records: records.len(), bad_line: error.map(|e| e.line().unwrap_or(0)) })
    }

    /// The reader for this format, if it is a text format.
    pub(crate) fn text_source<'a, R: BufRead + Send + 'a>(
        self,
        reader: R,
        path: &Path,
    ) -> Option<Box<dyn Source + Send + 'a>> {
        fn lines<'a, R: BufRead + Send + 'a, P: LineParser + Send + 'a>(
            reader: R,
            parser: P,
            path: &Path,
        ) -> Box<dyn Source + Send + 'a> {
            Box::new(Lines::new(reader, parser, PathBuf::from(path)))
        }
        Some(match self {
            Self::Parquet | Self::Blktrace => return None,
            Self::Blkparse => lines(reader, blkparse::Blkparse::default(), path),
            Self::Msr => lines(reader, msr::Msr::default(), path),
            Self::Alibaba => lines(reader, alibaba::Alibaba, path),
            Self::Tencent => lines(reader, tencent::Tencent, path),
            Self::FioIolog => lines(reader, fio_iolog::FioIolog::default(), path),
            Self::FioLatency => lines(reader, fio_latency::FioLatency::default(), path),
            Self::Spc => lines(reader, spc::Spc::default(), path),
            Self::Disksim => lines(reader, disksim::Disksim::by_decimals(), path),
            Self::DisksimNs => lines(reader, disksim::Disksim::in_ns(), path),
            Self::DisksimMs => lines(reader, disksim::Disksim::in_ms(), path),
            Self::Biosnoop => lines(reader, biosnoop::Biosnoop::default(), path),
            Self::Replay => lines(reader, replay::Replay, path),
            Self::Cut => lines(reader, cut::Cut, path),
            Self::Cloudphysics => lines(reader, cloudphysics::Cloudphysics::default(), path),
            Self::HddValidation => lines(reader, hdd_validation::HddValidation::default(), path),
        })
    }
}

/// A parser's result for a sample.
struct ParseTrial {
    /// Records parsed before the first error.
    records: usize,
    /// The line of the first error, if there was one.
    bad_line: Option<u64>,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|f| f.name()).collect();
            Error::Usage(format!("no format is called `{name}`; known are {}", names.join(", ")))
        })
    }
}

impl Error {
    /// The line of a [`Error::Malformed`] in text.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Malformed { at: Position::Line(line), .. } => Some(*line),
            _ => None,
        }
    }
}
