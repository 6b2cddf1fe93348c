//! fio's I/O log, version 3: `time name action offset length`, with times in
//! µs, for replay with `fio --read_iolog`.
//!
//! Source: "Trace file format v3" in fio's HOWTO. fio 3.33 waits for the difference between
//! adjacent lines' times, and before the first line for its time; it takes a time of 0 to mean that
//! there was no line before. So every log starts at 1 µs, whatever the trace's origin.
//!
//! fio opens the files that lines name, and creates missing ones. A device with a kernel
//! block-device name becomes its path in `/dev`; for other names, and to replay elsewhere, use
//! fio's `replay_redirect`.

use std::io::{self, BufWriter, Write};

use trimtab_io::Op;

use super::text::{Labels, plain};
use super::{AtomicFile, LeftOut};
use crate::names::Names;
use crate::record::Record;

/// fio reads a length into 32 bits.
const MAX_LENGTH: u64 = u32::MAX as u64;

pub(super) struct FioIolog {
    file: BufWriter<AtomicFile>,
    /// The first arrival, in µs, once it is known.
    first_us: Option<u64>,
    labels: Labels,
    /// Labels in order of appearance, to be closed at the end.
    open: Vec<Box<str>>,
    last_us: u64,
}

impl FioIolog {
    pub(super) fn new(file: AtomicFile) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(256 << 10, file);
        writeln!(file, "fio version 3 iolog")?;
        let labels = Labels::default();
        Ok(Self { file, first_us: None, labels, open: Vec::new(), last_us: 1 })
    }

    pub(super) fn write(
        &mut self,
        records: &[Record],
        names: &Names,
        left_out: &mut LeftOut,
    ) -> io::Result<()> {
        for record in records {
            if record.length > MAX_LENGTH {
                left_out.out_of_range += 1;
                continue;
            }
            let us = record.arrival.0 / 1_000;
            let us = us - *self.first_us.get_or_insert(us) + 1;
            let (label, new) = self.labels.get(record.device, names, file_name);
            if new {
                writeln!(self.file, "{us} {label} add\n{us} {label} open")?;
                self.open.push(label.into());
            }
            let action = match record.op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Discard => "trim",
                Op::Flush => "sync",
            };
            writeln!(self.file, "{us} {label} {action} {} {}", record.offset, record.length)?;
            self.last_us = us;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        for label in &self.open {
            writeln!(self.file, "{} {label} close", self.last_us)?;
        }
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    }
}

/// A single word: a path for kernel device names, `device` for an empty name.
fn file_name(name: &str, suffix: &str) -> String {
    match device_path(name) {
        Some(path) => path + suffix,
        None => plain(if name.is_empty() { "device" } else { name }) + suffix,
    }
}

/// The path of a block device with a kernel name (`sda1`, `nvme0n1`, `dm-3`), or with numbers
/// (`8,0`), as blktrace prints.
fn device_path(name: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((major, minor)) = name.split_once(',') {
        let numbers = is_number(major) && is_number(minor);
        return numbers.then(|| format!("/dev/block/{major}:{minor}"));
    }
    // Drivers with numbered disks, and with lettered ones.
    const NUMBERED: [&str; 14] = [
        "nvme", "loop", "dm-", "md", "mmcblk", "nbd", "nullb", "ublkb", "ram", "zram", "pmem",
        "rbd", "sr", "mtdblock",
    ];
    const LETTERED: [&str; 4] = ["sd", "vd", "xvd", "hd"];
    let behind = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    let numbered = behind(&NUMBERED).is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            // nvme0n1p2, mmcblk0boot0, md127p1: digits and short words.
            && rest.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
            && rest.ends_with(|c: char| c.is_ascii_digit())
    });
    let lettered = behind(&LETTERED).is_some_and(|rest| {
        let partition = rest.trim_start_matches(|c: char| c.is_ascii_lowercase());
        (1..=3).contains(&(rest.len() - partition.len()))
            && (partition.is_empty() || is_number(partition))
    });
    (numbered || lettered).then(|| format!("/dev/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_device_names_become_paths() {
        for name in [
            "sda",
            "sdab12",
            "vdb",
            "xvda1",
            "hda",
            "nvme0n1",
            "nvme0c1n2p3",
            "loop0",
            "loop7p1",
            "dm-3",
            "md127",
            "mmcblk0boot0",
            "zram0",
            "ublkb2",
            "pmem0",
        ] {
            assert_eq!(file_name(name, ""), format!("/dev/{name}"));
        }
        assert_eq!(file_name("253,16", ""), "/dev/block/253:16");
        for name in
            ["usr.0", "0", "sd", "sdA", "sda.csv", "loop", "nvme", "lvm-root", "md/x", "a,1"]
        {
            assert!(!file_name(name, "").contains("/dev"), "{name}");
        }
        // A path is not changed.
        assert_eq!(file_name("/dev/mapper/vg-root", ""), "/dev/mapper/vg-root");
    }
}
