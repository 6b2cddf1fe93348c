//! The native format: docs/trace-format.md.
//!
//! Columns are found by name, so files of other tools can be read too. The file is not trusted:
//! sizes are checked before memory is reserved ([`guard`]), and because the Parquet library panics
//! in some of its checks, decoding runs behind a boundary that turns a panic into an error.

pub(crate) mod schema;

mod columns;
mod guard;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Once};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::file::metadata::{
    ColumnChunkMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};

use self::columns::Columns;
use self::guard::Guarded;
use self::schema::{
    ARRIVAL, CLOCK_KEY, CLOCK_OWN, CLOCK_UNIX, COMMAND, COMPLETE, DEVICE, FLAGS, HAS_OFFSETS_KEY,
    ISSUE, LENGTH, NOTE_PREFIX, OFFSET, OP, PID, VERSION, VERSION_KEY,
};
use crate::error::{Error, Malformed, Position};
use crate::fields::show;
use crate::input::Input;
use crate::names::Names;
use crate::reader::{Clock, Meta};
use crate::record::Record;
use crate::source::{BATCH, Source};
use crate::spool::SpoolLimit;

const MAGIC: &[u8] = b"PAR1";
/// The footer's length and the magic bytes.
const TAIL: u64 = 8;
/// A footer of 4 MB describes a billion records; parsing takes several times
/// its size.
const MAX_FOOTER: u64 = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    /// A time, in ns as an integer, or as a timestamp.
    Time,
    Number,
    Text,
}

/// Name, kind, and whether it is required.
const COLUMNS: [(&str, ColumnKind, bool); 10] = [
    (ARRIVAL, ColumnKind::Time, true),
    (ISSUE, ColumnKind::Time, false),
    (COMPLETE, ColumnKind::Time, false),
    (OP, ColumnKind::Text, true),
    (OFFSET, ColumnKind::Number, true),
    (LENGTH, ColumnKind::Number, true),
    (DEVICE, ColumnKind::Text, false),
    (FLAGS, ColumnKind::Number, false),
    (PID, ColumnKind::Number, false),
    (COMMAND, ColumnKind::Text, false),
];

/// Whether a file starts like Parquet.
pub(crate) fn looks_like(sample: &[u8]) -> bool {
    sample.starts_with(MAGIC)
}

/// Opens a native trace and reads its footer.
pub(crate) fn open(
    input: &Input,
    limit: SpoolLimit,
    meta: &mut Meta,
) -> Result<Box<dyn Source + Send>, Error> {
    let file = input.seekable(limit)?;
    let read_error = |source| Error::Read { path: input.path.clone(), byte: 0, source };
    let length = file.metadata().map_err(read_error)?.len();
    let mut file = Guarded::new(file, length);
    let opened = contained(|| {
        let footer = read_footer(&file)?;
        file.set_codecs(&footer);
        let clock = read_notes(footer.file_metadata().key_value_metadata(), meta)?;
        let (batches, timestamps) = batches(&file, footer)?;
        meta.clock = clock.unwrap_or(if timestamps { Clock::Unix } else { Clock::Own });
        Ok(batches)
    });
    let batches = opened.map_err(|Malformed(what)| match file.take_failure() {
        Some(source) => read_error(source),
        None => Error::Unrecognised { path: input.path.clone(), why: what },
    })?;
    Ok(Box::new(ParquetSource {
        path: input.path.clone(),
        file,
        batches: Some(batches),
        columns: Columns::default(),
        row: 0,
    }))
}

fn read_footer(file: &Guarded) -> Result<ParquetMetaData, Malformed> {
    use parquet::file::reader::Length;
    let cut_off = || Malformed::new("does not end as a Parquet file does; is it cut off?");
    let length = file.len();
    let tail_at = length.checked_sub(TAIL).ok_or_else(cut_off)?;
    let tail = file.read_up_to(tail_at, TAIL as usize).map_err(|e| library(&e))?;
    let Some((size, MAGIC)) = tail.split_first_chunk() else { return Err(cut_off()) };
    let size = u64::from(u32::from_le_bytes(*size));
    if size > MAX_FOOTER {
        return Err(Malformed(format!("Parquet footer of {size} bytes, expected 16 MiB at most")));
    }
    let footer_at = tail_at.checked_sub(size).ok_or_else(cut_off)?;
    let footer = file.read_up_to(footer_at, size as usize).map_err(|e| library(&e))?;
    ParquetMetaDataReader::decode_metadata(&footer).map_err(|e| library(&e))
}

/// Reads the key-value metadata; returns the clock, if it is there.
fn read_notes(pairs: Option<&Vec<KeyValue>>, meta: &mut Meta) -> Result<Option<Clock>, Malformed> {
    let mut clock = None;
    for KeyValue { key, value } in pairs.into_iter().flatten() {
        let value = value.as_deref().unwrap_or_default();
        let expected = |what: &str| {
            let found = show(value.as_bytes());
            Malformed(format!("metadata key {key}: expected {what}, found {found}"))
        };
        match key.as_str() {
            VERSION_KEY if value != VERSION => {
                return Err(expected("1, the only version that this program knows"));
            }
            CLOCK_KEY => {
                clock = Some(match value {
                    CLOCK_UNIX => Clock::Unix,
                    CLOCK_OWN => Clock::Own,
                    _ => return Err(expected("unix or own")),
                });
            }
            HAS_OFFSETS_KEY => {
                meta.has_offsets = value.parse().map_err(|_| expected("true or false"))?;
            }
            _ => {
                if let Some(key) = key.strip_prefix(NOTE_PREFIX) {
                    meta.notes.push((key.to_owned(), value.to_owned()));
                }
            }
        }
    }
    Ok(clock)
}

/// Checks the columns, and starts to read the non-empty ones; also returns whether arrivals are
/// timestamps, which count from the Unix epoch.
fn batches(
    file: &Guarded,
    footer: ParquetMetaData,
) -> Result<(ParquetRecordBatchReader, bool), Malformed> {
    // Types as stored in Parquet; hints from Arrow writers (large strings, views) would only
    // multiply the cases.
    let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let footer = Arc::new(footer);
    let plain = ArrowReaderMetadata::try_new(Arc::clone(&footer), options());
    let plain = plain.map_err(|e| library(&e))?;
    let fields = plain.schema().fields();

    let mut wanted: Vec<Arc<Field>> = fields.iter().cloned().collect();
    let (mut projection, mut timestamps) = (Vec::new(), false);
    for (name, kind, required) in COLUMNS {
        let Some(index) = fields.iter().position(|f| f.name() == name) else {
            if required {
                return Err(Malformed(format!("has no column {name}, which a trace needs")));
            }
            continue;
        };
        let found = fields[index].data_type();
        match kind {
            // Written by tools that know no type, for lack of values.
            _ if *found == DataType::Null && !required => continue,
            ColumnKind::Number | ColumnKind::Time if found.is_integer() || is_float(found) => {}
            ColumnKind::Time if matches!(found, DataType::Timestamp(..)) => {
                timestamps |= name == ARRIVAL;
            }
            ColumnKind::Text if *found == DataType::Utf8 => {
                let keys = Box::new(DataType::Int32);
                let text = DataType::Dictionary(keys, Box::new(DataType::Utf8));
                wanted[index] = Arc::new(fields[index].as_ref().clone().with_data_type(text));
            }
            ColumnKind::Number => return Err(wrong_type(name, "integers", found)),
            ColumnKind::Time => {
                return Err(wrong_type(name, "integers (ns) or timestamps", found));
            }
            ColumnKind::Text => return Err(wrong_type(name, "strings", found)),
        }
        if required || !is_all_null(&footer, index) {
            must_be_readable(&footer, index, name)?;
            projection.push(index);
        }
    }
    let options = options().with_schema(Arc::new(Schema::new(wanted)));
    let metadata = ArrowReaderMetadata::try_new(footer, options).map_err(|e| library(&e))?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), projection);
    let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata)
        .with_projection(mask)
        .with_batch_size(BATCH)
        .build()
        .map_err(|e| library(&e))?;
    Ok((batches, timestamps))
}

fn is_float(of: &DataType) -> bool {
    matches!(of, DataType::Float32 | DataType::Float64)
}

/// Refuses a column with an unsupported compression.
fn must_be_readable(footer: &ParquetMetaData, root: usize, name: &str) -> Result<(), Malformed> {
    let lzo = columns_of(footer, root).any(|column| column.compression() == Compression::LZO);
    if lzo {
        return Err(Malformed(format!(
            "column {name}: is compressed with LZO, which is not read; write it with snappy, gzip, \
             brotli, lz4 or zstd"
        )));
    }
    Ok(())
}

/// A column's chunks, one per row group. `root` is its index among the top-level columns.
fn columns_of(footer: &ParquetMetaData, root: usize) -> impl Iterator<Item = &ColumnChunkMetaData> {
    let schema = footer.file_metadata().schema_descr();
    let leaf = (0..schema.num_columns()).find(|&i| schema.get_column_root_idx(i) == root);
    leaf.into_iter().flat_map(|leaf| footer.row_groups().iter().map(move |g| g.column(leaf)))
}

fn wrong_type(name: &str, expected: &str, found: &DataType) -> Malformed {
    let found = show(found.to_string().as_bytes());
    Malformed(format!("column {name}: expected {expected}, found type {found}"))
}

/// Whether the statistics say that a column is all null, so that it need not be read. `root` is its
/// index among the top-level columns.
fn is_all_null(footer: &ParquetMetaData, root: usize) -> bool {
    let rows = footer.row_groups().iter().map(RowGroupMetaData::num_rows);
    columns_of(footer, root).zip(rows).all(|(column, rows)| {
        let nulls = column.statistics().and_then(|s| s.null_count_opt());
        nulls.is_some_and(|nulls| u64::try_from(rows) == Ok(nulls))
    })
}

struct ParquetSource {
    path: PathBuf,
    file: Guarded,
    /// `None` after the end, or after damage that cannot be skipped.
    batches: Option<ParquetRecordBatchReader>,
    columns: Columns,
    /// Rows read.
    row: u64,
}

impl ParquetSource {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let Some(mut batches) = self.batches.take() else { return Ok(None) };
        // After a panic the reader is dropped, never used again.
        let next = contained(|| {
            let next = batches.next().transpose().map_err(|e| library(&e))?;
            Ok(next.map(|batch| (batch, batches)))
        });
        match next {
            Ok(None) => Ok(None),
            Ok(Some((batch, batches))) => {
                self.batches = Some(batches);
                Ok(Some(batch))
            }
            Err(what) => Err(match self.file.take_failure() {
                Some(source) => Error::Read { path: self.path.clone(), byte: 0, source },
                None => self.malformed(self.row + 1, what),
            }),
        }
    }

    fn malformed(&self, row: u64, Malformed(what): Malformed) -> Error {
        Error::Malformed { path: self.path.clone(), at: Position::Row(row), what }
    }
}

impl Source for ParquetSource {
    fn fill(&mut self, names: &mut Names, out: &mut Vec<Record>) -> Result<bool, Error> {
        if self.columns.is_used_up() {
            let Some(batch) = self.next_batch()? else { return Ok(false) };
            self.columns.load(&batch).map_err(|e| self.malformed(self.row + 1, e))?;
        }
        let (rows, result) = self.columns.append(names, out);
        self.row += rows as u64;
        result.map_err(|e| self.malformed(self.row, e))?;
        Ok(true)
    }
}

/// The Parquet library's error, on one line.
fn library(error: &dyn std::error::Error) -> Malformed {
    const MAX: usize = 200;
    let text = error.to_string();
    let line: String =
        text.chars().take(MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Malformed(format!("damaged Parquet: {line}"))
}

thread_local! {
    /// Whether a panic on this thread will be caught and reported as an error.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decode`, and turns a panic into an error. The panic's message is suppressed, because the
/// error contains it.
fn contained<T>(decode: impl FnOnce() -> Result<T, Malformed>) -> Result<T, Malformed> {
    static QUIETED: Once = Once::new();
    QUIETED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                usual(panic);
            }
        }));
    });
    CONTAINED.set(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    CONTAINED.set(false);
    result.unwrap_or_else(|panic| Err(library(&*describe(&*panic))))
}

fn describe(panic: &(dyn Any + Send)) -> Box<dyn std::error::Error> {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).into(),
        (_, Some(text)) => text.as_str().into(),
        _ => "the decoder panicked".into(),
    }
}
