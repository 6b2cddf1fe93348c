//! `trimtab trace convert`, as a user runs it.

#[path = "../place/mod.rs"]
mod place;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use place::Place;

const FIRST_TICK: u64 = 128_166_372_003_061_629;

/// An MSR trace of two disks in arrival order.
fn msr(records: u64) -> String {
    (0..records)
        .map(|i| {
            let (tick, disk) = (FIRST_TICK + i * 1_234, i % 2);
            let kind = if i % 3 == 0 { "Write" } else { "Read" };
            let (offset, response) = (i * 7_919 % 100_000 * 512, 500 + i % 90_000);
            format!("{tick},usr,{disk},{kind},{offset},{},{response}\n", 512 << (i % 8))
        })
        .collect()
}

/// A directory with a trace in it.
fn place(trace: &str) -> Place {
    Place::new(&[("in.csv", trace)])
}

impl Place {
    fn convert(&self, arguments: &[&str]) -> Output {
        self.command(&[&["trace", "convert"], arguments].concat()).output().unwrap()
    }

    /// Converts, and expects this exit code and one line on standard error with this text.
    fn fails(&self, arguments: &[&str], code: i32, says: &str) {
        let files = self.files();
        let output = self.convert(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
        assert_eq!(self.files(), files, "nothing may be left behind");
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.path("")).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn msr_round_trip_is_exact() {
    let place = place(&msr(20_000));
    let output = place.convert(&["in.csv", "-o", "out.parquet", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "out.parquet: 20000 records written\n");
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(done["records"], 20_000);
    assert_eq!(done["file_bytes"], fs::metadata(place.path("out.parquet")).unwrap().len());

    assert!(place.convert(&["out.parquet", "-o", "back.csv"]).status.success());
    let same = fs::read(place.path("back.csv")).unwrap() == fs::read(place.path("in.csv")).unwrap();
    assert!(same);

    // Onto itself: the old file is read to its end before it is replaced.
    let before = fs::read(place.path("out.parquet")).unwrap();
    assert!(place.convert(&["out.parquet", "-o", "out.parquet"]).status.success());
    assert!(fs::read(place.path("out.parquet")).unwrap() == before);
}

#[test]
fn fio_log_is_written() {
    let place = place(&msr(3));
    assert!(place.convert(&["in.csv", "-o", "out.iolog"]).status.success());
    let log = fs::read_to_string(place.path("out.iolog")).unwrap();
    assert!(
        log.starts_with("fio version 3 iolog\n1 usr.0 add\n1 usr.0 open\n1 usr.0 write 0 512\n")
    );
    assert!(log.contains("\n125 usr.1 read 4054528 1024\n"), "{log}");
}

/// The requests that fio issued, from its own latency log.
fn issued(log: &str) -> Vec<(bool, u64, u64)> {
    log.lines()
        .map(|line| {
            let fields: Vec<u64> = line.split(", ").map(|f| f.parse().unwrap()).collect();
            (fields[2] == 1, fields[4], fields[3])
        })
        .collect()
}

/// fio replays the log of a recording on another device: every request, immediately although
/// the recording's clock had run for hours, and without creating a file `loop0`.
#[test]
fn fio_replays_a_recording_on_another_device() {
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Program("fio")]) {
        return;
    }
    let mut biosnoop = String::from(
        "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   LAT(ms)\n",
    );
    let mut expected = Vec::new();
    for i in 0..200_u64 {
        let (write, sector, bytes) = (i % 3 == 0, i * 7_919 % 2_000, 512 << (i % 4));
        let kind = if write { 'W' } else { 'R' };
        let time = 7_200.0 + i as f64 / 1e3;
        biosnoop += &format!("{time:.6} fio 77 loop0 {kind} {sector} {bytes} 0.100\n");
        expected.push((write, sector * 512, bytes));
    }
    let place = Place::new(&[("in.txt", &biosnoop)]);
    let output = place.convert(&["in.txt", "-o", "a.parquet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = place.convert(&["a.parquet", "-o", "out.iolog"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("--replay_redirect=/dev/"), "{}", stderr(&output));
    let log = fs::read_to_string(place.path("out.iolog")).unwrap();
    assert!(log.starts_with("fio version 3 iolog\n1 /dev/loop0 add\n"), "{log}");

    fs::write(place.path("disk"), vec![0; 4 << 20]).unwrap();
    // Otherwise fio would wait for two hours.
    let done = Command::new("timeout")
        .args(["120", "fio", "--name=replay", "--read_iolog=out.iolog", "--ioengine=psync"])
        .args(["--replay_redirect=disk", "--write_lat_log=done", "--log_offset=1"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let log = fs::read_to_string(place.path("done_lat.1.log")).unwrap();
    assert_eq!(issued(&log), expected);
    assert!(!place.path("loop0").exists());
}

#[test]
fn format_comes_from_the_name_or_an_option() {
    let place = place(&msr(3));
    place.fails(&["in.csv", "-o", "out"], 2, "names no format, expected .parquet");
    place.fails(&["in.csv", "-o", "out", "--to", "xls"], 2, "--to takes");
    place.fails(&["none.csv", "-o", "out.parquet"], 2, "none.csv: cannot open");
    place.fails(&["in.csv", "in.csv", "-o", "out.parquet"], 2, "several files");
    assert!(place.convert(&["in.csv", "-o", "out", "--to", "parquet"]).status.success());
    let help = place.convert(&["--help"]).stdout;
    assert!(String::from_utf8(help).unwrap().contains("trimtab trace convert usr_0.csv.gz -o"));
}

#[test]
fn damage_is_reported_in_one_line() {
    let place = place(&msr(1_000));
    assert!(place.convert(&["in.csv", "-o", "t.parquet"]).status.success());
    let whole = fs::read(place.path("t.parquet")).unwrap();
    fs::write(place.path("cut.parquet"), &whole[..whole.len() / 2]).unwrap();
    place.fails(&["cut.parquet", "-o", "out.csv"], 2, "cut off");
    for place_of_damage in (4..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[place_of_damage] ^= 0x55;
        fs::write(place.path("bad.parquet"), bytes).unwrap();
        let output = place.convert(&["bad.parquet", "-o", "out.csv"]);
        assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{}", stderr(&output));
        assert_eq!(
            stderr(&output).lines().count(),
            if output.status.code() == Some(3) { 2 } else { 1 }
        );
    }
}

#[test]
fn skipped_lines_give_exit_code_3() {
    let place = place(&(msr(500) + "rubbish\n" + &msr(1)));
    place.fails(&["in.csv", "--format", "msr", "-o", "out.parquet"], 2, "line 501");
    let arguments = ["in.csv", "--format", "msr", "--skip-bad", "-o", "out.parquet"];
    let output = place.convert(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("501 records written, 1 skipped"), "{}", stderr(&output));
}

#[test]
fn wide_disorder_is_sorted() {
    // The first record comes last: farther than a window of 65,536 records.
    let trace = msr(300_000);
    let (first, rest) = trace.split_at(trace.find('\n').unwrap() + 1);
    let place = place(&format!("{rest}{first}"));
    let output = place.convert(&["in.csv", "-o", "out.csv"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read_to_string(place.path("out.csv")).unwrap() == trace);
}

#[test]
fn full_device_is_reported_in_one_line() {
    let place = place(&msr(100_000));
    for to in ["parquet", "msr", "fio-iolog"] {
        place.fails(&["in.csv", "-o", "/dev/full", "--to", to], 1, "/dev/full: cannot write");
    }
    place.fails(&["in.csv", "-o", "/nonexistent/out.parquet"], 1, "cannot write");
}

/// A small file system in memory, unmounted when dropped.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(at: &'a Path) -> Option<Self> {
        let options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(at).output().ok()?;
        mounted.status.success().then_some(Self(at))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn full_disk_leaves_no_file() {
    let place = place(&msr(100_000));
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let Some(_mount) = Mount::new(&disk) else {
        let why = "a file system cannot be mounted";
        return trimtab_testdisk::skip(trimtab_testdisk::Feature::Mount, why);
    };
    for out in ["disk/out.parquet", "disk/out.csv", "disk/out.iolog"] {
        place.fails(&["in.csv", "-o", out], 1, "cannot write");
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
    }
}
