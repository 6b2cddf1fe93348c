//! The text below the table, and the pages that scroll: help, and details of a drive.

use super::super::columns;
use super::super::row::Row;

/// A label and its text.
pub(super) type Entry = (String, String);

const HELP: &[(&str, &str)] = &[
    ("read/s", "and write/s, MB/s: completed since the last look"),
    ("depth", "requests in flight, the mean since the last look"),
    (
        "p50 …",
        "latency of the reads of the last seconds, from arrival to completion; – if they are too \
         few: percentile p needs 10/(1-p) of them",
    ),
    ("late", "of these reads, the share that the model predicted late"),
    (
        "f.sub",
        "false submits, since the start: of the reads predicted fast, the share that was late",
    ),
    (
        "f.rev",
        "false revokes, since the start: of the reads predicted late and sent all the same, the \
         share that was fast",
    ),
    (
        "drift",
        "by how many percentiles the inflection point of the latencies has moved since training, \
         or new, or gone; train: the model no longer fits and should be trained again (d says why)",
    ),
    ("lost", "requests that missing from the figures, of all drives together, since the start"),
    ("–", "no figure: too few reads, or no model (d says how to get one)"),
    ("", ""),
    ("q", "quit"),
    ("d", "all of the selected drive, and back"),
    ("h", "this page, and back"),
    ("s", "sort by the next column"),
    ("p", "pause"),
    ("↑ ↓", "or k and j: select a drive, or scroll; PgUp, PgDn, Home and End too"),
];

/// The help page.
pub(super) fn help() -> Vec<Entry> {
    HELP.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// Everything about a drive: the figures of all columns, including those that do not fit into
/// the table.
pub(super) fn details(row: &Row, note: Option<&str>) -> Vec<Entry> {
    let figures = columns::all().iter().map(|column| (column.name.to_owned(), (column.text)(row)));
    figures.chain(facts(row, note)).collect()
}

/// Facts about a drive beside its columns; without a model, how to get one.
pub(super) fn facts(row: &Row, note: Option<&str>) -> Vec<Entry> {
    let entry = |name: &str, text: String| (name.to_owned(), text);
    let mut facts = row.facts.clone();
    if row.score.is_some() {
        return facts;
    }
    if note.is_some() {
        let text = "none: to compare one takes CAP_BPF and CAP_PERFMON, which root has";
        facts.push(entry("model", text.to_owned()));
        return facts;
    }
    let drive = &row.device;
    let text = "none, so late, f.sub, f.rev and drift have no figures; to have them:";
    facts.extend([
        entry("model", text.to_owned()),
        entry("record", format!("trimtab record {drive} --duration 10m -o {drive}.parquet")),
        entry("train", format!("trimtab train --trace {drive}.parquet -o {drive}.safetensors")),
        entry("show", format!("trimtab top {drive} --model {drive}={drive}.safetensors")),
    ]);
    facts
}

/// Entries as lines of this width, their texts aligned below each other if there is room.
pub(super) fn lines(entries: &[Entry], width: usize) -> Vec<String> {
    let names = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let indent = match names {
        0 => 0,
        _ if (names + 2) * 3 <= width => names + 2,
        _ => 2,
    };
    entries.iter().flat_map(|(name, text)| entry(name, text, indent, width)).collect()
}

fn entry(name: &str, text: &str, indent: usize, width: usize) -> Vec<String> {
    let gap = if name.is_empty() { "" } else { "  " };
    let mut line = format!("{:<indent$}", format!("{name}{gap}"));
    let (mut lines, mut has_word) = (Vec::new(), false);
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let (used, space) = (line.chars().count(), usize::from(has_word));
            if used + space + word.len() <= width {
                line.extend(std::iter::repeat_n(' ', space).chain(word.drain(..)));
                has_word = true;
                continue;
            }
            if !has_word && used <= indent {
                // Wider than a line: broken.
                let rest = word.split_off(width.saturating_sub(used).clamp(1, word.len()));
                line.extend(std::mem::replace(&mut word, rest));
            }
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            has_word = false;
        }
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_wrapped_below_each_other_and_long_words_are_broken() {
        let entries = [("late", "of these reads, some"), ("", "abcdefghijklmnopqrstuvwxyz")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()));
        let wide =
            ["late  of these", "      reads, some", "      abcdefghijkl", "      mnopqrstuvwx"];
        assert_eq!(lines(&entries, 18)[..4], wide);
        let narrow = ["late  of", "  these", "  reads,", "  some", "  abcdef"];
        assert_eq!(lines(&entries, 8)[..5], narrow);
        for width in 0..40 {
            for line in lines(&entries, width) {
                assert!(line.chars().count() <= width.max(6), "{width}: {line:?}");
            }
        }
    }
}
