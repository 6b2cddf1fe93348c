//! The native format: docs/trace-format.md.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt16Array,
    UInt32Array,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use rustc_hash::FxHashMap;
use trimtab_io::{Nanos, Op};

use super::AtomicFile;
use crate::format::parquet::schema::{
    ARRIVAL, CLOCK_KEY, CLOCK_OWN, CLOCK_UNIX, COMMAND, COMPLETE, DEVICE, FLAGS, HAS_OFFSETS_KEY,
    ISSUE, LENGTH, NOTE_PREFIX, NULL, Numbers, OFFSET, OP, PANDAS_KEY, PID, VERSION, VERSION_KEY,
};
use crate::names::Names;
use crate::reader::{Clock, Meta};
use crate::record::Record;

/// Rows per row group. A group is in memory (about 5 MB, encoded) until it is full.
const ROW_GROUP: usize = 1 << 18;
/// Rows per batch for the library; larger slices are split.
const ROWS: usize = 8192;

pub(super) struct ParquetWriter {
    writer: ArrowWriter<AtomicFile>,
    schema: Arc<Schema>,
}

impl ParquetWriter {
    pub(super) fn new(file: AtomicFile, meta: &Meta) -> io::Result<Self> {
        let schema = Arc::new(schema());
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties(meta)))
            .map_err(io_error)?;
        Ok(Self { writer, schema })
    }

    pub(super) fn set_note(&mut self, key: &str, value: &str) {
        self.writer.append_key_value_metadata(pair(&format!("{NOTE_PREFIX}{key}"), value));
    }

    pub(super) fn write(&mut self, records: &[Record], names: &Names) -> io::Result<()> {
        for records in records.chunks(ROWS) {
            let batch = self.batch(records, names);
            self.writer.write(&batch).map_err(io_error)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.writer.into_inner().map_err(io_error)?.commit()
    }

    fn batch(&self, records: &[Record], names: &Names) -> RecordBatch {
        let number = |of: fn(&Record) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(records.iter().map(|r| of(r) as i64)))
        };
        let time = |of: fn(&Record) -> Option<Nanos>| -> ArrayRef {
            if records.iter().all(|r| of(r).is_none()) {
                return Arc::new(Int64Array::new_null(records.len()));
            }
            Arc::new(records.iter().map(|r| of(r).map(|t| t.0 as i64)).collect::<Int64Array>())
        };
        let ops = Int32Array::from_iter_values(records.iter().map(|r| r.op as i32));
        let op_names = StringArray::from_iter_values(Op::ALL.map(Op::name));
        let columns: Vec<ArrayRef> = vec![
            number(|r| r.arrival.0),
            time(|r| r.issue),
            time(|r| r.complete),
            Arc::new(DictionaryArray::new(ops, Arc::new(op_names))),
            number(|r| r.offset),
            number(|r| r.length),
            texts(records, |r| Some(r.device), |id| names.device(id)),
            Arc::new(UInt16Array::from_iter_values(records.iter().map(|r| r.flags.bits()))),
            Arc::new(records.iter().map(|r| r.pid).collect::<UInt32Array>()),
            texts(records, |r| r.command, |id| names.command(id)),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("columns are built in the schema's order, of its types")
    }
}

/// Why a record cannot be written, if so: the reader would refuse it.
pub(crate) fn fault(record: &Record) -> Option<String> {
    let time = |t: Option<Nanos>| t.map_or(NULL, |t| t.0.min(NULL - 1));
    let numbers = Numbers {
        arrival: time(Some(record.arrival)),
        issue: time(record.issue),
        complete: time(record.complete),
        offset: record.offset,
        length: record.length,
        flags: u64::from(record.flags.bits()),
        pid: record.pid.map_or(NULL, u64::from),
    };
    (!numbers.are_sound()).then(|| numbers.fault(|_, value| value.to_string()))
}

/// A dictionary column. Its dictionary has only this batch's names: a trace may have a million.
fn texts<'a, I: Copy + Eq + Hash>(
    records: &[Record],
    of: impl Fn(&Record) -> Option<I>,
    name: impl Fn(I) -> &'a str,
) -> ArrayRef {
    let mut known = FxHashMap::default();
    let mut values = Vec::new();
    let mut last = None;
    let keys: Int32Array = records
        .iter()
        .map(|record| {
            let id = of(record)?;
            // Adjacent records mostly share a name.
            if let Some((last_id, key)) = last
                && last_id == id
            {
                return Some(key);
            }
            let key = *known.entry(id).or_insert_with(|| {
                values.push(name(id));
                values.len() as i32 - 1
            });
            last = Some((id, key));
            Some(key)
        })
        .collect();
    let values = Arc::new(StringArray::from_iter_values(values));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}

/// Column types for pandas: nullable integers. By default pandas reads a column with nulls as
/// floats, which lose nanoseconds.
fn pandas_types() -> String {
    let column = |name: &str, text: &str, numbers: &str| {
        serde_json::json!({
            "name": name, "field_name": name, "pandas_type": text, "numpy_type": numbers,
            "metadata": null,
        })
    };
    serde_json::json!({
        "index_columns": [],
        "column_indexes": [],
        "columns": [
            column(ARRIVAL, "int64", "int64"),
            column(ISSUE, "int64", "Int64"),
            column(COMPLETE, "int64", "Int64"),
            column(OP, "unicode", "object"),
            column(OFFSET, "int64", "int64"),
            column(LENGTH, "int64", "int64"),
            column(DEVICE, "unicode", "object"),
            column(FLAGS, "uint16", "uint16"),
            column(PID, "uint32", "UInt32"),
            column(COMMAND, "unicode", "object"),
        ],
        "creator": {"library": "trimtab", "version": env!("CARGO_PKG_VERSION")},
        "pandas_version": "2.0.0",
    })
    .to_string()
}

fn schema() -> Schema {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let pandas = (PANDAS_KEY.to_owned(), pandas_types());
    let fields = vec![
        Field::new(ARRIVAL, DataType::Int64, false),
        Field::new(ISSUE, DataType::Int64, true),
        Field::new(COMPLETE, DataType::Int64, true),
        Field::new(OP, text(), false),
        Field::new(OFFSET, DataType::Int64, false),
        Field::new(LENGTH, DataType::Int64, false),
        Field::new(DEVICE, text(), false),
        Field::new(FLAGS, DataType::UInt16, false),
        Field::new(PID, DataType::UInt32, true),
        Field::new(COMMAND, text(), true),
    ];
    Schema::new(fields).with_metadata(HashMap::from([pandas]))
}

/// Of the encodings and compressions tried, these gave nearly the smallest files at a low read
/// cost; docs/trace-format.md has the figures.
fn properties(meta: &Meta) -> WriterProperties {
    let clock = match meta.clock {
        Clock::Unix => CLOCK_UNIX,
        Clock::Own => CLOCK_OWN,
    };
    let mut pairs = vec![
        pair(VERSION_KEY, VERSION),
        pair(CLOCK_KEY, clock),
        pair(HAS_OFFSETS_KEY, if meta.has_offsets { "true" } else { "false" }),
    ];
    let notes = meta.notes.iter();
    pairs.extend(notes.map(|(key, value)| pair(&format!("{NOTE_PREFIX}{key}"), value)));
    let by_arrival = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("trimtab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_write_batch_size(ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_sorting_columns(Some(vec![by_arrival]))
        .set_key_value_metadata(Some(pairs));
    // Their values hardly repeat, so a dictionary would be useless.
    for name in [ARRIVAL, ISSUE, COMPLETE, OFFSET] {
        builder = builder.set_column_dictionary_enabled(ColumnPath::from(name), false);
    }
    for name in [ARRIVAL, ISSUE, COMPLETE] {
        let column = ColumnPath::from(name);
        builder = builder.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

fn pair(key: &str, value: &str) -> KeyValue {
    KeyValue::new(key.to_owned(), value.to_owned())
}

/// The system's error, if the system failed.
pub(super) fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
