//! The saved-drive file: its content, and errors for invalid content.

use std::io::{Read, Write};

use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, Op, Request, RequestId};

/// The file of [`small`], uncompressed: written once, and readable by every later version. (Also a
/// fuzzing seed.)
const SMALL: &str = "tests/data/small-drive";
const MAGIC: &[u8] = b"trimtab-ssd 1\n";

/// A drive of 20 blocks that has been written to for a while.
fn small() -> (Ssd, Profile) {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.planes_per_die) = (1, 1, 2);
    (g.blocks_per_plane, g.pages_per_block, g.over_provisioning) = (10, 4, 0.5);
    (profile.noise.pause_every_ms, profile.noise.pause_ms) = (10.0, 1.0);
    let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
    for id in 0..500 {
        let (op, offset) = (Op::Write, id * 7 % 39 * 4096);
        let request = Request::new(RequestId(id), DeviceId(0), ssd.now(), op, offset, 4096);
        ssd.submit(ssd.now(), &request).unwrap();
        while ssd.in_flight() > 0 {
            ssd.advance(ssd.next_event().unwrap());
        }
    }
    (ssd, profile)
}

fn unpack(file: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    zstd::Decoder::new(file.strip_prefix(MAGIC).unwrap())
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    content
}

fn load(content: &[u8]) -> Result<(Ssd, Profile), String> {
    let mut file = zstd::Encoder::new(MAGIC.to_vec(), 1).unwrap();
    file.write_all(content).unwrap();
    Ssd::load(&file.finish().unwrap()[..], DeviceId(0)).map_err(|e| e.to_string())
}

#[test]
fn version_1_files_load() {
    let content = std::fs::read(SMALL).unwrap();
    let (mut ssd, profile) = load(&content).unwrap();
    let (original, its_profile) = small();
    assert_eq!(profile, its_profile);
    assert_eq!(ssd.erases(), original.erases());
    assert_eq!(ssd.valid_by_block(), original.valid_by_block());
    assert_eq!(ssd.verify(), Ok(()));
    // And written: saving again gives the same bytes, except for the seeds.
    let mut again = Vec::new();
    ssd.save(&profile, &mut again).unwrap();
    let again = unpack(&again);
    let differ: Vec<_> = (0..content.len()).filter(|&i| content[i] != again[i]).collect();
    assert_eq!(content.len(), again.len());
    let seed = 8 + profile.to_toml().len() + 8;
    assert!(differ.iter().all(|i| (seed..seed + 8).contains(i)), "{differ:?} but {seed}");
}

#[test]
#[ignore = "makes the file"]
fn write_the_file() {
    let (mut ssd, profile) = small();
    let mut saved = Vec::new();
    ssd.save(&profile, &mut saved).unwrap();
    std::fs::create_dir_all("tests/data").unwrap();
    std::fs::write(SMALL, unpack(&saved)).unwrap();
}

/// With any number of the file changed, loading fails, or gives a consistent drive.
#[test]
fn corrupted_numbers_fail_or_load_consistently() {
    let content = std::fs::read(SMALL).unwrap();
    let first = 8 + u64::from_le_bytes(content[..8].try_into().unwrap()) as usize;
    let mut refused = 0;
    for at in (0..8).chain(first..content.len() - 3) {
        for value in [0, 1, 2, 79, 80, 1 << 16, 1 << 31, u32::MAX] {
            let mut content = content.clone();
            content[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            match load(&content) {
                Ok((ssd, _)) => assert_eq!(ssd.verify(), Ok(()), "{value} at {at}"),
                Err(error) => {
                    refused += 1;
                    assert!(error.starts_with("the saved drive "), "{value} at {at}: {error}");
                }
            }
        }
    }
    assert!(refused > 2000, "{refused}");
}

/// A few bytes may claim a drive of terabytes: memory is not allocated before its data is read.
#[test]
fn truncated_large_drive_allocates_little() {
    let mut content = std::fs::read(SMALL).unwrap();
    let mut profile = Profile::builtin("reference").unwrap();
    profile.geometry.blocks_per_plane = 1 << 18;
    profile.geometry.pages_per_block = 100;
    profile.ftl.mapping_cache_mb = 1e6;
    let text = Profile::parse(&profile.to_toml()).unwrap().to_toml();
    let rest = 8 + u64::from_le_bytes(content[..8].try_into().unwrap()) as usize;
    let numbers = content.split_off(rest);
    let content = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &numbers].concat();
    let before = resident_kib();
    assert!(load(&content).is_err());
    assert!(resident_kib() < before + 20_000, "{before} KiB, then {}", resident_kib());
}

/// Peak resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
