//! A page: one HTML file with everything inside.

use std::fmt::{self, Display};

use crate::chart::Chart;
use crate::csv::{self, Download};
use crate::escape::{Html, Json};
use crate::table::{Facts, Table};

const STYLE: &str = include_str!("../assets/page.css");
const DRAW: &str = include_str!("../assets/page.js");

/// The plotting library with the licences under which it may be passed on.
const LIBRARY: [(&str, &str); 3] = [
    (include_str!("../assets/vega.LICENSE"), include_str!("../assets/vega.min.js")),
    (include_str!("../assets/vega-lite.LICENSE"), include_str!("../assets/vega-lite.min.js")),
    (include_str!("../assets/vega-embed.LICENSE"), include_str!("../assets/vega-embed.min.js")),
];
const BUNDLED_LICENSES: &str = include_str!("../assets/bundled.LICENSES");

/// What the page may do: run its own scripts and styles, nothing else. A
/// browser then refuses any access to the network, whatever a page's data says.
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
    /// An empty page. `provenance` says how what it shows was made: from what,
    /// by what version, on what machine, from how many samples.
    #[must_use]
    pub fn new(title: impl Into<String>, provenance: Facts) -> Self {
        let (parts, sections) = (Vec::new(), Vec::new());
        Self { title: title.into(), verdict: Vec::new(), facts: provenance, parts, sections }
    }

    /// Adds a sentence to what the page begins with: what came out, before how.
    pub fn verdict(&mut self, sentence: impl Into<String>) {
        self.verdict.push(sentence.into());
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

    /// Adds what came out, in sentences.
    pub fn verdict(&mut self, sentences: &[String]) {
        self.parts.push(Part::Verdict(sentences.join(" ")));
    }

    /// Adds a sentence, such as why something is not shown.
    pub fn note(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Note(text.into()));
    }

    /// Adds a file's text, line by line as it is.
    pub fn text(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(text.into()));
    }

    /// Adds a chart. Charts that follow one another stand side by side where
    /// there is room.
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
        writeln!(f, "<noscript><p class=\"note\">The charts need JavaScript.</p></noscript>")?;
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
        write_scripts(f)?;
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
                // A line break behind the tag is no part of the text.
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
    writeln!(f, "<div class=\"plot\"></div>")?;
    let name = csv::file_name(&chart.title);
    writeln!(f, "{}", Download { name: &name, csv: &chart.csv() })?;
    if let Some(note) = &chart.note {
        writeln!(f, "<figcaption>{}</figcaption>", Html(note))?;
    }
    let spec = Json(&chart.spec);
    writeln!(f, "<script type=\"application/json\">{spec}</script>\n</figure>")
}

fn write_scripts(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (license, script) in LIBRARY {
        writeln!(f, "<script>\n/*\n{}\n*/\n{}\n</script>", license.trim_end(), script.trim_end())?;
    }
    writeln!(f, "<script>\n/*\n{}\n*/\n{DRAW}</script>", BUNDLED_LICENSES.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Align;
    use crate::chart::{Axis, Binned, Bins, Unit, steps};

    const NASTY: &str = "</script><b>x";

    fn page() -> String {
        let mut facts = Facts::new();
        facts.add("source", NASTY);
        let mut page = Page::new(NASTY, facts);
        let mut table = Table::new(&[(NASTY, Align::Left)]).with_caption(NASTY);
        table.row([NASTY]);
        table.group(NASTY);
        page.table(table);
        let axis = Axis::new(NASTY, Unit::Plain);
        let series = [Binned { name: NASTY.to_owned(), values: vec![Some(1.0)] }];
        let bins = Bins { start: 0.0, width: 1.0 };
        page.chart(steps(NASTY, &axis, &axis, bins, &series).with_note(NASTY));
        for _ in 0..2 {
            let mut section = Section::new(NASTY);
            section.note(NASTY);
            section.text(NASTY);
            page.section(section);
        }
        page.to_string()
    }

    #[test]
    fn names_from_outside_stay_text() {
        let page = page();
        assert!(!page.contains(NASTY) && !page.contains("<b>x"));
        assert!(page.contains("<h1>&lt;/script&gt;&lt;b&gt;x</h1>"));
        assert!(page.contains("\\u003c/script>\\u003cb>x"));
    }

    /// A script element ends at the first `</script`, and `<!--` followed by
    /// `<script` keeps it from ending at all.
    #[test]
    fn scripts_end_where_they_should() {
        for (license, script) in LIBRARY {
            for text in [license, script, DRAW, BUNDLED_LICENSES] {
                let text = text.to_ascii_lowercase();
                assert!(!text.contains("</script") && !text.contains("<!--"));
            }
            assert!(!license.contains("*/") && !BUNDLED_LICENSES.contains("*/"));
            assert!(!script.contains("sourceMappingURL"));
        }
        let page = page();
        assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let page = page();
        for load in ["src=\"", "href=\"http", "@import", "url("] {
            let body = page.split("<script>\n/*").next().unwrap();
            assert!(!body.contains(load), "{load}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}
