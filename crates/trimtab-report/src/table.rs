//! Tables and key/value blocks, for terminals and pages.

use std::fmt::{self, Display, Write};

use crate::escape::Html;

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

    /// Puts a line above the table.
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
        let mut widths: Vec<_> = self.columns.iter().map(|(name, _)| width(name)).collect();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            for (widest, cell) in widths.iter_mut().zip(cells) {
                *widest = (*widest).max(width(cell));
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
            writeln!(out, "{caption}")?;
        }
        self.print_line(out, widths, gap, self.columns.iter().map(|(name, _)| name.as_str()))?;
        for row in &self.rows {
            match row {
                Row::Group(heading) => writeln!(out, "{heading}")?,
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
            let padding = " ".repeat(widest - width(cell));
            match align {
                Align::Left => write!(line, "{cell}{padding}{gap}")?,
                Align::Right => write!(line, "{padding}{cell}{gap}")?,
            }
        }
        // No trailing blanks: they make copies of the text ugly.
        writeln!(out, "{}", line.trim_end())
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
                    for (cell, (_, align)) in cells.zip(&self.columns) {
                        _ = write!(out, "<td{}>{}</td>", class(*align), Html(cell));
                    }
                }
            }
            out += "</tr>\n";
        }
        out += "</tbody></table></div>\n";
        out
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, &self.widths(), "  ")
    }
}

/// Keys and values, one pair a line: what is known of something as a whole.
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
        let widest = self.pairs.iter().map(|(key, _)| width(key)).max().unwrap_or(0);
        for (key, value) in &self.pairs {
            let padding = " ".repeat(widest - width(key));
            writeln!(f, "{}", format!("{key}{padding}  {value}").trim_end())?;
        }
        Ok(())
    }
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
    fn columns_line_up_whatever_the_characters() {
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
    fn combining_marks_take_no_room() {
        assert_eq!(width("e\u{301}a"), 2);
        assert_eq!(width("µs"), 2);
    }

    #[test]
    fn html_is_escaped_and_complete() {
        let html = sample().html();
        assert!(html.contains("<td colspan=\"3\">slow &lt;ones&gt;"));
        assert!(html.contains("<td>日本</td><td class=\"right\">1.23 ms</td><td></td>"));
    }

    #[test]
    fn facts_line_up() {
        let mut facts = Facts::new();
        facts.add("µ", "1");
        facts.add("samples", "");
        assert_eq!(facts.to_string(), "µ        1\nsamples\n");
    }
}
