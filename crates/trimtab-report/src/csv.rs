//! Figures as comma-separated values (RFC 4180), for spreadsheets and scripts.

use std::fmt::{self, Display, Write};

use serde_json::Value;

use crate::chart::Chart;

/// One line of CSV for each row of these cells.
pub(crate) fn line<S: AsRef<str>>(out: &mut String, cells: impl IntoIterator<Item = S>) {
    for (i, cell) in cells.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let cell = cell.as_ref();
        if cell.contains(['"', ',', '\n', '\r']) {
            _ = write!(out, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            out.push_str(cell);
        }
    }
    out.push_str("\r\n");
}

impl Chart {
    /// What the chart draws: a row for each point, with its series' name first.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let encoding = &self.spec["encoding"];
        let title = |field: &str| encoding[field]["title"].as_str().unwrap_or(field).to_owned();
        let series = self.spec["data"]["values"].as_array();
        let Some(first) = series.and_then(|all| all.first()) else { return out };
        // A heat map counts what is in cells, by column and row.
        let fields: &[&str] = if first["n"].is_array() { &["c", "r", "n"] } else { &["x", "y"] };
        let names = fields.iter().map(|&field| match field {
            "c" => format!("column of {}", title("x")),
            "r" => format!("row of {}", title("y")),
            "n" => "requests".to_owned(),
            field => title(field),
        });
        line(&mut out, std::iter::once("series".to_owned()).chain(names));
        // The first series stands last, to be drawn on top.
        for one in series.into_iter().flatten().rev() {
            let columns: Vec<&[Value]> =
                fields.iter().map(|&f| one[f].as_array().map_or(&[][..], Vec::as_slice)).collect();
            for row in 0..columns[0].len() {
                let cell = |values: &&[Value]| match values.get(row) {
                    Some(Value::String(text)) => text.clone(),
                    None | Some(Value::Null) => String::new(),
                    Some(other) => other.to_string(),
                };
                let name = one["s"].as_str().unwrap_or_default().to_owned();
                line(&mut out, std::iter::once(name).chain(columns.iter().map(cell)));
            }
        }
        out
    }
}

/// A file's name made of a title.
pub(crate) fn file_name(title: &str) -> String {
    let letters = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = title.chars().map(letters).collect();
    let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).take(8).collect();
    if words.is_empty() { "figures.csv".to_owned() } else { words.join("-") + ".csv" }
}

/// A link that saves a text as a file, without a network: the text is in it.
pub(crate) struct Download<'a> {
    pub(crate) name: &'a str,
    pub(crate) csv: &'a str,
}

impl Display for Download<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<a class=\"csv\" download=\"{}\" href=\"data:text/csv;charset=utf-8,",
            self.name
        )?;
        for byte in self.csv.bytes() {
            match byte {
                // What neither a URL nor HTML gives a meaning.
                b if b.is_ascii_alphanumeric() || b"-_.,~:;()*".contains(&b) => {
                    f.write_char(b.into())?;
                }
                b => write!(f, "%{b:02X}")?,
            }
        }
        write!(f, "\">CSV</a>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Binned, Bins, Unit, steps};

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut out = String::new();
        line(&mut out, ["a", "b,c", "d\"e", "1\n2", ""]);
        assert_eq!(out, "a,\"b,c\",\"d\"\"e\",\"1\n2\",\r\n");
    }

    #[test]
    fn a_chart_gives_its_points() {
        let axis = |title: &str| Axis::new(title, Unit::Plain);
        let binned = |name: &str, values: [Option<f64>; 2]| Binned {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let series = [binned("p50", [Some(1.0), Some(2.5)]), binned("max", [None, Some(7.0)])];
        let bins = Bins { start: 0.0, width: 0.5 };
        let csv = steps("t", &axis("time (s)"), &axis("latency"), bins, &series).csv();
        let expected = "series,time (s),latency\r\np50,0.0,1.0\r\np50,0.5,2.5\r\np50,1.0,2.5\r\n\
                        max,0.5,7.0\r\nmax,1.0,7.0\r\n";
        let numbers = |text: &str| text.replace(".0", "");
        assert_eq!(numbers(&csv), numbers(expected));
    }

    #[test]
    fn links_hold_the_text_and_nothing_that_ends_them() {
        let link = Download { name: "a.csv", csv: "a,\"<b>'&#%é\r\n" }.to_string();
        assert_eq!(
            link,
            "<a class=\"csv\" download=\"a.csv\" href=\"data:text/csv;charset=utf-8,\
             a,%22%3Cb%3E%27%26%23%25%C3%A9%0D%0A\">CSV</a>"
        );
        assert_eq!(file_name("Response time of reads, µs"), "response-time-of-reads-s.csv");
        assert_eq!(file_name("日本"), "figures.csv");
    }
}
