//! The data that a power cut may revert.

use proptest::prelude::*;
use trimtab_device::Profile;

use super::*;

const SECTOR: u64 = 512;
/// Few sectors, so that writes overlap; they span a chunk border.
const SECTORS: u64 = 24;
const FIRST: u64 = (64 << 10) - 8 * SECTOR;

fn spec(data: Data, write_cache: u64) -> Spec {
    let profile = Profile::builtin("consumer-a").unwrap().with_capacity(3 << 30).unwrap();
    Spec { data, write_cache: Some(write_cache), ..Spec::new("test", profile) }
}

fn memory(write_cache: u64) -> Store {
    Store::open(&spec(Data::Memory { cap_bytes: 1 << 30 }, write_cache)).unwrap()
}

/// A store in a file, and the directory that it is in.
fn file(write_cache: u64) -> (Store, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let data = Data::File { path: directory.path().join("drive"), flush: Flush::Fast };
    (Store::open(&spec(data, write_cache)).unwrap(), directory)
}

#[derive(Clone, Debug)]
enum Step {
    Write { sector: u64, sectors: u64 },
    Discard { sector: u64, sectors: u64 },
    BeginFlush,
    EndFlush,
    Cut { seed: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..SECTORS).prop_flat_map(|sector| (Just(sector), 1..=SECTORS - sector));
    prop_oneof![
        12 => range.clone().prop_map(|(sector, sectors)| Step::Write { sector, sectors }),
        1 => range.prop_map(|(sector, sectors)| Step::Discard { sector, sectors }),
        2 => Just(Step::BeginFlush),
        2 => Just(Step::EndFlush),
        1 => any::<u64>().prop_map(|seed| Step::Cut { seed }),
    ]
}

/// Each sector's values with their times, and the time of the last completed flush.
struct Allowed {
    values: Vec<Vec<(usize, u8)>>,
    flushed: usize,
}

impl Allowed {
    fn new() -> Self {
        Self { values: vec![vec![(0, 0)]; SECTORS as usize], flushed: 0 }
    }

    fn write(&mut self, now: usize, sector: u64, sectors: u64, value: u8) {
        for values in &mut self.values[sector as usize..(sector + sectors) as usize] {
            values.push((now, value));
        }
    }

    /// The last flushed value, and all later ones.
    fn of(&self, sector: usize) -> Vec<u8> {
        let values = &self.values[sector];
        let first = values.iter().rposition(|&(at, _)| at <= self.flushed).unwrap_or(0);
        values[first..].iter().map(|&(_, value)| value).collect()
    }

    fn latest(&self, sector: usize) -> u8 {
        self.values[sector].last().unwrap().1
    }

    /// After a cut, the content found is durable.
    fn settle(&mut self, now: usize, found: &[u8]) {
        self.values = found.iter().map(|&value| vec![(now, value)]).collect();
        self.flushed = now;
    }
}

/// One byte per sector. All bytes of a sector must be equal: sectors are atomic.
fn contents(store: &Store) -> Vec<u8> {
    let read = store.read(FIRST, (SECTORS * SECTOR) as usize).unwrap();
    let sectors = read.bytes().chunks(SECTOR as usize);
    sectors
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a torn sector");
            sector[0]
        })
        .collect()
}

/// Runs the steps, checks the content after each, and returns the final content.
fn check(store: &Store, limit: u64, steps: &[Step]) -> Vec<u8> {
    let mut allowed = Allowed::new();
    let mut flush = None;
    for (now, step) in (1..).zip(steps) {
        match *step {
            Step::Write { sector, sectors } => {
                let value = now as u8;
                let bytes = vec![value; (sectors * SECTOR) as usize];
                store.write(FIRST + sector * SECTOR, &bytes).unwrap();
                allowed.write(now, sector, sectors, value);
            }
            Step::Discard { sector, sectors } => {
                store.discard(FIRST + sector * SECTOR, sectors * SECTOR).unwrap();
                allowed.write(now, sector, sectors, 0);
            }
            Step::BeginFlush => flush = Some((store.begin_flush().unwrap(), now)),
            Step::EndFlush => {
                if let Some((mark, came)) = flush.take()
                    && store.end_flush(mark)
                {
                    allowed.flushed = allowed.flushed.max(came);
                }
            }
            Step::Cut { seed } => {
                store.cut_power(seed);
                assert!(store.read(0, 512).is_err() && store.write(0, &[1; 512]).is_err());
                store.restore_power();
                let found = contents(store);
                for (sector, value) in found.iter().enumerate() {
                    let may = allowed.of(sector);
                    assert!(may.contains(value), "sector {sector} is {value}, may be {may:?}");
                }
                allowed.settle(now, &found);
            }
        }
        let found = contents(store);
        assert!((0..SECTORS as usize).all(|sector| found[sector] == allowed.latest(sector)));
        assert!(store.unflushed().0 <= limit);
    }
    contents(store)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..Default::default() })]

    /// After any writes, discards, flushes and cuts each sector holds its last flushed value or a
    /// later one. Memory and file agree, and runs are reproducible.
    #[test]
    fn each_sector_holds_its_last_flushed_or_a_later_value(
        steps in prop::collection::vec(step(), 1..120),
        limit in prop_oneof![Just(0), Just(5 * SECTOR), Just(40 * SECTOR), Just(1 << 20)],
    ) {
        let in_memory = check(&memory(limit), limit, &steps);
        let (in_file, _directory) = file(limit);
        prop_assert_eq!(&in_memory, &check(&in_file, limit, &steps));
    }
}

/// 200 writes of 64 sectors each, none of them flushed.
fn lose(seed: u64) -> (Vec<u8>, PowerLoss) {
    let store = memory(64 << 20);
    for place in 0..200 {
        store.write(place * 64 * SECTOR, &[1; 64 * SECTOR as usize]).unwrap();
    }
    store.cut_power(seed);
    store.restore_power();
    let read = store.read(0, 200 * 64 * SECTOR as usize).unwrap();
    let found = read.bytes().chunks(SECTOR as usize).map(|sector| sector[0]).collect();
    (found, store.cuts().loss.unwrap())
}

#[test]
fn seed_determines_kept_lost_and_torn_writes() {
    let (found, loss) = lose(7);
    assert_eq!(loss.kept + loss.lost + loss.torn, 200);
    for (what, count) in [("kept", loss.kept), ("lost", loss.lost), ("torn", loss.torn)] {
        assert!(count > 20, "{what}: {count} of 200");
    }
    let is_torn = |place: &&[u8]| place.contains(&0) && place.contains(&1);
    assert_eq!(found.chunks(64).filter(is_torn).count() as u64, loss.torn);
    assert_eq!((found.clone(), loss), lose(7));
    assert_ne!(found, lose(8).0);
}

#[test]
fn oldest_writes_become_durable_when_the_cache_is_full() {
    let store = memory(100 * SECTOR);
    for place in 0..1000 {
        store.write(place * SECTOR, &[1; SECTOR as usize]).unwrap();
    }
    assert_eq!(store.unflushed(), (100 * SECTOR, 100 * SECTOR));
    store.cut_power(1);
    store.restore_power();
    let read = store.read(0, 1000 * SECTOR as usize).unwrap();
    let sectors: Vec<_> = read.bytes().chunks(SECTOR as usize).map(|sector| sector[0]).collect();
    assert!(sectors[..900].iter().all(|&value| value == 1), "written back before");
    let lost = sectors[900..].iter().filter(|&&value| value == 0).count();
    assert!((20..80).contains(&lost), "{lost} of the last 100");
}
