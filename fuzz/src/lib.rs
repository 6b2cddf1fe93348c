//! What the fuzz targets have in common. Each target is one line in
//! `fuzz_targets/`, named after the format that it feeds.

use trimtab_array::{Layout, Level, Rotation};
use trimtab_compare::Comparison;
use trimtab_device::{DriveProfile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
use trimtab_learn::calibrate::{Platt, Table};
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::standardise::Standardiser;
use trimtab_learn::store::{Reader, Stored, Writer};
use trimtab_learn::{Simd, dense, integer, lightgbm, tree};
use trimtab_md::{
    Assembly, Bitmap, Candidate, PPL_HEADER_BYTES, PplHeader, SUPERBLOCK_BYTES, Superblock,
    newest_ppl,
};
use trimtab_sim::Scenario;
use trimtab_trace::{Format, Trace, TraceOptions, recording_spool};

/// Reads `bytes` as a trace in this format, passing over bad records so that
/// one does not hide what comes behind it, and checks what holds for any trace.
///
/// # Panics
/// If it does not hold.
pub fn read_as(format: Format, bytes: &[u8]) {
    let options = TraceOptions { format: Some(format), skip_bad: true, ..TraceOptions::default() };
    let Ok(mut trace) = Trace::from_bytes(bytes, &options) else { return };
    let mut batch = Vec::new();
    let mut latest = None;
    while let Ok(true) = trace.read(&mut batch) {
        for record in &batch {
            assert!(latest <= Some(record.arrival), "records are out of order");
            latest = Some(record.arrival);
            assert!(record.issue.is_none_or(|at| at >= record.arrival), "issued before it came");
            let sent = record.issue.unwrap_or(record.arrival);
            assert!(record.complete.is_none_or(|at| at >= sent), "completed before it was sent");
            assert!(record.offset.checked_add(record.length).is_some(), "ends beyond 64 bits");
            // Every number of a name stands for one.
            let _ = trace.names().device(record.device);
        }
    }
}

/// Reads a drive's profile: what is accepted is the same when it is written and
/// read again, and what is not is told in one line.
///
/// # Panics
/// If it is not so.
pub fn read_profile(text: &str) {
    match DriveProfile::parse(text) {
        Ok(profile) => assert_eq!(DriveProfile::parse(&profile.to_toml()), Ok(profile)),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Reads a scenario: what is not accepted is told in one line.
///
/// # Panics
/// If it is not.
pub fn read_scenario(text: &str) {
    if let Err(error) = Scenario::parse(text, "/nonexistent".as_ref()) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

/// Reads a comparison: what is not accepted is told in one line.
///
/// # Panics
/// If it is not.
pub fn read_comparison(text: &str) {
    if let Err(error) = Comparison::parse(text, "/nonexistent".as_ref()) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

/// Reads a model of LightGBM: what is accepted scores alike as trees and with any
/// instructions, and what is not is told in one line.
///
/// # Panics
/// If it is not so.
pub fn read_lightgbm(text: &str) {
    match lightgbm::read(text) {
        Ok(model) => {
            if let Ok(forest) = IntegerForest::new(&model.forest, 8) {
                score(&forest);
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Reads every kind of model from a file: what is accepted is the same when it is
/// written and read again.
///
/// # Panics
/// If it is not so.
pub fn read_models(bytes: &[u8]) {
    match Reader::new(bytes) {
        Ok(reader) => {
            again::<dense::Network>(&reader, "dense");
            again::<Box<integer::Network<3, 2, 16>>>(&reader, "integer");
            again::<tree::Forest>(&reader, "forest");
            again::<Standardiser>(&reader, "scale");
            again::<Table>(&reader, "table");
            again::<Platt>(&reader, "platt");
            if let Some(forest) = again::<IntegerForest>(&reader, "integer_forest") {
                score(&forest);
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// A model, if it is there; then it comes back from a file of its own.
fn again<M: Stored>(reader: &Reader<'_>, name: &str) -> Option<M> {
    let model = reader.get::<M>(name).ok()?;
    let file = |model: &M| {
        let mut writer = Writer::default();
        writer.put(name, model);
        writer.to_bytes().expect("one model")
    };
    let bytes = file(&model);
    let back = Reader::new(&bytes).and_then(|reader| reader.get(name)).expect("just written");
    assert_eq!(file(&back), bytes);
    Some(model)
}

/// All instructions give the same.
fn score(forest: &IntegerForest) {
    let numbers = [0, 1, -1, i32::MAX, i32::MIN, 50, 100, 7];
    if forest.features() > 1_000 {
        return;
    }
    let sample: Vec<i32> = numbers.into_iter().cycle().take(forest.features()).collect();
    let scores: Vec<i32> = Simd::all().map(|simd| forest.score_with(simd, &sample)).collect();
    assert!(scores.iter().all(|score| *score == scores[0]), "{scores:?}");
}

/// What stands in a file that holds a drive before the compressed part.
const SAVED: &[u8] = b"trimtab-ssd 1\n";
/// Things that happen to a drive that was loaded, at most.
const MOST_EVENTS: u32 = 20_000;

/// Loads a saved drive: from these bytes, and from a file whose content these
/// are, because no change to a compressed file gets past its checksum. A drive
/// that is accepted works.
///
/// # Panics
/// If it does not.
pub fn load_drive(bytes: &[u8]) {
    let _ = Ssd::load([SAVED, bytes].concat().as_slice(), DeviceId(0));
    let mut packed = zstd::Encoder::new(SAVED.to_vec(), 1).expect("memory takes all");
    std::io::Write::write_all(&mut packed, bytes).expect("memory takes all");
    let packed = packed.finish().expect("memory takes all");
    let Ok((mut ssd, profile)) = Ssd::load(packed.as_slice(), DeviceId(0)) else { return };
    // What is loaded is what would be saved.
    let mut saved = Vec::new();
    ssd.save(&profile, &mut saved).expect("it is at rest");
    assert!(Ssd::load(saved.as_slice(), DeviceId(0)).is_ok(), "it was loaded before");
    let (capacity, mut place) = (ssd.capacity(), 0_u64);
    for id in 0..400 {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let length = ((place >> 60) * 512).min(capacity);
        let op = [Op::Write, Op::Write, Op::Write, Op::Read, Op::Discard][id as usize % 5];
        let offset = (place >> 8) % (capacity - length + 1) / 512 * 512;
        let request = Request::new(RequestId(id), DeviceId(0), ssd.now(), op, offset, length);
        ssd.submit(ssd.now(), &request).expect("it is within the drive");
        if ssd.in_flight() > 8
            && let Some(at) = ssd.next_event()
        {
            ssd.advance(at);
        }
    }
    for _ in 0..MOST_EVENTS {
        let Some(at) = ssd.next_event() else { break };
        ssd.advance(at);
    }
    assert!(ssd.now() < Nanos::MAX, "time went on for ever");
    assert_eq!(ssd.verify(), Ok(()));
}

/// Reads a recording's spool: from these bytes, and from one whose only frame of records has
/// them as its payload, because no change gets past a frame's checksum.
///
/// # Panics
/// If a record has no name, or what is wrong is not told in one line.
pub fn read_spool(bytes: &[u8]) {
    let frame = |kind: u8, payload: &[u8]| {
        let length = (payload.len() as u32).to_le_bytes();
        let mut crc = flate2::Crc::new();
        for part in [&[kind], &length[..], payload] {
            crc.update(part);
        }
        [&[kind], &length[..], &crc.sum().to_le_bytes(), payload].concat()
    };
    let framed = [b"trimtab-spool 1\n", &frame(b'd', b"sda")[..], &frame(b'r', bytes)].concat();
    for spool in [bytes, &framed] {
        let Ok(mut reader) = recording_spool::Reader::new(spool, "x".as_ref()) else { continue };
        let mut records = Vec::new();
        let result = loop {
            match reader.read(&mut records) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error.to_string()),
            }
        };
        let devices = reader.names().devices().count();
        assert!(records.iter().all(|record| (record.device.0 as usize) < devices));
        if let Err(error) = result {
            assert!(!error.contains('\n'), "{error}");
        }
    }
}

/// Reads superblocks of md's members: from these bytes, and from them with their checksum
/// corrected, because no change gets past it. What is accepted is the same when it is written and
/// read again, and what is not is told in one line; assembly of whatever they are does not fail.
///
/// # Panics
/// If it is not so.
pub fn read_md_superblock(bytes: &[u8]) {
    let mut candidates = Vec::new();
    for block in bytes.chunks(SUPERBLOCK_BYTES).take(8) {
        let mut block = block.to_vec();
        block.resize(SUPERBLOCK_BYTES, 0);
        // What it says that it should be is what it is then.
        if let Err(trimtab_md::SuperblockError::Checksum { expected, .. }) =
            Superblock::parse(&block)
        {
            block[216..220].copy_from_slice(&expected.to_le_bytes());
        }
        let superblock = Superblock::parse(&block);
        match &superblock {
            Ok(superblock) => {
                let again = Superblock::parse(&superblock.to_bytes());
                assert_eq!(again.as_ref(), Ok(superblock));
                if let Ok(layout) = superblock.array_layout() {
                    assert!(layout.member_bytes() <= superblock.data_bytes);
                }
                _ = (superblock.bitmap_at(), superblock.ppl_at());
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
        let name = candidates.len().to_string();
        candidates.push(Candidate { name, bytes: 1 << 40, superblock, bitmap: None });
    }
    let wanted = candidates.iter().find_map(|one| Some(one.superblock.as_ref().ok()?.array_uuid));
    match Assembly::of(&candidates, wanted) {
        Ok(assembly) => {
            assert_eq!(assembly.lines().len(), candidates.len());
            assert!(assembly.lines().iter().all(|line| !line.contains('\n')));
            assert!(assembly.rebuilds.iter().all(|one| assembly.members[one.role].is_none()));
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Reads md's write-intent bitmap: what is accepted is the same when it is written and read again.
///
/// # Panics
/// If it is not so.
pub fn read_md_bitmap(bytes: &[u8]) {
    match Bitmap::parse(bytes) {
        Ok(mut bitmap) => {
            assert_eq!(Bitmap::parse(&bitmap.to_bytes()).as_ref(), Ok(&bitmap));
            let covered = bitmap.header().sync_bytes;
            let dirty: Vec<_> = bitmap.dirty().collect();
            assert!(dirty.iter().all(|range| range.start < range.end && range.end <= covered));
            assert!(dirty.windows(2).all(|pair| pair[0].end < pair[1].start));
            let stripes: Vec<_> = bitmap.dirty_stripes(64 << 10).collect();
            assert!(stripes.windows(2).all(|pair| pair[0].end < pair[1].start));
            bitmap.mark(0..covered);
            assert_eq!(bitmap.dirty_bytes(), covered);
            bitmap.clear(0..covered);
            assert_eq!(bitmap.dirty_bytes(), 0);
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Reads md's partial parity logs: from these bytes, and from them with the checksum of the first
/// header corrected. What is planned lies within the log and the array.
///
/// # Panics
/// If it is not so.
pub fn read_md_ppl(bytes: &[u8]) {
    const SIGNATURE: u32 = 0x1234_5678;
    let mut area = bytes.to_vec();
    area.resize(area.len().max(PPL_HEADER_BYTES), 0);
    area[512..516].copy_from_slice(&SIGNATURE.to_le_bytes());
    if let Err(trimtab_md::PplError::Checksum { expected, .. }) = PplHeader::parse(&area, SIGNATURE)
    {
        area[532..536].copy_from_slice(&expected.to_le_bytes());
    }
    let layout = Layout::new(Level::Raid5, Rotation::LeftSymmetric, 4, 64 << 10, 1 << 24);
    let layout = layout.expect("there is such an array");
    for is_multiple in [false, true] {
        match newest_ppl(&area, SIGNATURE, is_multiple) {
            Ok((start, header)) => {
                let log = &area[start..];
                assert_eq!(PplHeader::parse(&header.to_bytes(), SIGNATURE).as_ref(), Ok(&header));
                let recovery = header.recovery(&layout, log, |_| true);
                let planned = recovery.updates.len() + recovery.damaged.len();
                assert_eq!(planned, header.entries.len());
                for update in recovery.updates {
                    assert!(update.offset + update.bytes <= layout.member_bytes());
                    assert!(!update.data_members.contains(&update.parity_member));
                    let partial = update.partial.unwrap_or_default();
                    assert!(partial.end <= log.len() && partial.len() as u64 % update.bytes == 0);
                }
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

/// Recognises `bytes`. Whatever is wrong with them is told in one line that a
/// terminal can show.
///
/// # Panics
/// If it is not.
pub fn recognise(bytes: &[u8]) {
    if let Err(error) = Trace::from_bytes(bytes, &TraceOptions::default()) {
        let message = error.to_string();
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
}

/// A target that reads its input in one format.
#[macro_export]
macro_rules! fuzz_format {
    ($format:ident) => {
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::read_as(trimtab_trace::Format::$format, bytes);
        });
    };
}
