//! The screen of `trimtab top`: a pure function from observations to lines of text.

mod pages;

use trimtab_report::escaped;

use super::columns::{self, Column, Sort};
use super::row::Row;

/// What to show, and how.
pub(super) struct Screen<'a> {
    pub(super) rows: &'a [Row],
    /// The time of day.
    pub(super) time: &'a str,
    /// What the figures cover, and what was lost.
    pub(super) about: &'a str,
    /// What is missing, if anything.
    pub(super) note: Option<&'a str>,
    pub(super) sort: Sort,
    /// Which row is selected, in the order shown.
    pub(super) selected: usize,
    pub(super) paused: bool,
    pub(super) page: Page,
    /// How many of the page's lines are scrolled off the top.
    pub(super) scroll: usize,
}

/// Which page is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Table,
    Help,
    /// Everything about the selected drive.
    Details,
}

/// How a line is highlighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Reverse,
    Dim,
}

/// A line of the screen, no wider than the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) style: Style,
    pub(super) text: String,
}

/// Below this height there is no empty line above the page.
const AIRY: usize = 8;

/// Draws the screen for a terminal of this many columns and lines.
pub(super) fn draw(screen: &Screen<'_>, width: usize, height: usize) -> Vec<Line> {
    let line = |style, text: &str| Line { style, text: fit(text, width) };
    let mut lines = head(screen, width, height);
    let room = height.saturating_sub(lines.len() + 1);
    match page(screen, width) {
        None => lines.extend(table(screen, width, room)),
        Some(page) => {
            let first = screen.scroll.min(page.len().saturating_sub(room));
            let shown = page.iter().skip(first).take(room);
            lines.extend(shown.map(|text| line(Style::Plain, text)));
        }
    }
    lines.truncate(height.saturating_sub(1).max(1));
    while lines.len() + 1 < height {
        lines.push(line(Style::Plain, ""));
    }
    if height > 1 {
        lines.push(line(Style::Dim, &keys(screen, width, room)));
    }
    lines
}

/// How far the page can be scrolled.
pub(super) fn last_scroll(screen: &Screen<'_>, width: usize, height: usize) -> usize {
    let room = height.saturating_sub(head(screen, width, height).len() + 1);
    page(screen, width).map_or(0, |page| page.len().saturating_sub(room))
}

/// The lines above the page.
fn head(screen: &Screen<'_>, width: usize, height: usize) -> Vec<Line> {
    let line = |style, text: &str| Line { style, text: fit(text, width) };
    let mut lines = vec![line(Style::Bold, &title(screen, width))];
    // The pages show the whole note.
    if let (Some(note), Page::Table) = (screen.note, screen.page) {
        lines.push(line(Style::Dim, note));
    }
    if height >= AIRY {
        lines.push(line(Style::Plain, ""));
    }
    lines
}

/// The lines of a page that scrolls; none of the table.
fn page(screen: &Screen<'_>, width: usize) -> Option<Vec<String>> {
    let rows = sorted(screen.rows, screen.sort);
    let entries = match (screen.page, rows.get(screen.selected).or(rows.last())) {
        (Page::Table, _) => return None,
        (Page::Details, Some(row)) => pages::details(row, screen.note),
        (Page::Help | Page::Details, _) => pages::help(),
    };
    let note = screen.note.map(|note| (String::new(), note.to_owned()));
    let note = pages::lines(note.as_slice(), width);
    Some([note, pages::lines(&entries, width)].concat())
}

/// The last line. Essential keys come first, for narrow terminals.
fn keys(screen: &Screen<'_>, width: usize, room: usize) -> String {
    let paused = if screen.paused { "PAUSED  " } else { "" };
    let back = match screen.page {
        Page::Table => {
            let sort = screen.sort.name();
            return format!(
                "{paused}h help  q quit  d details  s sort  ↑↓ select  p pause  (by {sort})"
            );
        }
        Page::Help => 'h',
        Page::Details => 'd',
    };
    let lines = page(screen, width).map_or(0, |page| page.len());
    let first = screen.scroll.min(lines.saturating_sub(room));
    let place = match lines > room {
        true => format!("{}–{} of {lines}  ↑↓ scroll  ", first + 1, first + room),
        false => String::new(),
    };
    format!("{paused}{back} back  {place}q quit")
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
    // A narrow terminal leaves out the time of day.
    if gap < 2 { left } else { format!("{left}{}{}", " ".repeat(gap), screen.time) }
}

/// The heading, as many rows as fit, and further facts about the selected drive.
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
    let facts = rows.get(selected).map_or(Vec::new(), |row| pages::facts(row, screen.note));
    let facts = pages::lines(&facts, width);
    // At least one row is shown, and always the selected one.
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
    lines.extend(facts.iter().map(|text| Line { style: Style::Plain, text: fit(text, width) }));
    if lines.len() > room && !facts.is_empty() && room > fit_rows + 2 {
        lines.truncate(room - 1);
        lines.push(Line { style: Style::Dim, text: fit("… d shows all", width) });
    }
    lines.truncate(room);
    lines
}

/// The beginning of a text that is too wide, without control characters.
fn fit(text: &str, width: usize) -> String {
    let text = escaped(text);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
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
