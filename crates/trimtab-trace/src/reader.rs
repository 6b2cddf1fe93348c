//! Reading a trace, whatever its format: records in arrival order, in constant
//! memory.

use std::path::{Path, PathBuf};

use trimtab_io::Nanos;

use crate::error::Error;
use crate::format::{Format, blktrace, has_offset_column, parquet, refuse_others};
use crate::input::{Input, can_be_read_twice};
use crate::names::Names;
use crate::record::Record;
use crate::sort::{SpillSort, TooLate, WINDOW, WindowSort};
use crate::source::{BATCH, Source};
use crate::spool::{SpoolLimit, write_error};

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format, or `None` to recognise it by content.
    pub format: Option<Format>,
    /// Count malformed records and go on, instead of stopping at the first.
    pub skip_bad: bool,
    /// How to bring records into order.
    pub sorting: Sorting,
    /// The most bytes that may be kept in temporary files, where the input is a stream or
    /// has to be decompressed as a whole. None: 16 GiB, or a quarter of the free space
    /// there if that is less.
    pub max_spool: Option<u64>,
}

/// How records are brought into arrival order, in formats that need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sorting {
    /// Within a window of 65,536 records, in memory. Wider disorder is
    /// [`Error::BeyondWindow`].
    #[default]
    Window,
    /// Any disorder, with a temporary file for what does not fit into memory.
    /// The first record comes only after the last was read.
    Spill,
}

/// What a trace's times count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The Unix epoch.
    Unix,
    /// An origin that the trace does not tell, usually its own start.
    Own,
}

/// What is known of a trace as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The format in which it stands.
    pub format: Format,
    /// What its times count from.
    pub clock: Clock,
    /// Whether offsets were recorded (some latency logs lack them; their
    /// offsets read as 0).
    pub has_offsets: bool,
    /// What its writer noted beside the records, as key and value; only the
    /// native format has this.
    pub notes: Vec<(String, String)>,
}

/// An open trace.
///
/// ```no_run
/// use trimtab_trace::{Options, Trace};
///
/// # fn main() -> Result<(), trimtab_trace::Error> {
/// let mut trace = Trace::open(&["usr_0.csv.gz".into()], &Options::default())?;
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
    /// What a stream's records may take while they are sorted.
    limit: Option<SpoolLimit>,
    ended: bool,
}

enum Order {
    /// The source gives records in order, or says that it cannot.
    AsIs,
    /// The source ought to give records in order, but has not looked.
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
    /// The file cannot be opened, or is in no known format, or in several.
    pub fn open(paths: &[PathBuf], options: &Options) -> Result<Self, Error> {
        let paths = blktrace::with_siblings(paths);
        let Some(path) = paths.first() else {
            return Err(Error::Usage("no trace was named".to_owned()));
        };
        let inputs = paths.iter().map(|p| Input::open(p)).collect::<Result<Vec<_>, _>>()?;
        Self::of(&inputs, path, options)
    }

    /// Opens a trace whose file content is in memory, compressed or not.
    ///
    /// # Errors
    /// The content is in no known format, or in several.
    pub fn from_bytes(bytes: &[u8], options: &Options) -> Result<Self, Error> {
        let input = Input::from_bytes(bytes)?;
        let path = input.path.clone();
        Self::of(&[input], &path, options)
    }

    fn of(inputs: &[Input], path: &Path, options: &Options) -> Result<Self, Error> {
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
            // Before all of it is spooled to look at its end.
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
            // Their parsers take a step back for an error: there is nothing to sort.
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

    /// Replaces the content of `batch` by the next records, in arrival order;
    /// returns false, with an empty batch, when there are no more.
    ///
    /// # Errors
    /// The file cannot be read, or breaks its format's rules.
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
                self.ended = !self.pull(out)?;
            }
            Order::Checked { .. } => {
                self.ended = !self.pull(out)?;
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
                let more = self.pull(&mut incoming)?;
                let Order::Window(sorter) = &mut self.order else { unreachable!() };
                sorter.push(&mut incoming, out).map_err(|TooLate(record)| Error::BeyondWindow {
                    path: self.path.clone(),
                    record,
                    window: WINDOW,
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
                    let more = self.pull(&mut incoming)?;
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

    /// Reads from the source, passing over bad records if that is wanted.
    fn pull(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        let known = out.len();
        let result = self.pull_as_it_is(out);
        if self.meta.format.has_a_clock_per_cpu() {
            out[known..].iter_mut().for_each(Record::put_times_in_order);
        }
        result
    }

    fn pull_as_it_is(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
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

    /// The device and command names met so far.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// What is known of the trace as a whole.
    #[must_use]
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file's path; the first one's, where there are several.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many malformed records were passed over, with
    /// [`Options::skip_bad`].
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What was wrong with the first record passed over.
    #[must_use]
    pub fn first_skipped(&self) -> Option<&str> {
        self.first_skipped.as_deref()
    }
}

/// Runs `work` over a trace, and once more with [`Sorting::Spill`] if it turns
/// out that its records are too far out of order for a window. Standard input
/// and pipes, which cannot be read again, are spilled from the beginning.
///
/// # Errors
/// As [`Trace::open`] and [`Trace::read`], and those of `work`.
pub fn with_trace<T>(
    paths: &[PathBuf],
    options: &Options,
    mut work: impl FnMut(&mut Trace) -> Result<T, Error>,
) -> Result<T, Error> {
    let spill = Options { sorting: Sorting::Spill, ..options.clone() };
    if !paths.iter().all(|path| can_be_read_twice(path)) {
        return work(&mut Trace::open(paths, &spill)?);
    }
    match work(&mut Trace::open(paths, options)?) {
        Err(Error::BeyondWindow { .. }) => work(&mut Trace::open(paths, &spill)?),
        result => result,
    }
}
