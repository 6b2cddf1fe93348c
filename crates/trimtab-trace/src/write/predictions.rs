//! Forecasts and their outcomes as Parquet, for other tools: docs/predictors.md has the columns.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use trimtab_io::Nanos;

use super::AtomicFile;
use super::parquet::io_error;
use crate::error::Error;

/// The metadata key of the format's version, and the version.
const VERSION_KEY: &str = "trimtab.predictions";
const VERSION: &str = "1";

/// Rows per row group.
const ROW_GROUP: usize = 1 << 18;

/// What the forecasts of a batch have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictionSource<'a> {
    /// The recording's name.
    pub recording: &'a str,
    /// The predictor's name.
    pub predictor: &'a str,
    /// The model's file, if it was given.
    pub model: Option<&'a str>,
}

/// A forecast of a read, and its outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// When the read arrived.
    pub arrival: Nanos,
    /// Its offset, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub length: u64,
    /// Its latency.
    pub latency: Nanos,
    /// The longest latency that is not late for this read, ns.
    pub threshold_ns: f64,
    /// The predictor's probability of being late, or what it orders reads by, 0 to 1.
    pub score: f32,
    /// Whether the predictor's verdict is late.
    pub refused: bool,
    /// The expected latency, if the predictor tells.
    pub forecast: Option<Nanos>,
}

impl Prediction {
    /// Whether the read was late.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.latency.0 as f64 > self.threshold_ns
    }
}

/// Writes a file of predictions. It appears when it is whole, or not at all.
pub struct PredictionWriter {
    writer: ArrowWriter<AtomicFile>,
    schema: Arc<Schema>,
    path: PathBuf,
}

impl PredictionWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be created there.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let schema = Arc::new(schema());
        let properties = WriterProperties::builder()
            .set_created_by(concat!("trimtab ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .set_key_value_metadata(Some(vec![KeyValue::new(
                VERSION_KEY.to_owned(),
                VERSION.to_owned(),
            )]))
            .build();
        let begin = || {
            let file = AtomicFile::create(path)?;
            ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).map_err(io_error)
        };
        let writer = begin().map_err(|e| Error::write(path, e))?;
        Ok(Self { writer, schema, path: path.to_owned() })
    }

    /// Appends predictions of one source.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(
        &mut self,
        source: PredictionSource<'_>,
        predictions: &[Prediction],
    ) -> Result<(), Error> {
        for rows in predictions.chunks(ROW_GROUP) {
            let batch = batch(&self.schema, source, rows);
            self.writer.write(&batch).map_err(|e| Error::write(&self.path, io_error(e)))?;
        }
        Ok(())
    }

    /// Completes the file and gives it its name, replacing what had it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        let Self { writer, path, .. } = self;
        let finished = writer.into_inner().map_err(io_error).and_then(AtomicFile::commit);
        finished.map_err(|e| Error::write(&path, e))
    }
}

fn schema() -> Schema {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Schema::new(vec![
        Field::new("recording", text(), false),
        Field::new("predictor", text(), false),
        Field::new("model", text(), true),
        Field::new("arrival_ns", DataType::Int64, false),
        Field::new("offset", DataType::Int64, false),
        Field::new("length", DataType::Int64, false),
        Field::new("latency_ns", DataType::Int64, false),
        Field::new("threshold_ns", DataType::Float64, false),
        Field::new("late", DataType::Boolean, false),
        Field::new("score", DataType::Float32, false),
        Field::new("refused", DataType::Boolean, false),
        Field::new("forecast_ns", DataType::Int64, true),
    ])
}

fn batch(schema: &Arc<Schema>, source: PredictionSource<'_>, rows: &[Prediction]) -> RecordBatch {
    let integers = |of: fn(&Prediction) -> u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| of(row).cast_signed())))
    };
    let forecasts: Int64Array =
        rows.iter().map(|row| row.forecast.map(|forecast| forecast.0.cast_signed())).collect();
    let flags = |of: fn(&Prediction) -> bool| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(of(row))).collect::<BooleanArray>())
    };
    let columns: Vec<ArrayRef> = vec![
        constant(Some(source.recording), rows.len()),
        constant(Some(source.predictor), rows.len()),
        constant(source.model, rows.len()),
        integers(|row| row.arrival.0),
        integers(|row| row.offset),
        integers(|row| row.length),
        integers(|row| row.latency.0),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.threshold_ns))),
        flags(Prediction::is_late),
        Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| row.score))),
        flags(|row| row.refused),
        Arc::new(forecasts),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
        .expect("columns are built in the schema's order, of its types")
}

/// A column that has the same text in each row.
fn constant(text: Option<&str>, rows: usize) -> ArrayRef {
    let keys: Int32Array = std::iter::repeat_n(text.map(|_| 0), rows).collect();
    let values = Arc::new(StringArray::from_iter_values(text));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}
