//! Figures as comma-separated values (RFC 4180), for spreadsheets and scripts.

use std::fmt::{self, Display, Write};

use crate::chart::{BinnedSeries, Bins, Chart, Data, rounded};

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
    /// The chart's figures: a row for each point, bin or cell, with its series' name
    /// first. Gaps are left out.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let (x, y) = (self.x.column_name(), self.y.column_name());
        let number = |value: f64| rounded(value).to_string();
        match &self.data {
            Data::Lines(lines) => {
                line(&mut out, ["series", &x, &y]);
                for series in lines {
                    for &(at, value) in &series.points {
                        let Some(value) = value else { continue };
                        let (at, value) = (self.x.cell(at), self.y.cell(value));
                        line(&mut out, [series.name.as_str(), &at, &value]);
                    }
                }
            }
            Data::Steps(bins, series) | Data::Areas(bins, series) => {
                line(&mut out, ["series", &format!("{x} from"), &format!("{x} to"), &y]);
                let edge = |bin| number(bins.edge(bin));
                rows(series, |name, bin, value| {
                    line(&mut out, [name, &edge(bin), &edge(bin + 1), &number(value)]);
                });
            }
            Data::Bars(categories, series) => {
                line(&mut out, ["series", &x, &y]);
                rows(series, |name, index, value| {
                    let category = categories.get(index).map_or("", String::as_str);
                    line(&mut out, [name, category, &number(value)]);
                });
            }
            Data::HeatMap { columns, rows, cells } => {
                line(&mut out, [format!("{x} from"), format!("{y} from"), "requests".to_owned()]);
                for cell in cells {
                    let edge = |bins: &Bins, bin: u32| number(bins.edge(bin as usize));
                    let (at, value) = (edge(columns, cell.column), edge(rows, cell.row));
                    line(&mut out, [at, value, cell.count.to_string()]);
                }
            }
        }
        out
    }
}

/// Hands over each known value with its series' name and its index.
fn rows(series: &[BinnedSeries], mut row: impl FnMut(&str, usize, f64)) {
    for one in series {
        for (index, value) in one.values.iter().enumerate() {
            if let Some(value) = *value {
                row(&one.name, index, value);
            }
        }
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
    use crate::chart::{Axis, Cell, LineSeries, Unit, area, bars, heat_map, steps};

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut out = String::new();
        line(&mut out, ["a", "b,c", "d\"e", "1\n2", ""]);
        assert_eq!(out, "a,\"b,c\",\"d\"\"e\",\"1\n2\",\r\n");
    }

    #[test]
    fn chart_exports_its_figures() {
        let axis = |title: &str| Axis::new(title, Unit::Plain);
        let series = |name: &str, values: [Option<f64>; 2]| BinnedSeries {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let both = [series("p50", [Some(1.0), Some(2.5)]), series("max", [None, Some(7.0)])];
        let bins = Bins { start: 0.0, width: 0.5 };
        let (x, ns) = (axis("time (s)"), Axis::new("latency", Unit::Nanos));
        let expected = "series,time (s) from,time (s) to,latency (ns)\r\n\
                        p50,0,0.5,1\r\np50,0.5,1,2.5\r\nmax,0.5,1,7\r\n";
        assert_eq!(steps("t", &x, &ns, bins, &both).csv(), expected);
        assert_eq!(area("t", &x, &ns, bins, &both).csv(), expected);

        let expected = "series,size,requests\r\np50,4K,1\r\np50,8K,2.5\r\nmax,8K,7\r\n";
        assert_eq!(bars("t", "size", &axis("requests"), &["4K", "8K"], &both).csv(), expected);

        let cells = [Cell { column: 1, row: 2, count: 3 }];
        let expected = "time (s) from,offset from,requests\r\n0.5,1,3\r\n";
        assert_eq!(heat_map("t", &x, &axis("offset"), (bins, bins), &cells).csv(), expected);

        let points = vec![(900.0, Some(0.1)), (950.0, None), (1000.0, Some(0.001))];
        let percentile = Axis::new("percentile", Unit::Percentile);
        let lines = [LineSeries { name: "read".to_owned(), points }];
        let expected = "series,latency (ns),percentile\r\nread,900,90\r\nread,1000,99.9\r\n";
        assert_eq!(crate::chart::line("t", &ns, &percentile, &lines).csv(), expected);
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
