//! `trimtab top` without a terminal: lines, or JSON objects.

use std::io::{self, Write};

use anyhow::Result;

use super::columns::{self, Sort};
use super::row::Row;
use super::screen::sorted;
use crate::console;
use trimtab_report::escaped;

/// No limit on the line length.
const WIDE: usize = 1000;

/// A line for each drive, under a heading every twentieth time.
pub(super) fn lines(rows: &[Row], turn: u64) -> Result<()> {
    let name_width = rows.iter().map(|row| row.device.chars().count()).max().unwrap_or(0).max(12);
    let columns = columns::fitting(WIDE, name_width);
    let mut out = console::out(false);
    let mut line = |of: &dyn Fn(&columns::Column) -> String| {
        let cells = columns.iter().map(|column| match column.left {
            true => format!("{:<1$}", of(column), column.width),
            false => format!("{:>1$}", of(column), column.width),
        });
        let line = cells.collect::<Vec<_>>().join(" ");
        writeln!(out, "{}", escaped(line.trim_end()))
    };
    if turn.is_multiple_of(20) {
        line(&|column| column.name.to_owned())?;
    }
    for row in sorted(rows, Sort::Device) {
        line(&|column| (column.text)(row))?;
    }
    Ok(out.flush()?)
}

/// An object for each drive, on a line.
pub(super) fn json(rows: &[Row]) -> Result<()> {
    let mut out = console::out(true);
    for row in rows {
        serde_json::to_writer(&mut out, row).map_err(io::Error::from)?;
        writeln!(out)?;
    }
    Ok(out.flush()?)
}
