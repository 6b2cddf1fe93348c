//! A page: one HTML file with everything inside.

use std::fmt::{self, Display};

use crate::chart::{self, Chart};
use crate::csv::{self, Download};
use crate::escape::{Html, Json};
use crate::library;
use crate::table::{Facts, Table};

const STYLE: &str = include_str!("../assets/page.css");
const DRAW: &str = include_str!("../assets/page.js");

/// Permissions of the page: its own scripts and styles. A browser then refuses any access to
/// the network, whatever data a page contains.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'";

/// A report as one HTML file that needs nothing else. `Display` writes it.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    verdict: Vec<String>,
    facts: Facts,
    parts: Vec<Part>,
    sections: Vec<Section>,
}

/// A part of a page with a heading of its own.
#[derive(Clone, Debug)]
pub struct Section {
    title: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Facts(Facts),
    Table(Table),
    Verdict(String),
    Note(String),
    Text(String),
    Chart(Box<Chart>),
}

impl Page {
    /// An empty page. `provenance` describes how its content was made: the inputs, the
    /// version, the machine, the number of samples.
    #[must_use]
    pub fn new(title: impl Into<String>, provenance: Facts) -> Self {
        let (parts, sections) = (Vec::new(), Vec::new());
        Self { title: title.into(), verdict: Vec::new(), facts: provenance, parts, sections }
    }

    /// Adds a sentence to the verdict at the page's beginning: the result before the method.
    pub fn verdict(&mut self, sentence: impl Into<String>) {
        self.verdict.push(sentence.into());
    }

    fn has_charts(&self) -> bool {
        let mut parts = self.parts.iter().chain(self.sections.iter().flat_map(|s| &s.parts));
        parts.any(|part| matches!(part, Part::Chart(_)))
    }

    /// Every table and chart as a CSV file: names, which differ, and contents.
    #[must_use]
    pub fn csv_files(&self) -> Vec<(String, String)> {
        let own = self.parts.iter().map(|part| (None, part));
        fn of(section: &Section) -> impl Iterator<Item = (Option<&Section>, &Part)> {
            section.parts.iter().map(move |part| (Some(section), part))
        }
        let mut files: Vec<(String, String)> = Vec::new();
        for (section, part) in own.chain(self.sections.iter().flat_map(of)) {
            let (name, content) = match part {
                Part::Table(table) => (table.file_name(), table.csv()),
                Part::Chart(chart) => (csv::file_name(&chart.title), chart.csv()),
                _ => continue,
            };
            // Numbered as they stand on the page, so that names differ.
            let mut full = format!("{:02}-", files.len() + 1);
            if let Some(section) = section.filter(|_| self.sections.len() > 1) {
                full += csv::file_name(&section.title).trim_end_matches(".csv");
                full.push('-');
            }
            files.push((full + &name, content));
        }
        files
    }

    /// Adds a table above the first section.
    pub fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    /// Adds a chart above the first section.
    pub fn chart(&mut self, chart: Chart) {
        self.parts.push(Part::Chart(Box::new(chart)));
    }

    /// Adds a section at the end.
    pub fn section(&mut self, section: Section) {
        self.sections.push(section);
    }
}

impl Section {
    /// An empty section.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), parts: Vec::new() }
    }

    /// Adds keys and values.
    pub fn facts(&mut self, facts: Facts) {
        self.parts.push(Part::Facts(facts));
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    /// Adds the result, in sentences.
    pub fn verdict(&mut self, sentences: &[String]) {
        self.parts.push(Part::Verdict(sentences.join(" ")));
    }

    /// Adds a sentence, such as why something is not shown.
    pub fn note(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Note(text.into()));
    }

    /// Adds a file's text, unchanged.
    pub fn text(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(text.into()));
    }

    /// Adds a chart. Consecutive charts are placed side by side if they fit.
    pub fn chart(&mut self, chart: Chart) {
        self.parts.push(Part::Chart(Box::new(chart)));
    }
}

impl Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = Html(&self.title);
        writeln!(f, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(f, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
        writeln!(f, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        // An empty icon keeps browsers from asking a server for one.
        writeln!(f, "<link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>")?;
        writeln!(f, "<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>")?;
        if !self.verdict.is_empty() {
            writeln!(f, "<p class=\"verdict\">{}</p>", Html(&self.verdict.join(" ")))?;
        }
        f.write_str(&self.facts.html())?;
        if self.has_charts() {
            writeln!(f, "<noscript><p class=\"note\">The charts need JavaScript.</p></noscript>")?;
        }
        write_parts(f, &self.parts)?;
        if self.sections.len() > 1 {
            writeln!(f, "<nav>\n<ul>")?;
            for (i, section) in self.sections.iter().enumerate() {
                writeln!(f, "<li><a href=\"#section-{i}\">{}</a></li>", Html(&section.title))?;
            }
            writeln!(f, "</ul>\n</nav>")?;
        }
        for (i, section) in self.sections.iter().enumerate() {
            writeln!(f, "<section>\n<h2 id=\"section-{i}\">{}</h2>", Html(&section.title))?;
            write_parts(f, &section.parts)?;
            writeln!(f, "</section>")?;
        }
        if self.has_charts() {
            write_scripts(f)?;
        }
        writeln!(f, "</body>\n</html>")
    }
}

fn write_parts(f: &mut fmt::Formatter<'_>, parts: &[Part]) -> fmt::Result {
    let same = |a: &Part, b: &Part| matches!((a, b), (Part::Chart(_), Part::Chart(_)));
    for run in parts.chunk_by(same) {
        let charts = matches!(run[0], Part::Chart(_));
        if charts {
            writeln!(f, "<div class=\"charts\">")?;
        }
        for part in run {
            match part {
                Part::Facts(facts) => f.write_str(&facts.html())?,
                Part::Table(table) => f.write_str(&table.html())?,
                Part::Verdict(text) => writeln!(f, "<p class=\"verdict\">{}</p>", Html(text))?,
                Part::Note(text) => writeln!(f, "<p class=\"note\">{}</p>", Html(text))?,
                // A line break behind the tag does not belong to the text.
                Part::Text(text) => writeln!(f, "<pre>\n{}</pre>", Html(text))?,
                Part::Chart(chart) => write_chart(f, chart)?,
            }
        }
        if charts {
            writeln!(f, "</div>")?;
        }
    }
    Ok(())
}

fn write_chart(f: &mut fmt::Formatter<'_>, chart: &Chart) -> fmt::Result {
    writeln!(f, "<figure class=\"chart\">\n<h3>{}</h3>", Html(&chart.title))?;
    writeln!(f, "<div class=\"plot\" style=\"min-height: {}px\"></div>", chart::HEIGHT)?;
    let name = csv::file_name(&chart.title);
    writeln!(f, "{}", Download { name: &name, csv: &chart.csv() })?;
    if let Some(note) = &chart.note {
        writeln!(f, "<figcaption>{}</figcaption>", Html(note))?;
    }
    let figure = chart.figure();
    let figure = Json(&figure);
    writeln!(f, "<script type=\"application/json\">{figure}</script>\n</figure>")
}

/// The plotting library and the script that draws the charts with it.
fn write_scripts(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "<script>\n/*\n{}*/\n{}\n</script>", library::LICENSE, library::plotly_js())?;
    writeln!(f, "<script>\n{DRAW}</script>")
}

#[cfg(test)]
mod tests;
