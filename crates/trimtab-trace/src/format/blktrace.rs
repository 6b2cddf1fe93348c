//! blktrace's binary output: block-layer events.
//!
//! blktrace writes one file per CPU (`sda.blktrace.0`, `.1`, …); `blkparse -d`
//! merges them into one. A request's events are scattered over the CPUs, so
//! that the files are merged by time before the events are [paired](pairing)
//! into requests:
//!
//! ```text
//!   sda.blktrace.0 ─ decode ─ sort a window ─┐
//!   sda.blktrace.1 ─ decode ─ sort a window ─┴─ merge ─ pair ─ records
//! ```
//!
//! Times count from the earliest event, as blkparse prints them. Requests that bypass the block
//! layer's addressing (SCSI and NVMe pass-through) are skipped: their sectors have no meaning.
//!
//! Sources: include/uapi/linux/blktrace_api.h; blktrace(8); blkparse(1).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use trimtab_io::Nanos;

use self::binary::Processes;
use self::file::EventFile;
use self::pairing::Pairing;
use crate::error::Error;
use crate::input::Input;
use crate::names::Names;
use crate::record::Record;
use crate::source::{BATCH, Source};

mod binary;
pub(super) mod event;
mod fifos;
mod file;
mod flushes;
pub(super) mod pairing;

/// Events held back for sorting, over all files: enough for a stream in which eight CPUs' buffers
/// of 512 KiB alternate. Up to 4 MB.
const WINDOW: usize = 1 << 16;
/// Minimum per file, for jitter on one CPU.
const MIN_WINDOW: usize = 256;

/// Whether a file starts like blktrace's output.
pub(crate) fn looks_like(sample: &[u8]) -> bool {
    binary::looks_like(sample)
}

/// Expands a base name (`sda` or `sda.blktrace`) to its per-CPU files, without the empty ones,
/// which blktrace writes for idle CPUs.
pub(crate) fn with_siblings(paths: &[PathBuf]) -> Vec<PathBuf> {
    let all: Vec<_> = paths.iter().flat_map(|path| siblings(path)).collect();
    let with_content =
        |path: &&PathBuf| path.metadata().map_or(true, |m| !m.is_file() || m.len() > 0);
    let full: Vec<_> = all.iter().filter(with_content).cloned().collect();
    if full.is_empty() { all } else { full }
}

fn siblings(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let with_suffix = || {
        let mut name = path.as_os_str().to_owned();
        name.push(".blktrace");
        PathBuf::from(name)
    };
    for base in [path.to_owned(), with_suffix()] {
        let files = numbered(&base);
        if !files.is_empty() {
            return files;
        }
    }
    vec![path.to_owned()]
}

/// The existing files `base.0`, `base.1`, …, in order of their numbers.
fn numbered(base: &Path) -> Vec<PathBuf> {
    let Some(name) = base.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let folder = match base.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let file = entry.file_name();
            let number = file.to_str()?.strip_prefix(name)?.strip_prefix('.')?;
            Some((number.parse().ok()?, base.with_file_name(&file)))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// Opens the files of one recording together.
pub(crate) fn open(inputs: &[Input]) -> Result<Box<dyn Source + Send>, Error> {
    let window = (WINDOW / inputs.len()).max(MIN_WINDOW);
    let file = |input: &Input| Ok(EventFile::new(input.content()?, input.path.clone(), window));
    let files = inputs.iter().map(file).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(Recording::new(files)))
}

/// The files of one recording, merged and paired.
struct Recording {
    files: Vec<EventFile>,
    /// Time of each file's next event. A file that is neither here nor in `unread` is at its end.
    heads: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Files that may have a next event.
    unread: Vec<usize>,
    processes: Processes,
    pairing: Pairing,
    /// The earliest record's time.
    origin: Option<Nanos>,
    ended: bool,
}

impl Recording {
    fn new(files: Vec<EventFile>) -> Self {
        Self {
            heads: BinaryHeap::new(),
            unread: (0..files.len()).rev().collect(),
            files,
            processes: Processes::default(),
            pairing: Pairing::default(),
            origin: None,
            ended: false,
        }
    }

    /// Makes sure that every file takes part in the merge.
    fn prime_merge(&mut self, names: &mut Names) -> Result<(), Error> {
        while let Some(&index) = self.unread.last() {
            // On an error the file stays unread, and is tried again.
            let events = self.files[index].ready(names, &mut self.processes)?;
            if let Some(event) = events.first() {
                self.heads.push(Reverse((event.time, index)));
            }
            self.unread.pop();
        }
        Ok(())
    }

    /// Takes the earliest event, and those behind it in the same file up to the next file's time.
    fn take_run(&mut self, out: &mut Vec<Record>, enough: usize) -> bool {
        let Some(Reverse((first, index))) = self.heads.pop() else { return false };
        let origin = *self.origin.get_or_insert_with(|| {
            self.files.iter().filter_map(EventFile::earliest).min().unwrap_or(first)
        });
        let until = self.heads.peek().map_or(Nanos::MAX, |&Reverse((time, _))| time);
        let events = self.files[index].held();
        let mut taken = 0;
        for event in events {
            if taken > 0 && (event.time > until || out.len() >= enough) {
                break;
            }
            taken += 1;
            let command =
                event.action.tells_submitter().then(|| self.processes.command(event.pid)).flatten();
            let event = event::Event { time: event.time.since(origin), ..*event };
            self.pairing.event(&event, command, out);
        }
        match events.get(taken) {
            Some(event) => self.heads.push(Reverse((event.time, index))),
            None => self.unread.push(index),
        }
        self.files[index].consume(taken);
        true
    }
}

impl Source for Recording {
    fn fill(&mut self, names: &mut Names, out: &mut Vec<Record>) -> Result<bool, Error> {
        let enough = out.len() + BATCH;
        while out.len() < enough && !self.ended {
            self.prime_merge(names)?;
            if !self.take_run(out, enough) {
                self.pairing.end(out);
                self.ended = true;
            }
        }
        Ok(!self.ended)
    }
}
