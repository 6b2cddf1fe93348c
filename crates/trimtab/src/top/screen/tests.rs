//! The screen, letter by letter.

use trimtab_io::Nanos;
use trimtab_predict::Moved;

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
        drift: Some(Moved::By(-6.2)),
        retrain: true,
        ..Row::default()
    };
    busy.tell("model", "disk.safetensors, trimtab: late is beyond 400 µs");
    busy.tell("so far", "1,000 reads");
    let idle = Row { device: "sda".to_owned(), window_s: 10, ..Row::default() };
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
        help: false,
    }
}

/// The lines with a letter for their style: plain, bold, reverse, dim.
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
b|nvme0n1  12.3k     998  54.6   7.2 85.0µs 1.23ms 12.0ms  1.2%  0.4% 25.0% -6.2!
p|sda          0       0   0.0   0.0      –      –      –     –     –     –     –
p|
p|model   disk.safetensors, trimtab: late is beyond 400 µs
p|so far  1,000 reads
p|
d|q quit  s sort  ↑↓ select  p pause  h help  (sorted by device)";
    assert_eq!(drawn(&screen(&rows()), 80, 10).join("\n"), expected);
}

#[test]
fn a_narrow_and_low_terminal() {
    let rows = rows();
    let screen = Screen { sort: Sort::Reads, selected: 1, paused: true, ..screen(&rows) };
    let expected = "\
b|trimtab top  every 1.00 s, percentiles …
p|
r|device  read/s write/s depth    p99     
p|nvme0n1  12.3k     998   7.2 1.23ms
b|sda          0       0   0.0      –
d|PAUSED  q quit  s sort  ↑↓ select  p pa…";
    assert_eq!(drawn(&screen, 40, 6).join("\n"), expected);
}

#[test]
fn the_selected_drive_is_among_those_shown() {
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
fn help_and_what_is_lacking() {
    let screen = Screen { help: true, note: Some("no CAP_BPF"), ..screen(&[]) };
    let lines = drawn(&screen, 80, 24);
    assert_eq!(lines[1], "d|no CAP_BPF");
    assert!(lines.iter().any(|line| line.starts_with("p|f.rev ")));
    assert!(lines.iter().all(|line| !line.ends_with('…')), "{lines:#?}");
}

/// No size and no name can make it panic, or wider than the terminal.
#[test]
fn any_size_will_do() {
    let mut rows = rows();
    rows[0].device = "x\x1b[2J".repeat(30);
    for width in 0..120 {
        for height in 1..30 {
            let lines = drawn(&screen(&rows), width, height);
            assert!(lines.iter().all(|line| !line.contains('\x1b')));
        }
    }
}
