//! Arrow batches to records.
//!
//! Columns are first widened one by one to plain numbers, then one loop over
//! the rows checks them and puts the records together. Texts are dictionary
//! keys, looked up among the trace's names once per dictionary entry.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::schema::{
    ARRIVAL, COMMAND, COMPLETE, DEVICE, FLAGS, ISSUE, LENGTH, NULL, Numbers, OFFSET, OP, PID,
};
use crate::error::Malformed;
use crate::fields::show;
use crate::names::{CommandId, Names};
use crate::record::Record;

/// The name of the device where the file does not tell.
const UNNAMED: &[u8] = b"?";

/// One batch, column by column, and how far it has been turned into records.
#[derive(Default)]
pub(super) struct Columns {
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
    /// Takes in a batch, in place of the one before.
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
        Ok(())
    }

    /// Whether every row has been turned into a record.
    pub(super) const fn is_used_up(&self) -> bool {
        self.next >= self.arrival.len()
    }

    /// Appends the records of the rows that are left. On an error it stops
    /// behind the bad row, and tells how many rows it went through.
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
            return Err(Malformed(numbers.fault()));
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

/// A column of any integer type as 64-bit numbers, with [`NULL`] for null.
fn widen(name: &str, column: &dyn Array, out: &mut Vec<u64>) -> Result<(), Malformed> {
    match column.data_type() {
        DataType::Int8 => copy::<Int8Type>(column, out, |v| i64::from(v) as u64),
        DataType::Int16 => copy::<Int16Type>(column, out, |v| i64::from(v) as u64),
        DataType::Int32 => copy::<Int32Type>(column, out, |v| i64::from(v) as u64),
        DataType::Int64 => copy::<Int64Type>(column, out, |v| v as u64),
        DataType::UInt8 => copy::<UInt8Type>(column, out, u64::from),
        DataType::UInt16 => copy::<UInt16Type>(column, out, u64::from),
        DataType::UInt32 => copy::<UInt32Type>(column, out, u64::from),
        DataType::UInt64 => copy::<UInt64Type>(column, out, |v| v),
        other => return Err(Malformed(format!("column {name}: unexpected type {other}"))),
    }
    Ok(())
}

fn copy<T: ArrowPrimitiveType>(
    column: &dyn Array,
    out: &mut Vec<u64>,
    wide: impl Fn(T::Native) -> u64,
) {
    let array = column.as_primitive::<T>();
    out.clear();
    // A value that equals NULL (-1, or the largest of all) is as absurd as its
    // neighbour, which does not pass for an absent one.
    out.extend(array.values().iter().map(|&v| wide(v).min(NULL - 1)));
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

/// A column of texts, each of which stands for a `T`.
struct Texts<T> {
    /// Which entry of the dictionary stands in each row.
    keys: Vec<u32>,
    dictionary: Option<StringArray>,
    /// What each entry stands for, once it was asked for.
    meanings: Vec<Option<T>>,
    /// What null stands for.
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
        // Batches of one row group share a dictionary. The old one is kept
        // alive here, so an equal address means the same texts.
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

    /// What the text of this row stands for; `meaning` finds it out the first
    /// time.
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
