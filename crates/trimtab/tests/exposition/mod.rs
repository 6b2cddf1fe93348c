//! A strict parser of Prometheus' text format as documented: any deviation fails the test.

use std::collections::{BTreeMap, BTreeSet};

/// Labels with their values.
type Labels = BTreeMap<String, String>;

/// A page of metrics.
pub(crate) struct Metrics(Vec<(String, Labels, f64)>);

impl Metrics {
    /// Reads a page.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.line(line));
        reader.histograms_add_up();
        Self(reader.samples)
    }

    /// The value of the only sample with exactly these labels.
    pub(crate) fn of(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Labels = labels.iter().map(|(l, v)| (l.to_string(), v.to_string())).collect();
        let found = self.0.iter().find(|(n, l, _)| n == name && *l == labels);
        found.unwrap_or_else(|| panic!("there is no {name} {labels:?}")).2
    }

    /// The values of all samples of a name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = f64> {
        self.0.iter().filter(move |(n, _, _)| n == name).map(|(_, _, value)| *value)
    }

    /// The number of samples that have at least these labels.
    pub(crate) fn matching(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        let has = |of: &Labels| {
            labels.iter().all(|(label, value)| of.get(*label).is_some_and(|v| v == value))
        };
        self.0.iter().filter(|(n, of, _)| n == name && has(of)).count()
    }
}

#[derive(Default)]
struct Reader {
    samples: Vec<(String, Labels, f64)>,
    /// The metric that was announced last, and its type.
    name: String,
    kind: String,
    helped: Option<String>,
    announced: BTreeSet<String>,
    seen: BTreeSet<(String, Labels)>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a name and a text");
            assert!(!text.is_empty() && self.announced.insert(name.to_owned()), "{line}");
            self.helped = Some(name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a type");
            assert_eq!(self.helped.take().as_deref(), Some(name), "HELP comes before TYPE");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            (self.name, self.kind) = (name.to_owned(), kind.to_owned());
        } else {
            assert!(self.helped.is_none(), "TYPE comes after HELP: {line}");
            self.sample(line);
        }
    }

    fn sample(&mut self, line: &str) {
        let (name, labels, value) = sample(line);
        let suffix = name.strip_prefix(&self.name).unwrap_or_else(|| panic!("stray: {line}"));
        let suffixes: &[&str] = match self.kind.as_str() {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        assert!(suffixes.contains(&suffix), "{line}");
        assert_eq!(suffix == "_bucket", labels.contains_key("le"), "{line}");
        if self.kind == "counter" {
            assert!(value >= 0.0 && value.is_finite(), "{line}");
        }
        assert!(self.seen.insert((name.clone(), labels.clone())), "twice: {line}");
        self.samples.push((name, labels, value));
    }

    /// Buckets are cumulative, and the last equals the count.
    fn histograms_add_up(&self) {
        let mut last: BTreeMap<(String, Labels), (f64, f64)> = BTreeMap::new();
        for (name, labels, value) in &self.samples {
            let mut others = labels.clone();
            if let (Some(base), Some(bound)) = (name.strip_suffix("_bucket"), others.remove("le")) {
                let bound = number(&bound);
                let before = last.insert((base.to_owned(), others), (bound, *value));
                let (bound_before, count_before) = before.unwrap_or((f64::NEG_INFINITY, 0.0));
                assert!(bound > bound_before && *value >= count_before, "{name} {labels:?}");
            }
        }
        for ((name, labels), (bound, count)) in last {
            let of = |suffix| {
                let name = format!("{name}{suffix}");
                self.samples.iter().find(|(n, l, _)| *n == name && *l == labels).unwrap().2
            };
            assert_eq!((bound, of("_count")), (f64::INFINITY, count), "{name}");
            assert!(of("_sum") >= 0.0);
        }
    }
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a value follows the name");
    let name = &line[..end];
    assert_is_name(name);
    let mut labels = Labels::new();
    let mut rest = &line[end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value");
            assert_is_name(label);
            let (value, after) = quoted(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "twice: {line}");
            if let Some(after) = after.strip_prefix('}') {
                rest = after;
                break;
            }
            rest = after.strip_prefix(',').expect("a comma, or the end of the labels");
        }
    }
    (name.to_owned(), labels, number(rest.strip_prefix(' ').expect("a space before the value")))
}

fn assert_is_name(name: &str) {
    let mut letters = name.chars();
    assert!(letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_'), "{name:?}");
    assert!(letters.all(|c| c.is_ascii_alphanumeric() || c == '_'), "{name:?}");
}

/// A label's value up to the closing quote, and the rest of the line.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, same @ ('\\' | '"'))) => value.push(same),
                other => panic!("no such escape: {other:?}"),
            },
            letter => value.push(letter),
        }
    }
    panic!("a value without an end: {text}");
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        _ => {
            let number: f64 = text.parse().unwrap_or_else(|_| panic!("no number: {text}"));
            assert!(number.is_finite() && !text.starts_with('+'), "{text}");
            number
        }
    }
}
