//! What `mdadm --examine` says.

use std::path::{Path, PathBuf};
use std::process::Command;

use trimtab_array::Level;
use trimtab_md::{Bitmap, Consistency, DeviceRole, Superblock};

/// The lines of `mdadm --examine` and `--examine-bitmap`: `NAME : VALUE`.
pub(crate) struct Examined(Vec<(String, String)>);

impl Examined {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(" : "));
        Self(lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect())
    }

    /// Runs mdadm on a file.
    pub(crate) fn run(how: &str, path: &Path) -> Self {
        let output = Command::new("mdadm").arg(how).arg(path).output().expect("mdadm runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mdadm {how}: {text}{error}");
        Self::parse(&text)
    }

    /// The value of a line. Empty: there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(found, _)| found == name);
        found.map_or("", |(_, value)| value)
    }

    /// That the value begins with the text, and a space or the end follows.
    #[track_caller]
    fn is(&self, name: &str, expected: impl ToString) {
        let (value, expected) = (self.get(name), expected.to_string());
        let rest = value.strip_prefix(&expected);
        let fits = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        assert!(fits, "{name}: mdadm says `{value}`, expected `{expected}`");
    }

    /// That mdadm says the same of the superblock.
    #[track_caller]
    pub(crate) fn agrees(&self, superblock: &Superblock) {
        self.is("Magic", "a92b4efc");
        self.is("Version", "1.2");
        self.is("Feature Map", format!("{:#x}", superblock.features().0));
        self.is("Array UUID", superblock.array_uuid);
        self.is("Name", superblock.name);
        self.is("Raid Level", superblock.level);
        self.is("Raid Devices", superblock.raid_disks);
        self.is("Avail Dev Size", format!("{} sectors", superblock.data_bytes / 512));
        self.is("Data Offset", format!("{} sectors", superblock.data_offset / 512));
        self.is("Super Offset", "8 sectors");
        self.is("State", if superblock.in_sync_to.is_none() { "clean" } else { "active" });
        self.is("Device UUID", superblock.device_uuid);
        self.is("Events", superblock.events);
        let log = superblock.bad_block_log.expect("a log of bad blocks");
        let entries = log.bytes / 8;
        let available =
            format!("{entries} entries available at offset {} sectors", log.offset / 512);
        self.is("Bad Block Log", available);
        let checksum = self.get("Checksum");
        assert!(checksum.ends_with("- correct"), "{checksum}");
        match superblock.level {
            Level::Raid5 | Level::Raid6 => self.is("Layout", superblock.rotation()),
            _ => assert_eq!(self.get("Layout"), ""),
        }
        if superblock.level != Level::Raid1 {
            self.is("Chunk Size", format!("{}K", superblock.chunk / 1024));
        }
        if superblock.level != Level::Raid0 {
            let bytes = superblock.array_layout().expect("a layout").capacity();
            self.is("Array Size", format!("{} KiB", bytes / 1024));
        }
        match superblock.consistency {
            Consistency::Resync => {}
            Consistency::Bitmap { offset } => {
                self.is("Internal Bitmap", format!("{} sectors from superblock", offset / 512));
            }
            Consistency::Ppl { offset, bytes, .. } => {
                let (sectors, offset) = (bytes / 512, offset / 512);
                self.is(
                    "PPL",
                    format!("{sectors} sectors at offset {offset} sectors from superblock"),
                );
            }
        }
        match superblock.role() {
            DeviceRole::Active(index) => self.is("Device Role", format!("Active device {index}")),
            role => self.is("Device Role", role),
        }
        let has = |index: u32| superblock.roles.contains(&DeviceRole::Active(index as u16));
        let there = (0..superblock.raid_disks).map(|index| if has(index) { 'A' } else { '.' });
        self.is("Array State", there.collect::<String>());
    }

    /// That mdadm says the same of the bitmap.
    #[track_caller]
    pub(crate) fn agrees_with_bitmap(&self, bitmap: &Bitmap) {
        let header = bitmap.header();
        self.is("Magic", "6d746962");
        self.is("Version", 4);
        self.is("UUID", header.array_uuid);
        self.is("Events", header.events);
        self.is("Events Cleared", header.events_cleared);
        self.is("State", "OK");
        let (number, unit) = match header.chunk {
            chunk if chunk < 1 << 20 => (chunk >> 10, "KB"),
            chunk => (chunk >> 20, "MB"),
        };
        self.is("Chunksize", format!("{number} {unit}"));
        self.is("Daemon", format!("{}s flush period", header.clear_interval_s));
        self.is("Sync Size", header.sync_bytes / 1024);
        let dirty: u64 =
            bitmap.dirty().map(|range| (range.end - range.start).div_ceil(header.chunk)).sum();
        self.is("Bitmap", format!("{} bits (chunks), {dirty} dirty", header.bits()));
    }
}

/// The files that `scripts/md-golden` made.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}
