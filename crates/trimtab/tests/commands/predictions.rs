//! Reads a file of predictions.

use std::fs::File;
use std::path::Path;

use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, RecordBatch, StringArray, cast::AsArray as _};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A row, under the names of its columns.
pub(crate) struct Row {
    pub(crate) recording: String,
    pub(crate) predictor: String,
    pub(crate) model: Option<String>,
    pub(crate) arrival_ns: i64,
    pub(crate) offset: i64,
    pub(crate) length: i64,
    pub(crate) latency_ns: i64,
    pub(crate) threshold_ns: f64,
    pub(crate) late: bool,
    pub(crate) score: f64,
    pub(crate) refused: bool,
    pub(crate) forecast_ns: Option<i64>,
}

/// All rows of a file.
pub(crate) fn read(path: &Path) -> Vec<Row> {
    let file = File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    reader.flat_map(|batch| rows(&batch.unwrap())).collect()
}

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let column = |name| batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
    let text = |name, row| {
        let column = column(name).as_dictionary::<Int32Type>();
        let values: &StringArray = column.values().as_string();
        column.key(row).map(|key| values.value(key).to_owned())
    };
    let integer = |name, row| column(name).as_primitive::<Int64Type>().value(row);
    let flag = |name, row| column(name).as_boolean().value(row);
    let one = |row| Row {
        recording: text("recording", row).unwrap(),
        predictor: text("predictor", row).unwrap(),
        model: text("model", row),
        arrival_ns: integer("arrival_ns", row),
        offset: integer("offset", row),
        length: integer("length", row),
        latency_ns: integer("latency_ns", row),
        threshold_ns: column("threshold_ns").as_primitive::<Float64Type>().value(row),
        late: flag("late", row),
        score: column("score").as_primitive::<Float32Type>().value(row).into(),
        refused: flag("refused", row),
        forecast_ns: column("forecast_ns").is_valid(row).then(|| integer("forecast_ns", row)),
    };
    (0..batch.num_rows()).map(one).collect()
}
