use super::*;
use crate::Align;
use crate::chart::{Axis, BinnedSeries, Bins, Unit, bars, steps};

const NASTY: &str = "</script><b>x";

/// A page with two charts, and markup in all text from outside.
fn page() -> String {
    let mut facts = Facts::new();
    facts.add("source", NASTY);
    let mut page = Page::new(NASTY, facts);
    let mut table = Table::new(&[(NASTY, Align::Left)]).with_caption(NASTY);
    table.row([NASTY]);
    table.group(NASTY);
    page.table(table);
    let axis = Axis::new(NASTY, Unit::Plain);
    let series = [BinnedSeries { name: NASTY.to_owned(), values: vec![Some(1.0)] }];
    let bins = Bins { start: 0.0, width: 1.0 };
    page.chart(steps(NASTY, &axis, &axis, bins, &series).with_note(NASTY));
    page.chart(bars(NASTY, NASTY, &axis, &[NASTY], &series));
    for _ in 0..2 {
        let mut section = Section::new(NASTY);
        section.note(NASTY);
        section.text(NASTY);
        page.section(section);
    }
    page.to_string()
}

/// The page without the contents of its scripts and styles, which a browser does not read as
/// markup.
fn markup(page: &str) -> String {
    let mut rest = page;
    let mut markup = String::new();
    while let Some(start) = rest.find("<script").into_iter().chain(rest.find("<style")).min() {
        let tag_end = start + rest[start..].find('>').unwrap() + 1;
        markup += &rest[..tag_end];
        let name = &rest[start + 1..start + 6];
        let end = rest[tag_end..].find(&format!("</{name}")).unwrap();
        rest = &rest[tag_end + end..];
    }
    markup + rest
}

#[test]
fn names_from_outside_are_escaped() {
    let page = page();
    assert!(!page.contains(NASTY) && !page.contains("<b>x"));
    assert!(page.contains("<h1>&lt;/script&gt;&lt;b&gt;x</h1>"));
    // In a chart's figure, where plotly.js would read markup too.
    assert!(page.contains("\"name\":\"&lt;/script&gt;&lt;b&gt;x\""));
}

#[test]
fn scripts_are_closed_exactly_once() {
    let page = page();
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    assert!(!DRAW.contains("</script") && !DRAW.contains("<!--"));
}

#[test]
fn library_is_embedded_once_and_only_for_charts() {
    let page = page();
    assert_eq!(page.matches("* plotly.js v").count(), 1);
    assert_eq!(page.matches("window.Plotly = Plotly").count(), 1);
    assert_eq!(page.matches("the plotting library in this page").count(), 1);
    assert_eq!(page.matches("await Plotly.newPlot(").count(), 1);
    let without = Page::new("t", Facts::new()).to_string();
    assert!(!without.contains("<script") && without.len() < 20_000);
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = page();
    assert!(page.contains("default-src 'none'"));
    let markup = markup(&page);
    assert!(markup.len() < 20_000, "{}", markup.len());
    for tag in markup.split('<').filter_map(|rest| rest.split('>').next()) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name {
            "script" => {
                assert!(["script", "script type=\"application/json\""].contains(&tag), "{tag}");
            }
            "link" => assert_eq!(tag, "link rel=\"icon\" href=\"data:,\""),
            "a" => assert!(tag.contains("href=\"data:") || tag.contains("href=\"#"), "{tag}"),
            "img" | "iframe" | "object" | "embed" | "base" => panic!("{tag}"),
            _ => assert!(!tag.contains("src=") && !tag.contains("href="), "{tag}"),
        }
    }
    for load in ["@import", "url("] {
        assert!(!STYLE.contains(load), "{load}");
    }
}
