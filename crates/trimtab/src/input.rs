//! Options shared by all commands that read traces.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use trimtab_trace::{Error, Format, Record, Trace, TraceOptions, can_be_read_twice, with_trace};

use crate::exit::Incomplete;
use crate::progress::Progress;
use crate::size;

/// How to read traces.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReadArgs {
    /// Format of the input, if it cannot be detected: parquet, blktrace, blkparse, msr,
    /// alibaba, tencent, fio-iolog, fio-latency, spc, disksim, disksim-ns, disksim-ms,
    /// biosnoop, replay, cut, cloudphysics, hdd-validation.
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Count malformed records and continue; exit with 3 if there were any.
    #[arg(long)]
    skip_bad: bool,
    /// The most space for a decompressed copy of a stream (standard input, a pipe) or of
    /// compressed Parquet: 512M, 64G [default: 16G, or a quarter of the free space for
    /// temporary files]. Text, and blktrace in order, need no copy.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_spool: Option<u64>,
}

/// How many records were skipped, and the error of the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skipped {
    count: u64,
    first: String,
}

impl Skipped {
    /// Adds the skipped records of another trace.
    pub(crate) fn add(&mut self, other: Self) {
        if self.count == 0 {
            self.first = other.first;
        }
        self.count += other.count;
    }

    /// The command's result, once all its output is written: incomplete if anything was
    /// skipped.
    pub(crate) fn into_result(self) -> Result<()> {
        let Self { count, first } = self;
        match count {
            0 => Ok(()),
            1 => Err(Incomplete(format!("skipped 1 malformed record: {first}")).into()),
            _ => {
                Err(Incomplete(format!("skipped {count} malformed records, the first: {first}"))
                    .into())
            }
        }
    }
}

impl ReadArgs {
    /// Runs `work` over one trace (again, if sorting it turns out to need the disk), and
    /// returns its result and what was skipped.
    pub(crate) fn with_trace<T>(
        &self,
        paths: &[PathBuf],
        mut work: impl FnMut(&mut Trace) -> Result<T, Error>,
    ) -> Result<(T, Skipped)> {
        let format = self.format.as_deref().map(str::parse::<Format>).transpose()?;
        let (skip_bad, max_spool) = (self.skip_bad, self.max_spool);
        let options = TraceOptions { format, skip_bad, max_spool, ..TraceOptions::default() };
        Ok(with_trace(paths, &options, |trace| {
            let done = work(trace)?;
            let first = trace.first_skipped().unwrap_or_default().to_owned();
            Ok((done, Skipped { count: trace.skipped(), first }))
        })?)
    }

    /// All records of a trace. A stream may be endless, so its records have a limit in memory
    /// too.
    pub(crate) fn all_records(&self, trace: &mut Trace) -> Result<Vec<Record>, Error> {
        let limit = if can_be_read_twice(trace.path()) {
            u64::MAX
        } else {
            self.max_spool.unwrap_or_else(|| available_memory().map_or(u64::MAX, |all| all / 2))
        };
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        let mut progress = Progress::new();
        while trace.read(&mut batch)? {
            all.extend_from_slice(&batch);
            progress.add(batch.len());
            let kept = size_of_val(&all[..]) as u64;
            if kept > limit {
                return Err(Error::TooLong { path: trace.path().to_owned(), kept, limit });
            }
        }
        Ok(all)
    }
}

/// Available memory, according to the kernel.
pub(crate) fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Groups the files of a command line into traces: per-CPU files of one
/// blktrace recording (`sda.blktrace.0`, `sda.blktrace.1`) belong together,
/// every other file is a trace of its own.
pub(crate) fn group(files: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let mut traces: Vec<Vec<PathBuf>> = Vec::new();
    for file in files {
        let base = blktrace_base(file);
        let same = |trace: &&mut Vec<PathBuf>| base.is_some() && blktrace_base(&trace[0]) == base;
        match traces.iter_mut().find(same) {
            Some(trace) => trace.push(file.clone()),
            None => traces.push(vec![file.clone()]),
        }
    }
    traces
}

/// `sda.blktrace` of `sda.blktrace.3`.
fn blktrace_base(file: &Path) -> Option<&str> {
    let (base, cpu) = file.to_str()?.rsplit_once('.')?;
    (base.ends_with(".blktrace") && cpu.parse::<u32>().is_ok()).then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cpu_files_are_one_trace() {
        let files = ["a.csv", "x.blktrace.0", "b.csv", "x.blktrace.1", "y.blktrace.0", "a.csv"];
        let traces = group(&files.map(PathBuf::from));
        let sizes: Vec<_> = traces.iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 2, 1, 1, 1]);
    }
}
