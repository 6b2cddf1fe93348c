//! What `trimtab top` draws: a pure function from what is seen to lines of text.

use super::columns::{self, Column, Sort};
use super::row::Row;

/// All that is to be shown, and how.
pub(super) struct Screen<'a> {
    pub(super) rows: &'a [Row],
    /// The time of day.
    pub(super) time: &'a str,
    /// What the figures cover, and what was lost.
    pub(super) about: &'a str,
    /// What is lacking, if anything.
    pub(super) note: Option<&'a str>,
    pub(super) sort: Sort,
    /// Which row is selected, in the order shown.
    pub(super) selected: usize,
    pub(super) paused: bool,
    pub(super) help: bool,
}

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Reverse,
    Dim,
}

/// A line of the screen, no wider than that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) style: Style,
    pub(super) text: String,
}

const HELP: &[&str] = &[
    "read/s, write/s, MB/s   answered since the last look",
    "depth     requests in flight, the mean since the last look",
    "p50 …     latency of the last seconds' reads, arrival to answer; – if they are",
    "          too few: a percentile p needs 10/(1-p)",
    "late      of these reads, the share that the model had predicted late",
    "f.sub     so far: of the reads predicted fast, the share that was late",
    "f.rev     so far: of the reads predicted late, and sent all the same, the",
    "          share that was fast",
    "drift     by how many percentiles the inflection point has moved since training;",
    "          ! the model should be trained again",
    "",
    "q quit   s sort by the next column   ↑ ↓ select   p pause   h back",
];

const KEYS: &str = "q quit  s sort  ↑↓ select  p pause  h help";

/// Draws it for a terminal of so many columns and lines.
pub(super) fn draw(screen: &Screen<'_>, width: usize, height: usize) -> Vec<Line> {
    let line = |style, text: &str| Line { style, text: fit(text, width) };
    let mut lines = vec![line(Style::Bold, &title(screen, width))];
    if let Some(note) = screen.note {
        lines.push(line(Style::Dim, note));
    }
    lines.push(line(Style::Plain, ""));
    if screen.help {
        lines.extend(HELP.iter().map(|text| line(Style::Plain, text)));
    } else {
        let room = height.saturating_sub(lines.len() + 1);
        lines.extend(table(screen, width, room));
    }
    lines.truncate(height.saturating_sub(1).max(1));
    while lines.len() + 1 < height {
        lines.push(line(Style::Plain, ""));
    }
    if height > 1 {
        let state = if screen.paused { "PAUSED  " } else { "" };
        lines.push(line(Style::Dim, &format!("{state}{KEYS}  (sorted by {})", screen.sort.name())));
    }
    lines
}

/// The rows in the order in which they are shown.
pub(super) fn sorted(rows: &[Row], sort: Sort) -> Vec<&Row> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| sort.compare(a, b));
    rows
}

fn title(screen: &Screen<'_>, width: usize) -> String {
    let left = format!("trimtab top  {}", screen.about);
    let gap = width.saturating_sub(left.chars().count() + screen.time.chars().count());
    // A narrow terminal does without the time of day.
    if gap < 2 { left } else { format!("{left}{}{}", " ".repeat(gap), screen.time) }
}

/// The heading, as many rows as there is room for, and what else is known of the
/// selected one.
fn table(screen: &Screen<'_>, width: usize, room: usize) -> Vec<Line> {
    let rows = sorted(screen.rows, screen.sort);
    let name_width = rows.iter().map(|row| row.device.chars().count()).max().unwrap_or(0);
    let columns = columns::fitting(width, name_width.max("device".len()));
    let cell = |column: &Column, text: &str| match column.left {
        true => format!("{text:<0$}", column.width),
        false => format!("{text:>0$}", column.width),
    };
    let join = |of: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = columns.iter().map(|column| cell(column, &of(column))).collect();
        fit(&cells.join(" "), width)
    };
    let mut lines =
        vec![Line { style: Style::Reverse, text: pad(&join(&|c| c.name.to_owned()), width) }];
    let selected = screen.selected.min(rows.len().saturating_sub(1));
    let facts = rows.get(selected).map_or(&[][..], |row| &row.facts);
    // At least one row is shown, and the selected one always.
    let fit_rows =
        room.saturating_sub(1 + facts.len() + 1).max(room.saturating_sub(1).min(3)).max(1);
    let first = selected.saturating_sub(fit_rows - 1);
    for (i, row) in rows.iter().enumerate().skip(first).take(fit_rows) {
        let style = if i == selected && rows.len() > 1 { Style::Bold } else { Style::Plain };
        lines.push(Line { style, text: join(&|column| (column.text)(row)) });
    }
    let hidden = rows.len().saturating_sub(fit_rows);
    if hidden > 0 {
        let text = format!("… {hidden} more");
        lines.push(Line { style: Style::Dim, text: fit(&text, width) });
    }
    lines.push(Line { style: Style::Plain, text: String::new() });
    lines.extend(told(rows.get(selected).copied(), width));
    lines.truncate(room);
    lines
}

/// The facts of a row, their values below each other.
fn told(row: Option<&Row>, width: usize) -> Vec<Line> {
    let Some(row) = row else { return Vec::new() };
    let names = row.facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, value): &(String, String)| {
        let text = fit(&format!("{name:<names$}  {value}"), width);
        Line { style: Style::Plain, text }
    };
    row.facts.iter().map(line).collect()
}

/// The beginning of a text that is too wide, without control characters.
fn fit(text: &str, width: usize) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    if text.chars().count() <= width {
        return text.chars().map(shown).collect();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).map(shown).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

fn pad(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

#[cfg(test)]
mod tests;
