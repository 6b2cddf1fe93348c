//! The columns of `trimtab top`, and which of them fit.

use std::cmp::Ordering;

use trimtab_io::Nanos;
use trimtab_train::InflectionShift;

use super::row::Row;
use crate::units::{NONE, short_count};

/// A column of figures.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) width: usize,
    /// Columns with the greatest rank are left out first on a narrow terminal.
    rank: u8,
    pub(super) left: bool,
    pub(super) text: fn(&Row) -> String,
}

const fn column(name: &'static str, width: usize, rank: u8, text: fn(&Row) -> String) -> Column {
    Column { name, width, rank, left: false, text }
}

/// In the order shown. They take 80 columns with a device name of 8.
static COLUMNS: [Column; 12] = [
    Column { left: true, ..column("device", 8, 0, |row| row.device.clone()) },
    column("read/s", 6, 1, |row| rate(row.reads_per_second)),
    column("write/s", 7, 2, |row| rate(row.writes_per_second)),
    column("MB/s", 5, 6, |row| megabytes(row.bytes_per_second)),
    column("depth", 5, 3, |row| depth(row.depth)),
    column("p50", 6, 5, |row| time(row.p50_ns)),
    column("p99", 6, 4, |row| time(row.p99_ns)),
    column("p99.9", 6, 7, |row| time(row.p999_ns)),
    column("late", 5, 8, |row| share(row.predicted_late_share)),
    column("f.sub", 5, 9, |row| share(row.false_submit_rate)),
    column("f.rev", 5, 10, |row| share(row.false_revoke_rate)),
    column("drift", 5, 11, drift),
];

/// All of them.
pub(super) const fn all() -> &'static [Column] {
    &COLUMNS
}

/// The columns that fit beside a device name of this width: always that, then by rank.
pub(super) fn fitting(width: usize, name_width: usize) -> Vec<Column> {
    let mut columns = COLUMNS;
    columns[0].width = name_width;
    let wide = |columns: &[Column]| -> usize { columns.iter().map(|c| c.width + 1).sum() };
    let mut kept = columns.to_vec();
    while kept.len() > 1 && wide(&kept) - 1 > width {
        let last = kept.iter().map(|column| column.rank).max().expect("there are columns");
        kept.retain(|column| column.rank != last);
    }
    kept
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Device,
    Reads,
    Writes,
    Depth,
    P99,
    Late,
}

impl Sort {
    const ALL: [Self; 6] =
        [Self::Device, Self::Reads, Self::Writes, Self::Depth, Self::P99, Self::Late];

    pub(super) fn next(self) -> Self {
        let here = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(here + 1) % Self::ALL.len()]
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Reads => "read/s",
            Self::Writes => "write/s",
            Self::Depth => "depth",
            Self::P99 => "p99",
            Self::Late => "late",
        }
    }

    /// The greatest figure first, names in alphabetical order; ties by name.
    pub(super) fn compare(self, a: &Row, b: &Row) -> Ordering {
        let figure = |row: &Row| match self {
            Self::Device => 0.0,
            Self::Reads => row.reads_per_second,
            Self::Writes => row.writes_per_second,
            Self::Depth => row.depth,
            Self::P99 => row.p99_ns.map_or(-1.0, Nanos::as_secs_f64),
            Self::Late => row.predicted_late_share.unwrap_or(-1.0),
        };
        figure(b).total_cmp(&figure(a)).then_with(|| a.device.cmp(&b.device))
    }
}

/// Distinguishes a small rate from zero.
fn rate(per_second: f64) -> String {
    short_count(per_second.round() as u64)
}

fn megabytes(bytes_per_second: f64) -> String {
    depth(bytes_per_second / 1e6)
}

/// With a decimal for small numbers.
fn depth(number: f64) -> String {
    if number < 99.95 { format!("{number:.1}") } else { short_count(number.round() as u64) }
}

/// As [`Nanos`] prints it, without the space.
fn time(latency: Option<Nanos>) -> String {
    latency.map_or_else(|| NONE.to_owned(), |latency| latency.to_string().replace(' ', ""))
}

fn share(share: Option<f64>) -> String {
    match share {
        None => NONE.to_owned(),
        Some(share) if share >= 0.9995 => "100%".to_owned(),
        Some(share) => format!("{:.1}%", share * 100.0),
    }
}

/// Whether the model should be trained again; the details page gives the reason.
fn drift(row: &Row) -> String {
    match row.drift {
        _ if row.retrain => "train".to_owned(),
        None => NONE.to_owned(),
        Some(InflectionShift::By(percentiles)) => match percentiles.abs() {
            ..0.05 => "0.0".to_owned(),
            ..9.95 => format!("{percentiles:+.1}"),
            _ => format!("{percentiles:+.0}"),
        },
        Some(InflectionShift::Appeared) => "new".to_owned(),
        Some(InflectionShift::Vanished) => "gone".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_columns_hold_everything() {
        assert_eq!(fitting(80, 8).len(), COLUMNS.len());
        let wide: usize = fitting(80, 8).iter().map(|column| column.width + 1).sum();
        assert_eq!(wide - 1, 80);
    }

    #[test]
    fn narrow_terminal_keeps_important_columns() {
        let names = |width| fitting(width, 7).iter().map(|c| c.name).collect::<Vec<_>>();
        assert_eq!(names(40), ["device", "read/s", "write/s", "depth", "p99"]);
        assert_eq!(names(10), ["device"]);
        assert_eq!(names(0), ["device"]);
    }

    #[test]
    fn drift_has_a_sign_and_a_word_for_training() {
        let text = |drift, retrain| self::drift(&Row { drift, retrain, ..Row::default() });
        assert_eq!(text(None, false), NONE);
        assert_eq!(text(Some(InflectionShift::By(-0.04)), false), "0.0");
        assert_eq!(text(Some(InflectionShift::By(-3.21)), false), "-3.2");
        assert_eq!(text(Some(InflectionShift::By(12.3)), false), "+12");
        assert_eq!(text(Some(InflectionShift::Vanished), false), "gone");
        for drift in [None, Some(InflectionShift::By(-0.5)), Some(InflectionShift::Vanished)] {
            assert_eq!(text(drift, true), "train");
        }
    }
}
