//! Converts Arrow batches to records.
//!
//! Columns are first widened to plain numbers, then one loop over the rows validates them and
//! assembles the records. Texts are dictionary keys, looked up among the trace's names once per
//! dictionary entry.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::{DataType, TimeUnit};
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::schema::{
    ABSURD, ARRIVAL, COMMAND, COMPLETE, DEVICE, FLAGS, ISSUE, LENGTH, NULL, Numbers, OFFSET, OP,
    PID,
};
use crate::error::Malformed;
use crate::fields::show;
use crate::names::{CommandId, Names};
use crate::record::Record;

/// Name of the device if the file has no device column.
const UNNAMED: &[u8] = b"?";

/// One batch by column, and the position of conversion.
#[derive(Default)]
pub(super) struct Columns {
    /// The batch itself, for error messages.
    batch: Option<RecordBatch>,
    arrival: Vec<u64>,
    issue: Vec<u64>,
    complete: Vec<u64>,
    offset: Vec<u64>,
    length: Vec<u64>,
    flags: Vec<u64>,
    pid: Vec<u64>,
    op: Texts<Op>,
    device: Texts<DeviceId>,
    command: Texts<CommandId>,
    /// The next row.
    next: usize,
}

impl Columns {
    /// Loads a batch, replacing the last.
    pub(super) fn load(&mut self, batch: &RecordBatch) -> Result<(), Malformed> {
        let rows = batch.num_rows();
        let numbers = [
            (ARRIVAL, &mut self.arrival, NULL),
            (ISSUE, &mut self.issue, NULL),
            (COMPLETE, &mut self.complete, NULL),
            (OFFSET, &mut self.offset, NULL),
            (LENGTH, &mut self.length, NULL),
            (FLAGS, &mut self.flags, 0),
            (PID, &mut self.pid, NULL),
        ];
        for (name, values, absent) in numbers {
            match batch.column_by_name(name) {
                Some(column) => widen(name, column, values)?,
                // Holds nothing else, so only the length may change.
                None => values.resize(rows, absent),
            }
        }
        self.op.load(batch, OP, rows);
        self.device.load(batch, DEVICE, rows);
        self.command.load(batch, COMMAND, rows);
        self.next = 0;
        self.batch = Some(batch.clone());
        Ok(())
    }

    /// Whether every row has been converted.
    pub(super) const fn is_used_up(&self) -> bool {
        self.next >= self.arrival.len()
    }

    /// Appends the records of the remaining rows. On an error it stops behind the bad row, and
    /// returns how many rows it read.
    pub(super) fn append(
        &mut self,
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> (usize, Result<(), Malformed>) {
        let first = self.next;
        out.reserve(self.arrival.len() - first);
        for row in first..self.arrival.len() {
            self.next = row + 1;
            match self.record(row, names) {
                Ok(record) => out.push(record),
                Err(e) => return (self.next - first, Err(e)),
            }
        }
        (self.next - first, Ok(()))
    }

    /// A number as stored in the file, valid or not.
    #[cold]
    fn found(&self, name: &str, row: usize, value: u64) -> String {
        let column = self.batch.as_ref().and_then(|batch| batch.column_by_name(name));
        let shown = column.and_then(|column| match column.data_type() {
            DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row).to_string()),
            DataType::Int32 => Some(column.as_primitive::<Int32Type>().value(row).to_string()),
            DataType::Int16 => Some(column.as_primitive::<Int16Type>().value(row).to_string()),
            DataType::Int8 => Some(column.as_primitive::<Int8Type>().value(row).to_string()),
            DataType::UInt64 => Some(column.as_primitive::<UInt64Type>().value(row).to_string()),
            DataType::Float32 => {
                Some(float(column.as_primitive::<Float32Type>().value(row).into()))
            }
            DataType::Float64 => Some(float(column.as_primitive::<Float64Type>().value(row))),
            DataType::Timestamp(..) => Some("a time before 1970 or long after".to_owned()),
            _ => None,
        });
        shown.unwrap_or_else(|| value.to_string())
    }

    #[inline]
    fn record(&mut self, row: usize, names: &mut Names) -> Result<Record, Malformed> {
        let numbers = Numbers {
            arrival: self.arrival[row],
            issue: self.issue[row],
            complete: self.complete[row],
            offset: self.offset[row],
            length: self.length[row],
            flags: self.flags[row],
            pid: self.pid[row],
        };
        if !numbers.are_sound() {
            return Err(Malformed(numbers.fault(|name, value| self.found(name, row, value))));
        }
        let op = self.op.get(row, op_of)?;
        let device = self.device.get(row, |name| match name {
            Some(name) => names.intern_device(name.as_bytes()),
            None => names.intern_device(UNNAMED),
        })?;
        let command = match self.command.keys[row] {
            ABSENT => None,
            _ => Some(
                self.command
                    .get(row, |name| names.intern_command(name.unwrap_or_default().as_bytes()))?,
            ),
        };
        let known = |value: u64| (value != NULL).then_some(value);
        Ok(Record {
            arrival: Nanos(numbers.arrival),
            issue: known(numbers.issue).map(Nanos),
            complete: known(numbers.complete).map(Nanos),
            offset: numbers.offset,
            length: numbers.length,
            device,
            pid: known(numbers.pid).map(|pid| pid as u32),
            command,
            flags: Flags::from_bits_retain(numbers.flags as u16),
            op,
        })
    }
}

fn op_of(name: Option<&str>) -> Result<Op, Malformed> {
    let name = name.unwrap_or_default();
    Op::ALL.into_iter().find(|op| op.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let found = show(name.as_bytes());
        Malformed(format!("column {OP}: expected read, write, discard or flush, found {found}"))
    })
}

/// The largest whole number up to which floats are exact: 2^53. A larger value is rounded.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A float's whole number. pandas stores integers with missing values as floats, with NaN for
/// missing.
fn whole(value: f64) -> u64 {
    match value {
        v if v.is_nan() => NULL,
        v if (0.0..=MAX_EXACT).contains(&v) && v.fract() == 0.0 => v as u64,
        _ => ABSURD,
    }
}

/// Describes an invalid float, and the remedy.
fn float(value: f64) -> String {
    if value > MAX_EXACT && value.is_finite() {
        return format!(
            "the float {value:e}, which is not exact to 1 (with pandas, read and write with \
             dtype_backend=\"pyarrow\", which keeps integers)"
        );
    }
    value.to_string()
}

/// A column of any numeric or time type as 64-bit numbers, with [`NULL`] for null and [`ABSURD`]
/// for values outside a trace's range.
fn widen(name: &str, column: &dyn Array, out: &mut Vec<u64>) -> Result<(), Malformed> {
    match column.data_type() {
        DataType::Int8 => copy::<Int8Type>(column, out, |v| signed(v.into())),
        DataType::Int16 => copy::<Int16Type>(column, out, |v| signed(v.into())),
        DataType::Int32 => copy::<Int32Type>(column, out, |v| signed(v.into())),
        DataType::Int64 => copy::<Int64Type>(column, out, signed),
        DataType::UInt8 => copy::<UInt8Type>(column, out, u64::from),
        DataType::UInt16 => copy::<UInt16Type>(column, out, u64::from),
        DataType::UInt32 => copy::<UInt32Type>(column, out, u64::from),
        DataType::UInt64 => copy::<UInt64Type>(column, out, |v| v.min(ABSURD)),
        DataType::Float32 => copy::<Float32Type>(column, out, |v| whole(v.into())),
        DataType::Float64 => copy::<Float64Type>(column, out, whole),
        DataType::Timestamp(TimeUnit::Second, _) => {
            copy::<TimestampSecondType>(column, out, |v| time(v, 1_000_000_000));
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            copy::<TimestampMillisecondType>(column, out, |v| time(v, 1_000_000));
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            copy::<TimestampMicrosecondType>(column, out, |v| time(v, 1_000));
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            copy::<TimestampNanosecondType>(column, out, |v| time(v, 1));
        }
        other => return Err(Malformed(format!("column {name}: unexpected type {other}"))),
    }
    Ok(())
}

fn signed(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(ABSURD)
}

/// Converts a time in units of `unit_ns` nanoseconds.
fn time(value: i64, unit_ns: i64) -> u64 {
    value.checked_mul(unit_ns).map_or(ABSURD, signed)
}

fn copy<T: ArrowPrimitiveType>(
    column: &dyn Array,
    out: &mut Vec<u64>,
    wide: impl Fn(T::Native) -> u64,
) {
    let array = column.as_primitive::<T>();
    out.clear();
    out.extend(array.values().iter().map(|&v| wide(v)));
    if let Some(nulls) = array.nulls() {
        for (value, valid) in out.iter_mut().zip(nulls) {
            if !valid {
                *value = NULL;
            }
        }
    }
}

/// The key of a null.
const ABSENT: u32 = u32::MAX;

/// A column of texts, each of which maps to a `T`.
struct Texts<T> {
    /// Dictionary key of each row.
    keys: Vec<u32>,
    dictionary: Option<StringArray>,
    /// Value of each entry, once it was looked up.
    meanings: Vec<Option<T>>,
    /// Value of null.
    null: Option<T>,
}

impl<T> Default for Texts<T> {
    fn default() -> Self {
        Self { keys: Vec::new(), dictionary: None, meanings: Vec::new(), null: None }
    }
}

impl<T: Copy> Texts<T> {
    fn load(&mut self, batch: &RecordBatch, name: &str, rows: usize) {
        self.keys.clear();
        let Some(column) = batch.column_by_name(name) else {
            self.keys.resize(rows, ABSENT);
            return;
        };
        let column = column.as_dictionary::<Int32Type>();
        self.keys.extend(column.keys().values().iter().map(|&key| key as u32));
        if let Some(nulls) = column.nulls() {
            for (key, valid) in self.keys.iter_mut().zip(nulls) {
                if !valid {
                    *key = ABSENT;
                }
            }
        }
        let values = column.values().as_string::<i32>();
        // Batches of one row group share a dictionary. The old one is kept alive here, so an equal
        // address means the same texts.
        let same = self.dictionary.as_ref().is_some_and(|old| {
            old.len() == values.len()
                && old.values().as_ptr() == values.values().as_ptr()
                && old.value_offsets().as_ptr() == values.value_offsets().as_ptr()
        });
        if !same {
            self.meanings.clear();
            self.meanings.resize(values.len(), None);
            self.dictionary = Some(values.clone());
        }
    }

    /// The value of this row's text; `meaning` computes it at first use.
    #[inline]
    fn get(
        &mut self,
        row: usize,
        meaning: impl FnOnce(Option<&str>) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let key = self.keys[row];
        let (slot, text) = match self.meanings.get_mut(key as usize) {
            Some(Some(known)) => return Ok(*known),
            Some(slot) => (slot, self.dictionary.as_ref().map(|d| d.value(key as usize))),
            None => (&mut self.null, None),
        };
        if let Some(known) = slot {
            return Ok(*known);
        }
        let found = meaning(text)?;
        *slot = Some(found);
        Ok(found)
    }
}
