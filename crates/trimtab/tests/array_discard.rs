//! Discards on arrays: what was discarded reads as zeroes, members let go of its space, copies agree and
//! parity fits, with lost members too.

mod array_bench;
mod emulated;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::{Command, Stdio};

use array_bench::{Arrays, open_direct, read_block, write_block};
use emulated::Mounted;
use trimtab_io::SplitMix64;
use trimtab_testdisk as testdisk;

const BLOCK: u64 = 4096;
const MOST: u64 = 64;

/// A device, and what it must hold.
struct Model<'a> {
    device: &'a str,
    disk: File,
    content: Vec<u8>,
    random: SplitMix64,
}

impl<'a> Model<'a> {
    fn new(device: &'a str, seed: u64) -> Self {
        let disk = open_direct(device);
        let size = fs::read_to_string(device.replace("/dev", "/sys/block") + "/size").unwrap();
        let bytes = size.trim().parse::<usize>().unwrap() * 512;
        Self { device, disk, content: vec![0; bytes], random: SplitMix64::new(seed) }
    }

    /// A range of blocks, now and then a long one.
    fn range(&mut self) -> (u64, u64) {
        let blocks = self.content.len() as u64 / BLOCK;
        let most = if self.random.next().is_multiple_of(8) { blocks / 4 } else { MOST };
        let first = self.random.next() % blocks;
        let length = (1 + self.random.next() % most).min(blocks - first);
        (first * BLOCK, length * BLOCK)
    }

    fn write(&mut self) {
        let (at, length) = self.range();
        let length = length.min(MOST * BLOCK) as usize;
        let mut buffer = testdisk::aligned(length);
        let data = testdisk::window(&mut buffer, length);
        data.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.random.next().to_le_bytes()));
        self.disk.write_all_at(data, at).unwrap();
        self.content[at as usize..][..length].copy_from_slice(data);
    }

    fn discard(&mut self) {
        let (at, length) = self.range();
        let (offset, bytes) = (at.to_string(), length.to_string());
        let discard = ["--offset", &offset, "--length", &bytes, self.device];
        let zero: &[&str] = if self.random.next().is_multiple_of(2) { &["--zeroout"] } else { &[] };
        testdisk::run("blkdiscard", &[zero, &discard].concat());
        self.content[at as usize..][..length as usize].fill(0);
    }

    fn steps(&mut self, count: u64) {
        for _ in 0..count {
            match self.random.next() % 3 {
                0 => self.discard(),
                _ => self.write(),
            }
        }
    }

    /// Reads everything.
    fn verify(&self, what: &str) {
        let length = (MOST * BLOCK) as usize;
        let mut buffer = testdisk::aligned(length);
        for (number, expected) in self.content.chunks(length).enumerate() {
            let found = testdisk::window(&mut buffer, expected.len());
            self.disk.read_exact_at(found, (number * length) as u64).unwrap();
            let differs =
                found.iter().zip(expected).position(|(found, expected)| found != expected);
            assert_eq!(differs, None, "{what}: a byte of piece {number}");
        }
    }
}

/// Whatever is written and discarded, in whichever order.
#[test]
fn discarded_bytes_are_zeroes_and_parity_fits() {
    let Some(arrays) = Arrays::new(&["blkdiscard"]) else { return };
    let steps = 60;
    for (seed, (level, members)) in
        (1..).zip([("0", 3), ("1", 2), ("4", 3), ("5", 4), ("5", 3), ("6", 5)])
    {
        let names = ["a", "b", "c", "d", "e"];
        let files = arrays.files(&names[..members], 24);
        let create = ["create", "some", "--level", level, "--assume-clean"];
        let chunk = if level == "1" { &[][..] } else { &["--chunk", "16K"] };
        let device = arrays.done(&[&create[..], chunk].concat(), &files);
        let what = format!("level {level}, {members} members");
        let mut model = Model::new(&device, seed);
        model.steps(steps);
        model.verify(&what);
        if level != "0" {
            arrays.check("some");
            arrays.done(&["fail", "some", "0"], &[]);
            model.steps(steps / 2);
            model.verify(&format!("{what}, degraded"));
            arrays.done(&["remove", "some", "0"], &[]);
            arrays.done(&["add", "some", &files[0], "--force"], &[]);
            // Meanwhile it is rebuilt.
            model.steps(steps / 2);
            arrays.wait_for_rebuild("some");
            model.verify(&format!("{what}, rebuilt"));
            arrays.check("some");
        }
        let stat = arrays.stat("some");
        assert!(stat["discards"]["requests"].as_u64() > Some(0), "{stat}");
        assert_eq!(stat["discards"]["errors"], 0, "{stat}");
        // Nothing is left of it on the members but metadata.
        testdisk::run("blkdiscard", &[&device]);
        let held = |file: &String| fs::metadata(file).unwrap().blocks() * 512;
        let held: u64 = files.iter().map(held).sum();
        assert!(held < members as u64 * (2 << 20), "{what}: the members hold {held} bytes");
        drop(model);
        arrays.done(&["stop", "some"], &[]);
    }
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

/// Emulated drives discard, and get the discards of a file system.
#[test]
fn drives_get_what_file_systems_discard() {
    let Some(arrays) = Arrays::new(&["mkfs.ext4", "fstrim", "fsck.ext4"]) else { return };
    let drive = |name: &&str| arrays.bench.create(name, &["--size", "64M", "--lead", "0us"]);
    let names = ["d0", "d1", "d2"];
    let drives: Vec<_> = names.iter().map(drive).collect();
    let device = arrays.done(&["create", "some", "--level", "5", "--assume-clean"], &drives);
    // Smaller ones are not asked for: they would be written.
    let granularity = device.replace("/dev", "/sys/block") + "/queue/discard_granularity";
    assert_eq!(fs::read_to_string(granularity).unwrap().trim(), (128 << 10).to_string());
    testdisk::run("mkfs.ext4", &["-q", &device]);
    let mounted = Mounted::new(&device, arrays.bench.path("mnt"));
    fs::write(mounted.path().join("large"), vec![7; 32 << 20]).unwrap();
    rustix::fs::sync();
    fs::remove_file(mounted.path().join("large")).unwrap();
    rustix::fs::sync();
    let discarded = |name: &&str| arrays.bench.stat(name)["discards"]["requests"].as_u64().unwrap();
    let before: Vec<_> = names.iter().map(discarded).collect();
    testdisk::run("fstrim", &[mounted.path().to_str().unwrap()]);
    let after: Vec<_> = names.iter().map(discarded).collect();
    assert!(
        before.iter().zip(&after).all(|(before, after)| after > before),
        "{before:?} {after:?}"
    );
    mounted.unmount();
    testdisk::run("fsck.ext4", &["-f", "-n", &device]);
    arrays.check("some");
    arrays.done(&["stop", "some"], &[]);
}

/// A member that makes no zeroes without data gets them written; an array with partial parity logs
/// offers none.
#[test]
fn zeroes_are_written_where_they_are_not_made() {
    let Some(arrays) = Arrays::new(&["blkdiscard"]) else { return };
    let files = arrays.files(&["a", "b", "c"], 48);
    let create = ["create", "log", "--level", "5", "--consistency", "ppl", "--assume-clean"];
    let logged = arrays.done(&create, &files);
    write_block(&open_direct(&logged), 3, 7).unwrap();
    // A loop device finds out that it is refused, and says nothing: discards are hints.
    _ = Command::new("blkdiscard").arg(&logged).stderr(Stdio::null()).status();
    assert_eq!(read_block(&open_direct(&logged), 3).unwrap(), 7);
    let members = [logged, arrays.files(&["d"], 64).remove(0)];
    let create = ["create", "over", "--level", "1", "--assume-clean", "--force"];
    let device = arrays.done(&create, &members);
    let mut model = Model::new(&device, 9);
    (0..20).for_each(|_| model.write());
    model.verify("before");
    testdisk::run("blkdiscard", &["--zeroout", &device]);
    model.content.fill(0);
    model.verify("after");
    assert_eq!(arrays.states("over"), ["active", "active"]);
    arrays.check("over");
    drop(model);
    arrays.done(&["stop", "over"], &[]);
    arrays.done(&["stop", "log"], &[]);
}
