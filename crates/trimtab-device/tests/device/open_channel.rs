//! What an opened drive tells its host.

use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, FlashChange, FlashOp, Nanos, Op, Request, RequestId};

use crate::load::Load;

const LOAD: Load = Load {
    name: "mixed",
    mean_iops: 6000.0,
    peak_iops: 20_000.0,
    read_share: 0.5,
    read_kib: 16,
    write_kib: 24,
};

fn drive(seed: u64) -> Ssd {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (2, 4, 64, 64);
    let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
    ssd.age(&profile, 1.0, 1.0);
    ssd
}

/// Latencies by request, and what is told; `look` sees the drive after each event.
fn serve(ssd: &mut Ssd, mut look: impl FnMut(&mut Ssd)) -> Vec<(RequestId, Nanos)> {
    let requests = LOAD.requests(4000, ssd.now(), ssd.capacity(), 3);
    let mut latencies = Vec::new();
    for request in &requests {
        while let Some(at) = ssd.next_event().filter(|&at| at <= request.arrival) {
            ssd.advance(at);
            look(ssd);
        }
        ssd.submit(request.arrival, request).unwrap();
        look(ssd);
    }
    while let Some(at) = ssd.next_event() {
        ssd.advance(at);
        look(ssd);
    }
    latencies.extend(ssd.served().map(|s| (s.completion.request, s.completion.service_time())));
    latencies
}

/// The host's table locates data where the drive does, and a die begins nothing before it has
/// ended what it did.
#[test]
fn tells_what_dies_do_and_where_data_is() {
    let mut ssd = drive(1);
    let map = ssd.open_channel();
    let mut busy = [false; 8];
    let mut cleaned = 0;
    let mut last = Nanos::ZERO;
    let mut looks = 0_u64;
    serve(&mut ssd, |ssd| {
        ssd.take_flash_events(|event| {
            assert!(event.at >= last, "time runs back");
            last = event.at;
            let die = &mut busy[event.die as usize];
            match event.change {
                // A cleaning tells each of its steps.
                FlashChange::Begun(FlashOp::Clean(_)) => (*die, cleaned) = (true, cleaned + 1),
                FlashChange::Begun(_) => {
                    assert!(!*die, "die {} is busy", event.die);
                    *die = true;
                }
                FlashChange::Ended { .. } => {
                    assert!(*die, "die {} was idle", event.die);
                    *die = false;
                }
                FlashChange::Queued(_) | FlashChange::Stalled { .. } | FlashChange::Admitted => {}
            }
        });
        looks += 1;
        let user = trimtab_io::mix64(looks) % (ssd.capacity() / 4096);
        let units_per_die = 64 * 64;
        let die = map.locate(user).map(|unit| unit / units_per_die);
        assert_eq!(die, ssd.locate(user * 4096).map(|location| location.die), "unit {user}");
    });
    assert!(cleaned > 100, "{cleaned} steps of cleanings");
    assert_eq!(busy, [false; 8], "nothing is left");
}

/// Being told changes nothing, and copies are not told.
#[test]
fn opening_changes_no_latency() {
    let closed = serve(&mut drive(2), |_| {});
    let mut open = drive(2);
    _ = open.open_channel();
    let mut told = 0;
    let mut copy = open.clone();
    let opened = serve(&mut open, |ssd| ssd.take_flash_events(|_| told += 1));
    assert_eq!(opened, closed);
    assert!(told > 4000 && open.is_open_channel() && !copy.is_open_channel());
    let read = Request::new(RequestId(1), DeviceId(0), copy.now(), Op::Read, 0, 4096);
    copy.submit(copy.now(), &read).unwrap();
    copy.take_flash_events(|event| panic!("{event:?}"));
}
