//! The screen, character by character.

use trimtab_io::Nanos;
use trimtab_predict::OnlineScore;
use trimtab_train::InflectionShift;

use super::*;

fn rows() -> Vec<Row> {
    let mut busy = Row {
        device: "nvme0n1".to_owned(),
        reads_per_second: 12_345.0,
        writes_per_second: 998.4,
        bytes_per_second: 54.6e6,
        depth: 7.25,
        window_s: 10,
        p50_ns: Some(Nanos::from_micros(85)),
        p99_ns: Some(Nanos::from_micros(1_234)),
        p999_ns: Some(Nanos::from_millis(12)),
        predicted_late_share: Some(0.0123),
        false_submit_rate: Some(0.004),
        false_revoke_rate: Some(0.25),
        drift: Some(InflectionShift::By(-6.2)),
        score: Some(OnlineScore::default()),
        ..Row::default()
    };
    busy.tell("model", "disk.safetensors, trimtab: late is beyond 400 µs");
    busy.tell("so far", "1,000 reads");
    let idle = Row {
        device: "sda".to_owned(),
        window_s: 10,
        score: Some(OnlineScore::default()),
        ..Row::default()
    };
    vec![idle, busy]
}

fn screen(rows: &[Row]) -> Screen<'_> {
    Screen {
        rows,
        time: "12:34:56 UTC",
        about: "every 1.00 s, percentiles of 10 s, lost 0",
        note: None,
        sort: Sort::Device,
        selected: 0,
        paused: false,
        page: Page::Table,
        scroll: 0,
    }
}

/// The lines, each with a letter for its style: plain, bold, reverse, dim.
fn drawn(screen: &Screen<'_>, width: usize, height: usize) -> Vec<String> {
    let lines = draw(screen, width, height);
    assert_eq!(lines.len(), height);
    let letter = |style| match style {
        Style::Plain => 'p',
        Style::Bold => 'b',
        Style::Reverse => 'r',
        Style::Dim => 'd',
    };
    lines
        .iter()
        .map(|line| {
            assert!(line.text.chars().count() <= width, "{:?}", line.text);
            format!("{}|{}", letter(line.style), line.text)
        })
        .collect()
}

#[test]
fn eighty_columns() {
    let expected = "\
b|trimtab top  every 1.00 s, percentiles of 10 s, lost 0              12:34:56 UTC
p|
r|device  read/s write/s  MB/s depth    p50    p99  p99.9  late f.sub f.rev drift 
b|nvme0n1  12.3k     998  54.6   7.2 85.0µs 1.23ms 12.0ms  1.2%  0.4% 25.0%  -6.2
p|sda          0       0   0.0   0.0      –      –      –     –     –     –     –
p|
p|model   disk.safetensors, trimtab: late is beyond 400 µs
p|so far  1,000 reads
p|
d|h help  q quit  d details  s sort  ↑↓ select  p pause  (by device)";
    assert_eq!(drawn(&screen(&rows()), 80, 10).join("\n"), expected);
}

#[test]
fn narrow_and_low_terminal() {
    let rows = rows();
    let screen = Screen { sort: Sort::Reads, selected: 1, paused: true, ..screen(&rows) };
    let expected = "\
b|trimtab top  every 1.00 s, percentiles …
r|device  read/s write/s depth    p99     
p|nvme0n1  12.3k     998   7.2 1.23ms
b|sda          0       0   0.0      –
p|
d|PAUSED  h help  q quit  d details  s so…";
    assert_eq!(drawn(&screen, 40, 6).join("\n"), expected);
}

#[test]
fn selected_drive_is_visible() {
    let rows: Vec<Row> =
        (0..16).map(|i| Row { device: format!("sd{i:02}"), ..Row::default() }).collect();
    for selected in 0..16 {
        for height in 5..24 {
            let lines = drawn(&Screen { selected, ..screen(&rows) }, 80, height);
            let name = format!("b|sd{selected:02} ");
            assert!(lines.iter().any(|line| line.starts_with(&name)), "{lines:#?}");
        }
    }
    let lines = drawn(&screen(&rows), 80, 10);
    assert!(lines.iter().any(|line| line.starts_with("d|… ")), "{lines:#?}");
}

#[test]
fn help_and_missing_privileges_are_shown() {
    let rows = rows();
    let table = Screen { note: Some("no CAP_BPF"), ..screen(&rows) };
    assert_eq!(drawn(&table, 80, 24)[1], "d|no CAP_BPF");
    let lines = drawn(&Screen { page: Page::Help, ..table }, 80, 24);
    assert!(lines.iter().any(|line| line == "p|no CAP_BPF"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("p|f.rev ")));
    assert!(lines.iter().all(|line| !line.ends_with('…')), "{lines:#?}");
    let lines = drawn(&Screen { page: Page::Help, ..screen(&rows) }, 80, 30);
    assert_eq!(lines.last().unwrap(), "d|h back  q quit");
}

/// The whole text of a page, collected while scrolling through it.
fn scrolled(screen: &Screen<'_>, width: usize, height: usize) -> String {
    let mut seen: Vec<String> = Vec::new();
    let last = last_scroll(screen, width, height);
    for scroll in 0..=last {
        let lines = drawn(&Screen { scroll, ..*screen }, width, height);
        let head = head(screen, width, height).len();
        let body = &lines[head..lines.len() - 1];
        seen.extend(body.iter().skip(if scroll == 0 { 0 } else { body.len() - 1 }).cloned());
    }
    let text: Vec<&str> = seen.iter().flat_map(|line| line[2..].split_whitespace()).collect();
    text.join(" ")
}

#[test]
fn pages_scroll_to_the_end_in_small_terminals() {
    let mut rows = rows();
    rows[1].retrain = true;
    rows[0].score = None;
    for (page, expected) in [
        (
            Page::Help,
            &["drift by how many", "train: the model no longer fits", "Home and End too"][..],
        ),
        (Page::Details, &["write/s 998", "p99.9 12.0ms", "drift train", "model disk.safetensors"]),
    ] {
        for (width, height) in [(80, 24), (40, 10), (20, 5)] {
            let screen = Screen { page, ..screen(&rows) };
            let text = scrolled(&screen, width, height);
            for part in expected {
                assert!(text.contains(part), "{width}×{height}: {part:?} is not in {text}");
            }
            // Scrolling past the end shows the end, not an empty screen.
            let last = last_scroll(&screen, width, height);
            let far = drawn(&Screen { scroll: 1000, ..screen }, width, height);
            assert_eq!(far, drawn(&Screen { scroll: last, ..screen }, width, height));
        }
    }
    let lines = drawn(&Screen { page: Page::Help, scroll: 2, ..screen(&rows) }, 40, 10);
    assert!(lines[9].starts_with("d|h back  3–9 of "), "{lines:#?}");
    let lines = drawn(&screen(&rows), 20, 5);
    assert!(lines[2].contains("nvme0n1") && lines[4].starts_with("d|h help  q quit"), "{lines:#?}");
}

#[test]
fn details_without_a_model_show_how_to_get_one() {
    let rows = [Row { device: "sda".to_owned(), ..Row::default() }];
    let lines = drawn(&screen(&rows), 80, 24).join("\n");
    assert!(
        lines.contains("model   none, so late, f.sub, f.rev and drift have no figures"),
        "{lines}"
    );
    for command in ["trimtab record sda ", "trimtab train --trace sda.parquet ", "--model sda="] {
        assert!(lines.contains(command), "{lines}");
    }
    let lines = drawn(&Screen { note: Some("no CAP_BPF"), ..screen(&rows) }, 80, 24).join("\n");
    assert!(lines.contains("takes CAP_BPF and CAP_PERFMON") && !lines.contains("train"), "{lines}");
    // If it does not fit, a hint tells where the rest is.
    let lines = drawn(&screen(&rows), 40, 10).join("\n");
    assert!(lines.contains("none, so late") && lines.contains("d|… d shows all"), "{lines}");
}

/// No size and no name may cause a panic or a line wider than the terminal.
#[test]
fn any_size_is_drawn_within_bounds() {
    let mut rows = rows();
    rows[0].device = "x\x1b[2J".repeat(30);
    for width in 0..120 {
        for height in 1..30 {
            for page in [Page::Table, Page::Help, Page::Details] {
                let screen = Screen { page, scroll: 3, note: Some("note"), ..screen(&rows) };
                let lines = drawn(&screen, width, height);
                assert!(lines.iter().all(|line| !line.contains('\x1b')));
            }
        }
    }
}
