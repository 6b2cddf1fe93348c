//! Figures and tables, aligned.

use trimtab_report::escaped;

use crate::console;

/// Room for the labels of [`columns`].
const LABEL: usize = 24;
/// Room for each trace beside them.
const COLUMN: usize = 17;
/// Where the width is not known: a pipe, a file.
const DEFAULT_WIDTH: usize = 120;

/// One line of [`columns`].
pub(super) enum Row {
    /// Room between two sections.
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

/// Labels at the left, figures in right-aligned columns; a single column is
/// aligned at the left, where the eye finds it.
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

/// The end of a text that is too long for a column: of a path, it tells the most.
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
