//! The model's times against closed-form calculations.

use rand_pcg::Pcg64;
use trimtab_device::{Candidates, Firmware, Profile, Ssd, SsdStats};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

/// IODA, Table 2: name, share of valid pages in the block that is cleaned
/// (`R_v`), time to clean one (`T_gc`, ms).
const IODA: [(&str, f64, f64); 6] = [
    ("ioda-sim", 0.5, 658.0),
    ("ocssd", 0.75, 617.0),
    ("femu", 0.7, 57.0),
    ("970", 0.75, 312.0),
    ("p4600", 0.75, 425.0),
    ("sn260", 0.75, 408.0),
];

/// Cleans blocks with exactly this number of valid units.
#[derive(Clone, Debug)]
struct Only {
    valid: u16,
}

impl Firmware for Only {
    fn choose(&mut self, _: Nanos, candidates: &Candidates<'_>, _: &mut Pcg64) -> Option<u32> {
        candidates.iter().find(|c| c.valid == self.valid).map(|c| c.block)
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}

/// Serves a request on an idle drive.
fn run_alone(ssd: &mut Ssd, op: Op, offset: u64, length: u64) {
    let request = Request::new(RequestId(0), DeviceId(0), ssd.now(), op, offset, length);
    ssd.submit(ssd.now(), &request).unwrap();
    while let Some(at) = ssd.next_event() {
        ssd.advance(at);
    }
    ssd.served();
}

/// Fills one die, leaves a block with the given valid share, and returns its cleaning time and the
/// units moved.
fn clean_one_block(name: &str, valid_share: f64) -> (Nanos, u64) {
    let mut profile = Profile::builtin(name).unwrap();
    profile.geometry.channels = 1;
    profile.geometry.chips_per_channel = 1;
    profile.geometry.blocks_per_plane = 64;
    let page = u64::from(profile.geometry.page_bytes);
    let pages = u64::from(profile.geometry.pages_per_block);
    let valid_pages = (valid_share * pages as f64) as u64;
    let units = page / u64::from(profile.ftl.unit_bytes);
    let only = Only { valid: (valid_pages * units) as u16 };
    let mut ssd = Ssd::with_firmware(&profile, DeviceId(0), 0, Box::new(only));
    ssd.fill_in_order(1.0);
    run_alone(&mut ssd, Op::Discard, valid_pages * page, (pages - valid_pages) * page);
    // Later blocks are overwritten completely, so none of them qualifies, until free blocks are so
    // few that one is cleaned.
    for at in pages.. {
        run_alone(&mut ssd, Op::Write, at * page, page);
        if ssd.stats().erases > 0 {
            break;
        }
    }
    let stats = ssd.stats();
    assert_eq!(stats.erases, 1, "{name}");
    ssd.reset_stats();
    assert_eq!(ssd.stats(), SsdStats::default(), "{name}");
    (stats.cleaning, stats.units_moved / units)
}

#[test]
fn cleaning_time_matches_ioda_table_2() {
    for (name, valid_share, ms) in IODA {
        let (time, moved) = clean_one_block(name, valid_share);
        let pages = f64::from(Profile::builtin(name).unwrap().geometry.pages_per_block);
        assert_eq!(moved, (valid_share * pages) as u64, "{name}");
        let off = time.as_micros_f64() / 1e3 / ms - 1.0;
        assert!(off.abs() < 0.01, "{name}: {time}, {:+.2}% off {ms} ms", off * 100.0);
    }
}

/// A page read of the OpenChannel drive takes 100 µs, and the next one on the
/// same channel is 60 µs behind it (MittOS, MittSSD).
#[test]
fn openchannel_read_times_match_mittos() {
    let mut profile = Profile::builtin("openchannel").unwrap();
    profile.geometry.blocks_per_plane = 64;
    let page = u64::from(profile.geometry.page_bytes);
    let channels = u64::from(profile.geometry.channels);
    let mut ssd = Ssd::new(&profile, DeviceId(0), 0);
    ssd.fill_in_order(1.0);
    for id in 0..2 {
        // Another die of the same channel: pages are striped over channels first.
        let (id, offset) = (RequestId(id), id * channels * page);
        let request = Request::new(id, DeviceId(0), Nanos::ZERO, Op::Read, offset, page);
        ssd.submit(Nanos::ZERO, &request).unwrap();
    }
    assert_eq!(ssd.locate(0).unwrap().channel, ssd.locate(channels * page).unwrap().channel);
    ssd.advance(Nanos::from_secs(1));
    let times: Vec<_> = ssd.served().map(|s| s.completion.service_time()).collect();
    let us = |time: Nanos| time.as_micros_f64();
    assert!((us(times[0]) - 100.0).abs() < 0.1, "{}", times[0]);
    assert!((us(times[1] - times[0]) - 60.0).abs() < 0.1, "{}", times[1] - times[0]);
}
