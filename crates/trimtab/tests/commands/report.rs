//! `trimtab trace report` as a user runs it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// 2020-09-13 as a Windows file time.
const START: u64 = 132_444_736_000_000_000;

fn report(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trimtab"))
        .current_dir(folder)
        .args(["trace", "report"])
        .args(args)
        .output()
        .expect("the binary runs")
}

/// 60 s of reads and writes, 12,000 requests, one slow one in a hundred.
fn msr(devices: u64) -> String {
    let mut csv = String::new();
    for i in 0..12_000_u64 {
        let kind = if i % 4 == 0 { "Write" } else { "Read" };
        let response = if i % 100 == 7 { 50_000 } else { 1_000 + i % 500 };
        let (time, offset) = (START + i * 50_000, i * 7_919 % 100_000 * 4096);
        let disk = i % devices;
        writeln!(csv, "{time},srv,{disk},{kind},{offset},{},{response}", 4096 << (i % 3)).unwrap();
    }
    csv
}

/// A page without the contents of its scripts: the part that a browser reads as markup.
fn markup(page: &str) -> String {
    let elements = page.split("<script").enumerate();
    elements
        .map(|(i, text)| match (i, text.split_once("</script>")) {
            (0, _) => text,
            (_, Some((script, markup))) => {
                assert!(
                    script.starts_with('>') || script.starts_with(" type=\"application/json\">")
                );
                markup
            }
            (_, None) => panic!("a script without an end"),
        })
        .collect()
}

/// The figures that plotly.js draws in a page, by heading.
fn charts(page: &str) -> Vec<(String, Value)> {
    let between = |text: &str, start: &str, end: &str| -> String {
        let from = text.find(start).expect(start) + start.len();
        text[from..from + text[from..].find(end).expect(end)].to_owned()
    };
    page.split("<figure class=\"chart\">")
        .skip(1)
        .map(|figure| {
            let json = between(figure, "<script type=\"application/json\">", "</script>");
            let plot = serde_json::from_str(&json).expect("a chart is JSON");
            (between(figure, "<h3>", "</h3>"), plot)
        })
        .collect()
}

#[test]
fn page_has_every_chart_with_data_and_loads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("srv.csv"), msr(2)).unwrap();
    let run = report(folder.path(), &["srv.csv", "-o", "srv.html"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(run.stdout.is_empty());
    assert_eq!(run.stderr, b"trimtab: report written to srv.html\n");

    let page = fs::read_to_string(folder.path().join("srv.html")).unwrap();
    let charts = charts(&page);
    let titles: Vec<_> = charts.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "Response time",
            "Request sizes",
            "Response time of reads over time",
            "Response time of writes over time",
            "Writes beside slow reads",
            "Requests per second",
            "Throughput",
            "Queue depth",
            "Offsets over time",
        ]
    );
    for (title, plot) in &charts {
        let traces = plot["data"].as_array().unwrap();
        assert!(!traces.is_empty(), "{title}");
        for trace in traces {
            let map = trace["z"].as_array();
            let points: Vec<&Value> = match map {
                Some(rows) => rows.iter().flat_map(|row| row.as_array().unwrap()).collect(),
                None => trace["y"].as_array().unwrap().iter().collect(),
            };
            assert!(points.iter().any(|point| point.is_number()), "{title}");
            let limit = if map.is_some() { 128 * 96 } else { 2_000 };
            assert!(points.len() <= limit, "{title}: {} points", points.len());
        }
        let layout = &plot["layout"];
        let axes = [&layout["xaxis"]["title"]["text"], &layout["yaxis"]["title"]["text"]];
        assert!(axes.iter().all(|axis| axis.is_string()), "{title}");
    }
    for fact in ["srv.csv", "msr", "12,000", "srv.0, srv.1", "2020-09-13", "Linux"] {
        assert!(page.contains(fact), "{fact}");
    }
    assert!(page.contains(&format!("trimtab {}", env!("CARGO_PKG_VERSION"))));
    let markup = markup(&page);
    for load in ["src=", "href=\"http", "href='http", "<img", "<iframe", "@import", "url("] {
        assert!(!markup.contains(load), "{load}");
    }
    assert_eq!(page.matches("* plotly.js v").count(), 1, "the library is in it once");
}

/// The page starts with the verdict, marks the slow reads, and offers its figures as CSV.
#[test]
fn page_starts_with_a_verdict_and_offers_csv() {
    let folder = tempfile::tempdir().unwrap();
    // Reads slow down for two of 60 s, while writes are large.
    let mut csv = String::new();
    for i in 0..12_000_u64 {
        let trouble = (6_000..6_400).contains(&i);
        let kind = if i % 4 == 0 { "Write" } else { "Read" };
        let response = if trouble && i % 2 == 1 { 50_000 } else { 1_000 + i % 50 };
        let length = if trouble && kind == "Write" { 1 << 20 } else { 4096 };
        let (time, offset) = (START + i * 50_000, i * 7_919 % 100_000 * 4096);
        writeln!(csv, "{time},srv,0,{kind},{offset},{length},{response}").unwrap();
    }
    fs::write(folder.path().join("a.csv"), csv).unwrap();
    let run = report(folder.path(), &["a.csv", "-o", "a.html", "--csv", "figures"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
    let verdict = page.find("<p class=\"verdict\">").expect("a verdict");
    assert!(verdict < page.find("<dl>").unwrap(), "before everything else");
    let text = &page[verdict..page[verdict..].find("</p>").unwrap() + verdict];
    for part in ["200 of 9,000 reads (2.2%) were slow", "80% of them occurred in", "MB/s then"] {
        assert!(text.contains(part), "{text}");
    }
    let charts = charts(&page);
    let (_, reads) = charts.iter().find(|(t, _)| t == "Response time of reads over time").unwrap();
    let marks = reads["layout"]["shapes"].as_array().unwrap();
    let bands: Vec<_> = marks.iter().filter(|mark| mark["type"] == "rect").collect();
    assert_eq!(marks.len(), bands.len() + 1, "a threshold and the stretches");
    assert!(!bands.is_empty());
    for band in bands {
        let (from, to) = (band["x0"].as_f64().unwrap(), band["x1"].as_f64().unwrap());
        assert!(from >= 29.0 && to <= 33.0, "30 s to 32 s, but for the bins' edges: {band}");
    }
    // Each table and chart offers its figures, in the page and as a file.
    let links = page.matches("href=\"data:text/csv").count();
    let files: Vec<_> = fs::read_dir(folder.path().join("figures")).unwrap().collect();
    assert_eq!((links, files.len()), (charts.len() + 2, charts.len() + 2));
    let name = files
        .iter()
        .map(|file| file.as_ref().unwrap().path())
        .find(|path| path.to_string_lossy().contains("response-time-of-reads"))
        .unwrap();
    let figures = fs::read_to_string(name).unwrap();
    let mut lines = figures.lines();
    let time = "time since the first arrival (s)";
    let header = format!("series,{time} from,{time} to,response time (ns)");
    assert_eq!(lines.next(), Some(header.as_str()));
    for line in lines {
        let fields: Vec<_> = line.split(',').collect();
        assert_eq!(fields.len(), 4, "{line}");
        assert!(["median", "p99", "max"].contains(&fields[0]), "{line}");
        assert!(fields[1].parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn several_traces_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    for dir in ["old", "new"] {
        fs::create_dir(folder.path().join(dir)).unwrap();
        fs::write(folder.path().join(dir).join("a.csv"), msr(1)).unwrap();
    }
    let run = report(folder.path(), &["old/a.csv", "new/a.csv", "-o", "both.html", "--json"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));

    let page = fs::read_to_string(folder.path().join("both.html")).unwrap();
    assert_eq!(page.matches("<section>").count(), 2);
    let (title, comparison) = &charts(&page)[0];
    assert_eq!(title, "Response time of all requests");
    let lines = comparison["data"].as_array().unwrap();
    let mut names: Vec<_> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
    // The first is drawn last, on top.
    names.reverse();
    assert_eq!(names, ["old/a.csv", "new/a.csv"]);

    let json: Value = serde_json::from_slice(&run.stdout).unwrap();
    let plots = &json["traces"][1]["plots"];
    assert_eq!(plots["requests"], 12_000);
    assert_eq!(plots["ops"][0]["op"], "read");
    assert_eq!(plots["ops"][0]["response"]["count"], 9_000);
    assert!(plots["ops"][0]["response"]["p99_ns"].is_number());
}

#[test]
fn names_from_outside_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    // A file's name contains no slash, but its path does, and a page shows paths.
    let nasty = "<b>x</script><b>x";
    fs::create_dir(folder.path().join("<b>x<")).unwrap();
    let csv = msr(1).replace("srv", "</script><b>x");
    fs::write(folder.path().join(nasty), &csv).unwrap();
    fs::write(folder.path().join("script><b>x"), &csv).unwrap();
    let run = report(folder.path(), &[nasty, "script><b>x", "-o", "nasty.html"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let page = fs::read_to_string(folder.path().join("nasty.html")).unwrap();
    assert!(!markup(&page).contains("<b>"));
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    // plotly.js reads markup in names, so they are escaped for it too.
    let traces = &charts(&page)[0].1["data"];
    let names = [&traces[0]["name"], &traces[1]["name"]];
    assert!(names.contains(&&Value::from("&lt;b&gt;x&lt;/script&gt;&lt;b&gt;x")), "{names:?}");
}

#[test]
fn failures_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("bad.csv"), msr(1).replacen("Read", "Rread", 1)).unwrap();
    fs::write(path("good.csv"), msr(1)).unwrap();
    let code = |args: &[&str]| report(folder.path(), args).status.code();

    assert_eq!(code(&["bad.csv", "-o", "x.html", "--format", "msr"]), Some(2));
    assert_eq!(code(&["missing.csv", "-o", "x.html"]), Some(2));
    assert_eq!(code(&["good.csv"]), Some(2), "neither -o nor --json");
    assert_eq!(code(&["good.csv", "-o", "nowhere/x.html"]), Some(1));
    assert_eq!(code(&["good.csv", "-o", "./good.csv"]), Some(2), "would replace its input");
    assert_eq!(fs::read_to_string(path("good.csv")).unwrap(), msr(1));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    // With --skip-bad there is a page, but the exit code is 3.
    let skipping = ["bad.csv", "-o", "x.html", "--format", "msr", "--skip-bad"];
    assert_eq!(code(&skipping), Some(3));
    let page = fs::read_to_string(path("x.html")).unwrap();
    assert!(page.contains("<dt>malformed, skipped</dt><dd>1</dd>"));
}
