//! Reads traces of any format: records in arrival order, in constant memory.

use std::path::{Path, PathBuf};

use trimtab_io::Nanos;

use crate::error::Error;
use crate::format::{Format, blktrace, has_offset_column, parquet, refuse_others};
use crate::input::{Input, can_be_read_twice};
use crate::names::Names;
use crate::record::Record;
use crate::sort::{BeyondWindow, SpillSort, WINDOW, WindowSort};
use crate::source::{BATCH, Source};
use crate::spool::{SpoolLimit, write_error};

/// Options of reading a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// The format; `None` to detect it by content.
    pub format: Option<Format>,
    /// Skips and counts malformed records, instead of stopping at the first.
    pub skip_bad: bool,
    /// How records are sorted.
    pub sorting: Sorting,
    /// Limit of bytes spooled to temporary files, where the input is a stream or has to be
    /// decompressed as a whole. `None`: 16 GiB, or a quarter of the free space there if that is
    /// less.
    pub max_spool: Option<u64>,
}

/// How records are brought into arrival order, in formats that need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sorting {
    /// Within a window of 65,536 records, in memory. Wider disorder is
    /// [`Error::BeyondWindow`].
    #[default]
    Window,
    /// Any disorder, with a temporary file for what exceeds memory. The first record is available
    /// only after the last was read.
    Spill,
}

/// The origin of a trace's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The Unix epoch.
    Unix,
    /// An unknown origin, usually the trace's start.
    Own,
}

/// Properties of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its format.
    pub format: Format,
    /// The origin of its times.
    pub clock: Clock,
    /// Whether offsets were recorded (some latency logs lack them; their
    /// offsets read as 0).
    pub has_offsets: bool,
    /// Key-value notes of its writer; only the native format has them.
    pub notes: Vec<(String, String)>,
}

/// An open trace.
///
/// ```no_run
/// use trimtab_trace::{TraceOptions, Trace};
///
/// # fn main() -> Result<(), trimtab_trace::Error> {
/// let mut trace = Trace::open(&["usr_0.csv.gz".into()], &TraceOptions::default())?;
/// let mut batch = Vec::new();
/// let mut bytes = 0;
/// while trace.read(&mut batch)? {
///     bytes += batch.iter().map(|record| record.length).sum::<u64>();
/// }
/// println!("{bytes} bytes on {} devices", trace.names().devices().count());
/// # Ok(())
/// # }
/// ```
pub struct Trace {
    source: Box<dyn Source + Send>,
    order: Order,
    incoming: Vec<Record>,
    names: Names,
    meta: Meta,
    path: PathBuf,
    skip_bad: bool,
    skipped: u64,
    first_skipped: Option<String>,
    /// Memory limit for sorting a stream's records.
    limit: Option<SpoolLimit>,
    ended: bool,
}

enum Order {
    /// The source yields records in order, or reports an error.
    AsIs,
    /// The source should yield records in order, but does not check.
    Checked {
        last: Nanos,
        count: u64,
    },
    Window(WindowSort),
    Spill {
        sorter: SpillSort,
        full: bool,
    },
}

/// Records that [`Sorting::Spill`] keeps in memory: 20 MB.
const SPILL_CAPACITY: usize = 1 << 18;

impl Trace {
    /// Opens a trace: one file (`-` is standard input), or the per-CPU files of
    /// one blktrace recording.
    ///
    /// # Errors
    /// The file cannot be opened, or its format is unknown or ambiguous.
    pub fn open(paths: &[PathBuf], options: &TraceOptions) -> Result<Self, Error> {
        let paths = blktrace::with_siblings(paths);
        let Some(path) = paths.first() else {
            return Err(Error::Usage("no trace was named".to_owned()));
        };
        let inputs = paths.iter().map(|p| Input::open(p)).collect::<Result<Vec<_>, _>>()?;
        Self::of(&inputs, path, options)
    }

    /// Opens a trace in memory, compressed or not.
    ///
    /// # Errors
    /// The format is unknown or ambiguous.
    pub fn from_bytes(bytes: &[u8], options: &TraceOptions) -> Result<Self, Error> {
        let input = Input::from_bytes(bytes)?;
        let path = input.path.clone();
        Self::of(&[input], &path, options)
    }

    fn of(inputs: &[Input], path: &Path, options: &TraceOptions) -> Result<Self, Error> {
        let format = match options.format {
            Some(format) => format,
            None => Format::detect(&inputs[0])?,
        };
        if format == Format::FioLatency {
            refuse_others(&inputs[0].path, &inputs[0].sample, inputs[0].whole)?;
        }
        if inputs.len() > 1 && format != Format::Blktrace {
            return Err(Error::Usage(format!(
                "{}: only blktrace recordings consist of several files, this is {format}",
                path.display()
            )));
        }
        let mut meta = Meta {
            format,
            clock: if format.counts_from_unix_epoch() { Clock::Unix } else { Clock::Own },
            has_offsets: true,
            notes: Vec::new(),
        };
        let input = &inputs[0];
        let limit = SpoolLimit::new(options.max_spool);
        let source = match format {
            // Checked before all of it is spooled to read its end.
            Format::Parquet if input.is_stream() && !parquet::looks_like(&input.sample) => {
                let why = "does not begin as a Parquet file does".to_owned();
                return Err(Error::Unrecognised { path: path.to_owned(), why });
            }
            Format::Parquet => parquet::open(input, limit, &mut meta)?,
            Format::Blktrace => blktrace::open(inputs)?,
            text => {
                meta.has_offsets = text != Format::FioLatency || has_offset_column(&input.sample);
                text.text_source(input.content()?, path).expect("all others are text formats")
            }
        };
        let order = match options.sorting {
            Sorting::Window if format.needs_sorting() => Order::Window(WindowSort::new(WINDOW)),
            Sorting::Window if format == Format::Parquet => {
                Order::Checked { last: Nanos::ZERO, count: 0 }
            }
            Sorting::Window => Order::AsIs,
            // Their parsers report a step back as an error: no sorting is needed.
            Sorting::Spill if !format.needs_sorting() && format != Format::Parquet => Order::AsIs,
            Sorting::Spill => Order::Spill { sorter: SpillSort::new(SPILL_CAPACITY), full: false },
        };
        Ok(Self {
            source,
            order,
            incoming: Vec::new(),
            names: Names::default(),
            meta,
            path: path.to_owned(),
            skip_bad: options.skip_bad,
            skipped: 0,
            first_skipped: None,
            limit: inputs.iter().any(Input::is_stream).then_some(limit),
            ended: false,
        })
    }

    /// Replaces the content of `batch` with the next records, in arrival order; returns false, with
    /// an empty batch, at the end.
    ///
    /// # Errors
    /// The file cannot be read, or violates its format.
    pub fn read(&mut self, batch: &mut Vec<Record>) -> Result<bool, Error> {
        batch.clear();
        while batch.is_empty() && !self.ended {
            self.advance(batch)?;
        }
        Ok(!batch.is_empty())
    }

    fn advance(&mut self, out: &mut Vec<Record>) -> Result<(), Error> {
        match &mut self.order {
            Order::AsIs => {
                self.ended = !self.read_skipping_bad(out)?;
            }
            Order::Checked { .. } => {
                self.ended = !self.read_skipping_bad(out)?;
                let Order::Checked { last, count } = &mut self.order else { unreachable!() };
                let step_back = out.iter().position(|record| {
                    let earlier = record.arrival < *last;
                    *last = record.arrival;
                    earlier
                });
                if let Some(i) = step_back {
                    out.truncate(i);
                    return Err(Error::BeyondWindow {
                        path: self.path.clone(),
                        record: *count + i as u64 + 1,
                        window: 0,
                    });
                }
                *count += out.len() as u64;
            }
            Order::Window(_) => {
                let mut incoming = std::mem::take(&mut self.incoming);
                let more = self.read_skipping_bad(&mut incoming)?;
                let Order::Window(sorter) = &mut self.order else { unreachable!() };
                sorter.push(&mut incoming, out).map_err(|BeyondWindow(record)| {
                    Error::BeyondWindow { path: self.path.clone(), record, window: WINDOW }
                })?;
                self.incoming = incoming;
                if !more {
                    sorter.finish(out);
                    self.ended = true;
                }
            }
            Order::Spill { full: true, sorter } => {
                let more = sorter.drain(BATCH, out);
                self.ended = !more.map_err(|e| write_error(&e))?;
            }
            Order::Spill { .. } => {
                let mut incoming = std::mem::take(&mut self.incoming);
                loop {
                    let more = self.read_skipping_bad(&mut incoming)?;
                    let Order::Spill { sorter, full } = &mut self.order else { unreachable!() };
                    for record in incoming.drain(..) {
                        sorter.push(record).map_err(|e| write_error(&e))?;
                    }
                    if let Some(limit) = self.limit {
                        limit.check(&self.path, sorter.spilled_bytes())?;
                    }
                    if !more {
                        *full = true;
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads from the source, skipping bad records if requested.
    fn read_skipping_bad(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        let known = out.len();
        let result = self.read_source(out);
        if self.meta.format.has_a_clock_per_cpu() {
            out[known..].iter_mut().for_each(Record::enforce_time_order);
        }
        result
    }

    fn read_source(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        loop {
            match self.source.fill(&mut self.names, out) {
                Err(e @ Error::Malformed { .. }) if self.skip_bad => {
                    self.skipped += 1;
                    self.first_skipped.get_or_insert_with(|| e.to_string());
                }
                result => return result,
            }
        }
    }

    /// The device and command names so far.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// The trace's properties.
    #[must_use]
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file's path; the first one's, where there are several.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of malformed records skipped, with [`TraceOptions::skip_bad`].
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The error of the first skipped record.
    #[must_use]
    pub fn first_skipped(&self) -> Option<&str> {
        self.first_skipped.as_deref()
    }
}

/// Runs `work` over a trace, and once more with [`Sorting::Spill`] if its records are too far out
/// of order for a window. Standard input and pipes, which cannot be read again, are spilled from
/// the beginning.
///
/// # Errors
/// As [`Trace::open`] and [`Trace::read`], and those of `work`.
pub fn with_trace<T>(
    paths: &[PathBuf],
    options: &TraceOptions,
    mut work: impl FnMut(&mut Trace) -> Result<T, Error>,
) -> Result<T, Error> {
    let spill = TraceOptions { sorting: Sorting::Spill, ..options.clone() };
    if !paths.iter().all(|path| can_be_read_twice(path)) {
        return work(&mut Trace::open(paths, &spill)?);
    }
    match work(&mut Trace::open(paths, options)?) {
        Err(Error::BeyondWindow { .. }) => work(&mut Trace::open(paths, &spill)?),
        result => result,
    }
}
