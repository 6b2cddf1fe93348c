use super::*;

const MIB: u64 = 1 << 20;
const RATES: Rates = Rates { most: 100 * MIB, least: MIB };
const US: Nanos = Nanos::from_micros(1);

fn us(us: u64) -> Nanos {
    Nanos(us * US.0)
}

/// Requests of 100 µs one after the other, for so many seconds, with windows of 1 ms as they may begin;
/// what is answered during a window takes `delayed` µs. Returns the bytes of windows.
fn use_it(pace: &mut Pace, now: &mut Nanos, seconds: u64, delayed: u64) -> u64 {
    let until = *now + Nanos::from_secs(seconds);
    let (mut done, mut ends) = (0, None);
    while *now < until {
        if ends.is_none() && *now >= pace.next() {
            pace.begin(*now);
            ends = Some(*now + us(1000));
        }
        let took = if ends.is_some() { us(delayed) } else { us(100) };
        let begun = *now;
        *now = begun + took;
        pace.completed(Op::Read, begun..*now);
        if ends.is_some_and(|end| *now >= end) {
            let bytes = pace.window_bytes(*now);
            pace.end(*now, bytes);
            done += bytes;
            ends = None;
        }
    }
    done
}

#[test]
fn idle_array_is_worked_on_at_the_ceiling() {
    let mut pace = Pace::new(RATES);
    let now = Nanos::from_secs(5);
    assert_eq!((pace.rate(now), pace.window_bytes(now)), (RATES.most, LARGE));
    pace.begin(now);
    pace.end(now + us(10), MIB);
    assert_eq!(pace.next(), now + Nanos::from_millis(10));
    pace.used(now);
    assert_eq!((pace.rate(now + us(1)), pace.window_bytes(now)), (RATES.least, SMALL));
    assert_eq!(pace.rate(now + Nanos::from_secs(1)), RATES.most);
}

/// Windows of 1 ms with pauses of 3 ms are at most 16 MiB a second: what is not felt goes on like that.
#[test]
fn rate_grows_while_nothing_is_felt_and_falls_when_it_is() {
    let (mut pace, mut now) = (Pace::new(RATES), Nanos::from_secs(1));
    use_it(&mut pace, &mut now, 60, 100);
    assert_eq!(pace.rate(now), RATES.most);
    let done = use_it(&mut pace, &mut now, 10, 100);
    assert!((12 * MIB..16 * MIB).contains(&(done / 10)), "{done}");
    // One request of each window is late, and one of a hundred may be: 92 windows a second.
    use_it(&mut pace, &mut now, 60, 1000);
    let done = use_it(&mut pace, &mut now, 30, 1000);
    assert!((3 * MIB..6 * MIB).contains(&(done / 30)), "{done}");
}

#[test]
fn rate_stays_between_floor_and_ceiling() {
    let fixed = Rates { most: MIB, least: 5 * MIB };
    let (mut pace, mut now) = (Pace::new(fixed), Nanos::from_secs(1));
    assert_eq!(pace.rates(), Rates { most: MIB, least: MIB });
    for delayed in [100, 2000] {
        use_it(&mut pace, &mut now, 20, delayed);
        assert_eq!(pace.rate(now), MIB);
    }
    let high = Rates { least: 20 * MIB, ..RATES };
    let (mut pace, mut now) = (Pace::new(high), Nanos::from_secs(1));
    use_it(&mut pace, &mut now, 30, 2000);
    assert_eq!(pace.rate(now), high.least);
}
