use proptest::prelude::*;
use trimtab_io::SplitMix64;

use super::naive::Naive;
use super::*;

fn profile(pages: u32) -> CacheProfile {
    CacheProfile { pages, ..CacheProfile::default() }
}

/// Fills what is asked for, at once.
fn serve(cache: &mut PageCache, below: &mut Vec<Below>) {
    for request in below.drain(..) {
        match request {
            Below::Read { first, pages, .. } => cache.filled(first, pages),
            Below::Write { first, pages } => cache.written(first, pages),
        }
    }
}

fn read(cache: &mut PageCache, file: &mut OpenFile, page: u64) -> Lookup {
    let mut below = Vec::new();
    let lookup = cache.read(file, page, 1, &mut below);
    serve(cache, &mut below);
    lookup
}

fn read_all(cache: &mut PageCache, file: &mut OpenFile, pages: std::ops::Range<u64>) {
    for page in pages {
        read(cache, file, page);
    }
}

#[test]
fn pages_read_twice_survive_a_scan() {
    let mut cache = PageCache::new(&CacheProfile { readahead: 0, ..profile(100) }).unwrap();
    let (mut hot, mut scan) = (OpenFile::new(0, 20), OpenFile::new(1000, 10_000));
    for _ in 0..2 {
        read_all(&mut cache, &mut hot, 0..20);
    }
    assert_eq!(cache.lengths(), (0, 20));
    read_all(&mut cache, &mut scan, 0..5000);
    assert!((0..20).all(|page| cache.is_active(page)));
    // Without a second access they are gone.
    let mut cold = OpenFile::new(500, 20);
    read_all(&mut cache, &mut cold, 0..20);
    read_all(&mut cache, &mut scan, 5000..6000);
    assert!((500..520).all(|page| !cache.is_resident(page)));
}

#[test]
fn active_list_is_at_most_ratio_times_as_long() {
    let options = CacheProfile { active_ratio: 3, readahead: 0, ..profile(400) };
    let mut cache = PageCache::new(&options).unwrap();
    let mut file = OpenFile::new(0, 400);
    for _ in 0..2 {
        read_all(&mut cache, &mut file, 0..400);
    }
    assert_eq!(cache.lengths(), (0, 400));
    let mut scan = OpenFile::new(1000, 10_000);
    read_all(&mut cache, &mut scan, 0..400);
    assert_eq!(cache.lengths(), (100, 300));
    let ratio = |gib: u32| profile(gib << 18).ratio();
    assert_eq!([1, 10, 100].map(ratio), [3, 10, 31]);
    assert_eq!(profile(1000).ratio(), 1);
}

/// Windows of a sequential reader: 4, 8, 16, 32, 32 … pages, each asked for when the first page
/// of the one before is read.
#[test]
fn readahead_windows_double_up_to_the_limit() {
    let mut cache = PageCache::new(&profile(1 << 16)).unwrap();
    let mut file = OpenFile::new(0, 1000);
    let mut below = Vec::new();
    let mut windows = Vec::new();
    for page in 0..200 {
        let lookup = cache.read(&mut file, page, 1, &mut below);
        for request in &below {
            let Below::Read { first, pages, is_readahead } = *request else {
                panic!("{request:?}")
            };
            windows.push((page, first, pages));
            assert_eq!(is_readahead, page > 0);
        }
        serve(&mut cache, &mut below);
        assert_eq!(lookup.missing, u64::from(page == 0));
    }
    let first = [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 32)];
    assert_eq!(windows[..6], first);
}

#[test]
fn random_reads_are_not_read_ahead() {
    let mut cache = PageCache::new(&profile(1 << 16)).unwrap();
    let mut file = OpenFile::new(0, 1 << 20);
    let mut below = Vec::new();
    for i in 1..200 {
        cache.read(&mut file, (i * 7919) % (1 << 20), 2, &mut below);
        serve(&mut cache, &mut below);
    }
    assert_eq!(cache.stats().read_ahead, 0);
    assert_eq!(cache.stats().misses, 398);
}

#[test]
fn neighbours_take_pages_and_give_them_back() {
    let mut cache = PageCache::new(&CacheProfile { readahead: 0, ..profile(100) }).unwrap();
    let mut file = OpenFile::new(0, 100);
    read_all(&mut cache, &mut file, 0..100);
    let mut below = Vec::new();
    assert_eq!(cache.take(20, &mut below), 20);
    // The oldest: a fifth of the pages is gone, as in a noisy minute.
    assert!((0..100).all(|page| cache.is_resident(page) == (page >= 20)));
    assert_eq!(cache.take(1000, &mut below), 80);
    let lookup = cache.read(&mut file, 5, 1, &mut below);
    assert_eq!((lookup.missing, lookup.bypassed), (1, 1));
    cache.give_back(5000);
    read_all(&mut cache, &mut file, 0..100);
    assert!((0..100).all(|page| cache.is_resident(page)));
}

#[test]
fn dirty_pages_are_written_beyond_the_limits() {
    let options = CacheProfile { readahead: 0, ..profile(1000) };
    let mut cache = PageCache::new(&options).unwrap();
    let mut below = Vec::new();
    assert_eq!(cache.write(0, 100, &mut below).missing, 100);
    assert_eq!((cache.dirty(), below.len()), (100, 0));
    assert!(!cache.write(100, 1, &mut below).is_throttled);
    // The oldest, a batch at a time.
    assert_eq!(below, [Below::Write { first: 0, pages: 32 }]);
    assert!(cache.write(200, 150, &mut below).is_throttled);
    serve(&mut cache, &mut below);
    assert!(!cache.write(101, 1, &mut below).is_throttled);
}

#[test]
fn wrong_profiles_are_errors_of_one_line() {
    let good = CacheProfile::default();
    for (options, key) in [
        (CacheProfile { pages: 0, ..good }, "pages"),
        (CacheProfile { readahead: 4097, ..good }, "readahead_bytes"),
        (CacheProfile { background_dirty: f64::NAN, ..good }, "background_dirty"),
        (CacheProfile { most_dirty: 0.05, ..good }, "most_dirty"),
    ] {
        let error = PageCache::new(&options).unwrap_err().to_string();
        assert!(error.starts_with(&format!("page cache: {key} must be ")), "{error}");
    }
    let parsed: CacheProfile = toml::from_str("pages = 500\nreadahead_bytes = 8192").unwrap();
    assert_eq!((parsed.pages, parsed.readahead), (500, 8192));
    assert!(toml::from_str::<CacheProfile>("page = 500").is_err());
}

#[test]
fn dropped_and_evicted_pages_are_told() {
    let profile = CacheProfile { pages: 4, readahead: 0, ..CacheProfile::default() };
    let mut cache = PageCache::new(&profile).unwrap();
    cache.tell_evicted();
    let (mut file, mut below) = (OpenFile::new(0, 100), Vec::new());
    for page in [3, 9, 20] {
        cache.read(&mut file, page, 1, &mut below);
    }
    cache.filled(3, 1);
    cache.filled(20, 1);
    // Page 9 is in flight.
    cache.drop_pages(3, 7);
    let mut told = Vec::new();
    cache.take_evicted(|page| told.push(page));
    assert_eq!(
        (told.as_slice(), cache.is_resident(3), cache.is_resident(20)),
        (&[3][..], false, true)
    );
    cache.filled(9, 1);
    for page in [50, 60, 70] {
        cache.read(&mut file, page, 1, &mut below);
    }
    told.clear();
    cache.take_evicted(|page| told.push(page));
    assert_eq!(told, [9], "the oldest");
}

proptest! {
    /// The cache does what the naive one does, for any calls.
    #[test]
    fn cache_agrees_with_a_naive_one(
        pages in 1..80_u32,
        active_ratio in 0..4_u64,
        readahead in 0..20_u64,
        dirty in (0.0..0.5_f64, 0.5..1.0_f64),
        seed: u64,
    ) {
        let profile = CacheProfile {
            pages,
            active_ratio,
            readahead: readahead * PAGE,
            background_dirty: dirty.0,
            most_dirty: dirty.1,
        };
        let mut cache = PageCache::new(&profile).unwrap();
        let mut naive = Naive::new(&profile);
        let mut random = SplitMix64::new(seed);
        let mut below = |n: u64| random.next() % n;
        let mut files = [OpenFile::new(0, 60), OpenFile::new(60, 90), OpenFile::new(40, 30)];
        let mut positions = [0; 3];
        let mut requests = Vec::new();
        for _ in 0..300 {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let which = below(3) as usize;
            let length = files[which].pages();
            match below(10) {
                0..=5 => {
                    let count = 1 + below(4);
                    let at = if below(3) == 0 { below(length) } else { positions[which] % length };
                    positions[which] = at + count;
                    let mut copy = files[which].clone();
                    let lookup = cache.read(&mut files[which], at, count, &mut ours);
                    prop_assert_eq!(lookup, naive.read(&mut copy, at, count, &mut theirs));
                    prop_assert_eq!(&copy, &files[which]);
                    let asked = count.min(length - at);
                    prop_assert_eq!(lookup.resident + lookup.in_flight + lookup.missing, asked);
                }
                6..=7 => {
                    let (at, count) = (below(140), 1 + below(9));
                    let lookup = cache.write(at, count, &mut ours);
                    prop_assert_eq!(lookup, naive.write(at, count, &mut theirs));
                }
                8 => {
                    let count = below(6) as u32;
                    prop_assert_eq!(cache.take(count, &mut ours), naive.take(count, &mut theirs));
                }
                _ => {
                    let count = below(9) as u32;
                    cache.give_back(count);
                    naive.give_back(count);
                }
            }
            prop_assert_eq!(&ours, &theirs);
            requests.extend(ours);
            // Requests end in any order.
            while requests.len() > 6 || (below(2) == 0 && !requests.is_empty()) {
                let at = below(requests.len() as u64) as usize;
                match requests.swap_remove(at) {
                    Below::Read { first, pages, .. } => {
                        cache.filled(first, pages);
                        naive.filled(first, pages);
                    }
                    Below::Write { first, pages } => {
                        cache.written(first, pages);
                        naive.written(first, pages);
                    }
                }
            }
            prop_assert_eq!(cache.lengths(), naive.lengths());
            prop_assert!(cache.lengths().0 + cache.lengths().1 <= pages);
            for page in 0..150 {
                prop_assert_eq!((cache.is_resident(page), cache.is_active(page)), naive.state(page));
            }
        }
    }
}
