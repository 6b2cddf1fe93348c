//! Tables and key/value blocks, for terminals and pages.

use std::fmt::{self, Display, Write};

use crate::csv::{self, Download};
use crate::escape::Html;
use crate::terminal::escaped;

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names and other words.
    Left,
    /// Numbers, so that their digits line up.
    Right,
}

/// A table with named columns. `Display` prints it aligned, two spaces between
/// columns.
#[derive(Clone, Debug)]
pub struct Table {
    caption: Option<String>,
    columns: Vec<(String, Align)>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Row {
    Group(String),
    Cells(Vec<String>),
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new<S: AsRef<str>>(columns: &[(S, Align)]) -> Self {
        let columns = columns.iter().map(|(name, align)| (name.as_ref().to_owned(), *align));
        Self { caption: None, columns: columns.collect(), rows: Vec::new() }
    }

    /// Puts a line above the table, or several. Names in it are to be [`escaped`], for here
    /// a line end is one.
    #[must_use]
    pub fn with_caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = Some(caption.into());
        self
    }

    /// Adds a row. Missing cells are empty.
    ///
    /// # Panics
    /// There are more cells than columns.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert!(cells.len() <= self.columns.len(), "more cells than columns");
        self.rows.push(Row::Cells(cells));
    }

    /// Begins a group of rows under a heading of its own.
    pub fn group(&mut self, heading: impl Into<String>) {
        self.rows.push(Row::Group(heading.into()));
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> =
            self.columns.iter().map(|(name, _)| width(&escaped(name))).collect();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            for (widest, cell) in widths.iter_mut().zip(cells) {
                *widest = (*widest).max(width(&escaped(cell)));
            }
        }
        widths
    }

    /// The table for a terminal of this many columns: one space between columns
    /// where two do not fit.
    #[must_use]
    pub fn within(&self, terminal: usize) -> String {
        let widths = self.widths();
        let needed = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let gap = if needed <= terminal { "  " } else { " " };
        let mut text = String::new();
        self.print(&mut text, &widths, gap).expect("a String takes everything");
        text
    }

    fn print(&self, out: &mut impl Write, widths: &[usize], gap: &str) -> fmt::Result {
        if let Some(caption) = &self.caption {
            caption.lines().try_for_each(|line| writeln!(out, "{}", escaped(line)))?;
        }
        self.print_line(out, widths, gap, self.columns.iter().map(|(name, _)| name.as_str()))?;
        for row in &self.rows {
            match row {
                Row::Group(heading) => writeln!(out, "{}", escaped(heading))?,
                Row::Cells(cells) => {
                    self.print_line(out, widths, gap, cells.iter().map(String::as_str))?;
                }
            }
        }
        Ok(())
    }

    fn print_line<'a>(
        &self,
        out: &mut impl Write,
        widths: &[usize],
        gap: &str,
        cells: impl Iterator<Item = &'a str>,
    ) -> fmt::Result {
        let mut line = String::new();
        for ((cell, (_, align)), &widest) in cells.zip(&self.columns).zip(widths) {
            let cell = escaped(cell);
            let padding = " ".repeat(widest - width(&cell));
            match align {
                Align::Left => write!(line, "{cell}{padding}{gap}")?,
                Align::Right => write!(line, "{padding}{cell}{gap}")?,
            }
        }
        // No trailing blanks: they make copies of the text ugly.
        writeln!(out, "{}", line.trim_end())
    }

    /// The rows as CSV, cells as the table shows them, but numbers without
    /// separators of thousands. A group's heading stands before each of its rows.
    #[must_use]
    pub fn csv(&self) -> String {
        let groups = self.rows.iter().any(|row| matches!(row, Row::Group(_)));
        let mut group = groups.then(String::new);
        let mut out = String::new();
        let names = self.columns.iter().map(|(name, _)| name.clone());
        csv::line(&mut out, group.iter().map(|_| "group".to_owned()).chain(names));
        for row in &self.rows {
            match row {
                Row::Group(heading) => group = Some(heading.clone()),
                Row::Cells(cells) => {
                    let cells = cells.iter().map(|cell| plain_number(cell));
                    csv::line(&mut out, group.iter().cloned().chain(cells));
                }
            }
        }
        out
    }

    /// The name of the table's file.
    pub(crate) fn file_name(&self) -> String {
        const LONGEST: usize = 60;
        let caption = self.caption.as_deref().unwrap_or_default();
        let title = caption.split(['.', ':', ';', ',']).next().unwrap_or_default();
        if !title.is_empty() && title.len() <= LONGEST {
            return csv::file_name(title);
        }
        let columns: Vec<_> = self.columns.iter().take(3).map(|(name, _)| name.as_str()).collect();
        csv::file_name(&columns.join(" "))
    }

    /// The table as an HTML element.
    pub(crate) fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table>\n");
        if let Some(caption) = &self.caption {
            _ = writeln!(out, "<caption>{}</caption>", Html(caption));
        }
        out += "<thead><tr>";
        for (name, align) in &self.columns {
            _ = write!(out, "<th{}>{}</th>", class(*align), Html(name));
        }
        out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            out += match row {
                Row::Group(_) => "<tr class=\"group\">",
                Row::Cells(_) => "<tr>",
            };
            match row {
                Row::Group(heading) => {
                    _ = write!(out, "<td colspan=\"{}\">{}", self.columns.len(), Html(heading));
                }
                Row::Cells(cells) => {
                    let cells = cells.iter().map(String::as_str).chain(std::iter::repeat(""));
                    for (cell, (name, align)) in cells.zip(&self.columns) {
                        // On a narrow screen each cell is a line, with its column's name.
                        let (class, name) = (class(*align), Html(name));
                        _ = write!(out, "<td{class} data-label=\"{name}\">{}</td>", Html(cell));
                    }
                }
            }
            out += "</tr>\n";
        }
        let download = Download { name: &self.file_name(), csv: &self.csv() };
        _ = writeln!(out, "</tbody></table>{download}</div>");
        out
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, &self.widths(), "  ")
    }
}

/// Keys and values, one pair per line.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pairs: Vec<(String, String)>,
}

impl Facts {
    /// Nothing known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line.
    pub fn add(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.pairs.push((key.into(), value.into()));
    }

    /// The block as an HTML element.
    pub(crate) fn html(&self) -> String {
        let mut out = String::from("<dl>\n");
        for (key, value) in &self.pairs {
            _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", Html(key), Html(value));
        }
        out += "</dl>\n";
        out
    }
}

impl Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.pairs.iter().map(|(key, _)| width(&escaped(key))).max().unwrap_or(0);
        for (key, value) in &self.pairs {
            let (key, value) = (escaped(key), escaped(value));
            let padding = " ".repeat(widest - width(&key));
            writeln!(f, "{}", format!("{key}{padding}  {value}").trim_end())?;
        }
        Ok(())
    }
}

/// `1,234` as `1234`; other text unchanged.
fn plain_number(cell: &str) -> String {
    let number = cell.bytes().all(|b| b.is_ascii_digit() || b == b',' || b == b'.');
    if number { cell.replace(',', "") } else { cell.to_owned() }
}

fn class(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"right\"",
    }
}

/// Terminal columns that a text takes: one for most characters, none for
/// combining marks, two for East Asian wide ones and emoji. The ranges are the
/// blocks of the Unicode standard that hold those, not character by character:
/// enough for names of files and devices.
fn width(text: &str) -> usize {
    let columns = |c| match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    };
    text.chars().map(columns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table =
            Table::new(&[("device", Align::Left), ("p50", Align::Right), ("note", Align::Left)]);
        table.row(["sda", "85.0 µs", "é"]);
        table.group("slow <ones>");
        table.row(["日本", "1.23 ms"]);
        table
    }

    #[test]
    fn columns_align_for_any_characters() {
        let expected = "\
device      p50  note
sda     85.0 µs  é
slow <ones>
日本    1.23 ms
";
        assert_eq!(sample().to_string(), expected);
        let captioned = sample().with_caption("Devices").to_string();
        assert_eq!(captioned, format!("Devices\n{expected}"));
    }

    #[test]
    fn narrow_terminals_get_narrow_gaps() {
        assert_eq!(sample().within(21).lines().next(), Some("device      p50  note"));
        assert_eq!(sample().within(20).lines().next(), Some("device     p50 note"));
    }

    #[test]
    fn combining_marks_have_zero_width() {
        assert_eq!(width("e\u{301}a"), 2);
        assert_eq!(width("µs"), 2);
    }

    #[test]
    fn control_characters_are_escaped_and_aligned() {
        let mut table = Table::new(&[("name", Align::Left), ("\x1b[1m", Align::Right)]);
        table.row(["a\x1b]0;x\x07\n", "1"]);
        table.group("g\n");
        let text = table.with_caption("over\ntwo\x07").to_string();
        let expected = "\
over
two\\x07
name             \\x1b[1m
a\\x1b]0;x\\x07\\n        1
g\\n
";
        assert_eq!(text, expected);
        let mut facts = Facts::new();
        facts.add("k\x1b", "v\n\u{9b}");
        assert_eq!(facts.to_string(), "k\\x1b  v\\n\\u{9b}\n");
    }

    #[test]
    fn html_is_escaped_and_complete() {
        let html = sample().html();
        assert!(html.contains("<td colspan=\"3\">slow &lt;ones&gt;"));
        assert!(html.contains("<td data-label=\"device\">日本</td>"));
        assert!(html.contains("<td class=\"right\" data-label=\"p50\">1.23 ms</td>"));
    }

    #[test]
    fn csv_has_groups_as_a_column() {
        let mut table = sample();
        table.row(["sdb", "1,234.5"]);
        let csv = "group,device,p50,note\r\n,sda,85.0 µs,é\r\nslow <ones>,日本,1.23 ms\r\n\
                   slow <ones>,sdb,1234.5\r\n";
        assert_eq!(table.csv(), csv);
        let mut plain = Table::new(&[("a", Align::Left)]);
        plain.row(["1,2,x"]);
        assert_eq!(plain.csv(), "a\r\n\"1,2,x\"\r\n");
    }

    #[test]
    fn facts_line_up() {
        let mut facts = Facts::new();
        facts.add("µ", "1");
        facts.add("samples", "");
        assert_eq!(facts.to_string(), "µ        1\nsamples\n");
    }
}
