//! Figures and tables, aligned.

use trimtab_report::escaped;

use crate::console;

/// Width of the labels of [`columns`].
const LABEL: usize = 24;
/// Width of each trace's column beside them.
const COLUMN: usize = 17;
/// The width if it is unknown: for a pipe, a file.
const DEFAULT_WIDTH: usize = 120;

/// One line of [`columns`].
pub(super) enum Row {
    /// A blank line between two sections.
    Gap,
    /// A label and each trace's figure.
    Figures(String, Vec<String>),
}

/// The width of the terminal, if standard output is one.
pub(super) fn terminal_width() -> usize {
    console::width().unwrap_or(DEFAULT_WIDTH)
}

/// How many traces fit side by side.
pub(super) const fn columns_within(width: usize) -> usize {
    let columns = width.saturating_sub(LABEL) / (COLUMN + 1);
    if columns == 0 { 1 } else { columns }
}

/// Labels on the left, figures in right-aligned columns; a single column is left-aligned,
/// close to its labels.
pub(super) fn columns(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let Row::Figures(label, values) = row {
            let mut line = pad_right(&escaped(label), LABEL);
            for value in values.iter().map(|value| escaped(value)) {
                if values.len() == 1 {
                    line += &value;
                } else {
                    line.push(' ');
                    line += &pad_left(&shortened(&value), COLUMN);
                }
            }
            text += line.trim_end();
        }
        text.push('\n');
    }
    text
}

/// The end of a text that is too long for a column: the end of a path is the most specific
/// part.
fn shortened(text: &str) -> String {
    let surplus = chars(text).saturating_sub(COLUMN);
    if surplus == 0 {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(surplus + 1)).collect()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn pad_left(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(chars(text))) + text
}

fn pad_right(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(chars(text)))
}
