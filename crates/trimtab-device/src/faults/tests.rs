//! Schedules, and what they do to a drive.

use super::*;

fn with(schedule: &str) -> Faults {
    let mut faults = Faults::new(1);
    for fault in Fault::parse_schedule(schedule).unwrap() {
        faults.add(&fault, Nanos(0));
    }
    faults
}

const S: u64 = 1_000_000_000;

#[test]
fn stall_delays_answers_and_slow_multiplies_latency() {
    let mut faults = with(
        "[[fault]]\nkind = 'stall'\nat_s = 1\nfor_s = 1\n\
         [[fault]]\nkind = 'stall'\nat_s = 1.9\nfor_s = 1.1\n\
         [[fault]]\nkind = 'slow'\nfactor = 10\nat_s = 5\nfor_s = 1",
    );
    let mut answer = |arrival, complete| faults.answer_at(Nanos(arrival), Nanos(complete)).0;
    assert_eq!(answer(S / 2, S - 1), S - 1);
    assert_eq!(answer(S / 2, S), 3 * S);
    assert_eq!(answer(5 * S, 5 * S + 100), 5 * S + 1000);
    assert_eq!(answer(6 * S, 6 * S + 100), 6 * S + 100);
}

#[test]
fn fault_without_an_end_lasts_until_it_is_cleared() {
    let mut faults = with("[[fault]]\nkind = 'slow'\nfactor = 3\nat_s = 1");
    assert_eq!(faults.answer_at(Nanos(0), Nanos(S - 1)), Nanos(S - 1));
    assert_eq!(faults.answer_at(Nanos(1000 * S), Nanos(1000 * S + 7)), Nanos(1000 * S + 21));
    assert_eq!(faults.active(Nanos(S)), ["slow by 3, until faults are cleared"]);
    faults.clear();
    assert_eq!(faults.answer_at(Nanos(S), Nanos(S + 7)), Nanos(S + 7));
}

#[test]
fn error_fault_hits_its_operations_at_its_rate() {
    let mut faults = with("[[fault]]\nkind = 'error'\nops = 'reads'\nshare = 0.3\nfor_s = 1");
    let failed =
        (0..10_000).filter(|_| faults.fails(Op::Read, 0..4096, Nanos(5), Nanos(5))).count();
    assert!((2_700..3_300).contains(&failed), "{failed}");
    assert!(!faults.fails(Op::Write, 0..4096, Nanos(5), Nanos(5)));
    assert!(!faults.fails(Op::Read, 0..4096, Nanos(S), Nanos(S)));
    assert_eq!(faults.active(Nanos(0)), ["0.3 of reads fail, 1.00 s left"]);
    faults.clear();
    assert!(faults.active(Nanos(0)).is_empty());
}

#[test]
fn each_power_cut_executes_once_and_power_returns_after_the_last() {
    let mut faults = with(
        "[[fault]]\nkind = 'power-cut'\nat_s = 1\nfor_s = 2\nseed = 7\n\
         [[fault]]\nkind = 'power-cut'\nat_s = 2\nfor_s = 3\n\
         [[fault]]\nkind = 'power-cut'\nat_s = 9\n",
    );
    let mut power = |at| {
        let PowerStep { cuts, is_on, next } = faults.power(Nanos(at));
        (cuts, is_on, next.map(|next| next.0))
    };
    assert_eq!(power(0), (vec![], true, Some(S)));
    assert_eq!(power(S), (vec![Some(7)], false, Some(2 * S)));
    assert_eq!(power(2 * S), (vec![None], false, Some(3 * S)));
    assert_eq!(power(3 * S), (vec![], false, Some(5 * S)));
    assert_eq!(power(5 * S), (vec![], true, Some(9 * S)));
    assert_eq!(power(9 * S), (vec![None], false, None));
    assert_eq!(power(u64::MAX - 1), (vec![], false, None), "until it is cleared");
    let told = "power off, until faults are cleared";
    assert_eq!(faults.active(Nanos(10 * S)), [told]);
    faults.clear();
    assert!(faults.power(Nanos(10 * S)).is_on);
}

#[test]
fn power_cut_fails_requests_in_flight_only() {
    let mut faults = with("[[fault]]\nkind = 'stall'\nfor_s = 9");
    faults.lose_power(Nanos(S));
    assert_eq!(faults.answer_at(Nanos(S), Nanos(S + 5)), Nanos(S + 5), "no stall holds it");
    assert!(faults.fails(Op::Read, 0..1, Nanos(S), Nanos(S + 5)));
    assert!(!faults.fails(Op::Read, 0..1, Nanos(S + 1), Nanos(S + 5)));
}

#[test]
fn unreadable_part_of_the_medium_is_readable_again_once_written() {
    let mut faults = with("[[fault]]\nkind = 'media'\noffset = 8192\nbytes = 4096\nat_s = 1");
    let mut ask = |op, range, at| faults.fails(op, range, Nanos(at), Nanos(at));
    assert!(!ask(Op::Read, 8192..12288, 0), "not yet");
    assert!(!ask(Op::Write, 0..16384, 0), "what is written before changes nothing");
    assert!(!ask(Op::Read, 0..8192, S) && !ask(Op::Read, 12288..16384, S));
    assert!(ask(Op::Read, 0..8193, S) && ask(Op::Read, 12287..16384, S));
    // The middle of it: two parts are left.
    assert!(!ask(Op::Write, 9216..9728, S));
    assert!(!ask(Op::Read, 9216..9728, S));
    assert!(ask(Op::Read, 8704..9216, S) && ask(Op::Read, 9728..10240, S));
    let shown = faults.active(Nanos(S));
    assert_eq!(shown, ["3584 bytes from offset 8192 on unreadable until written"]);
    let mut ask = |op, range| faults.fails(op, range, Nanos(S), Nanos(S));
    assert!(!ask(Op::Write, 0..9216) && !ask(Op::Discard, 9728..20000));
    assert!(!ask(Op::Read, 0..20000));
    assert!(faults.active(Nanos(S)).is_empty());
}

#[test]
fn write_that_fails_repairs_nothing() {
    let mut faults = with(
        "[[fault]]\nkind = 'media'\noffset = 0\n\
         [[fault]]\nkind = 'error'\nops = 'writes'\nshare = 1\nfor_s = 1",
    );
    assert!(faults.fails(Op::Write, 0..512, Nanos(0), Nanos(0)));
    assert!(faults.fails(Op::Read, 511..600, Nanos(S), Nanos(S)));
    assert!(!faults.fails(Op::Write, 0..512, Nanos(S), Nanos(S)));
    assert!(!faults.fails(Op::Read, 0..512, Nanos(S), Nanos(S)));
}

#[test]
fn invalid_schedule_error_is_one_line() {
    for (schedule, expected) in [
        ("[[fault]]\nkind = 'slow'\nfactor = 0.5\nfor_s = 1", "factor must be from 1"),
        ("[[fault]]\nkind = 'explode'\nfor_s = 1", "unknown variant `explode`"),
        ("[[fault]]\nkind = 'stall'", "missing field `for_s`"),
        ("[[fault]]\nkind = 'stall'\nfor_s = 1\nshare = 1", "a stall takes only"),
        ("[[fault]]\nkind = 'power-cut'\nshare = 1", "`power-cut` takes `at_s`"),
        ("[[fault]]\nkind = 'slow'\nfor_s = 1\nfactor = 2\nseed = 1", "`slow` takes"),
        ("[[fault]]\nkind = 'media'\nbytes = 512", "`media` takes `offset`"),
        ("[[fault]]\nkind = 'media'\noffset = 0\nfor_s = 1", "`media` takes `offset`"),
        ("[[fault]]\nkind = 'media'\noffset = 0\nbytes = 0", "bytes must be from 1"),
        ("[[fault]]\nkind = 'stall'\nfor_s = 1\noffset = 0", "`offset` and `bytes` are keys of"),
        ("fautl = 1", "line 1: unknown field `fautl`"),
    ] {
        let error = Fault::parse_schedule(schedule).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn random_factors_are_drawn_for_each_request_or_each_period() {
    let schedule = "[[fault]]\nkind = 'slow'\nfactors = [[0.9, 1.0], [0.99, 10]]";
    let latencies = |text: &str| {
        let mut faults = with(text);
        let answer = |n: u64| faults.answer_at(Nanos(n * S), Nanos(n * S + 100)).0 - n * S;
        (0..10_000).map(answer).collect::<Vec<_>>()
    };
    let each = latencies(schedule);
    let slow = each.iter().filter(|&&latency| latency >= 200).count();
    // Between the points the share of greater factors falls from 10% at 1 to 1% at 10, as 1 / f.
    assert!((450..550).contains(&slow), "{slow}");
    assert!(each.iter().all(|latency| (100..=1000).contains(latency)));
    assert_eq!(each, latencies(schedule));
    let held = latencies(&format!("{schedule}\nredraw_s = 100"));
    assert!(held.chunks(100).all(|period| period.iter().all(|&latency| latency == period[0])));
    let of_periods = held.iter().step_by(100).filter(|&&latency| latency > 100).count();
    assert!((4..20).contains(&of_periods), "{of_periods}");
}

#[test]
fn recurring_fault_is_on_for_its_share_of_the_time() {
    let mut faults =
        with("[[fault]]\nkind = 'slow'\nfactor = 5\nfor_s = [180, 360]\nevery_s = [7200, 10800]");
    let mut slow = |n: u64| faults.answer_at(Nanos(n * S), Nanos(n * S + 100)).0 == n * S + 500;
    let share = (0..1_000_000).filter(|&n| slow(n)).count() as f64 / 1e6;
    assert!((0.027..0.033).contains(&share), "4.5 minutes in 2.5 hours: {share}");
    let mut stalls = with("[[fault]]\nkind = 'stall'\nat_s = 1\nfor_s = 1\nevery_s = 5");
    assert_eq!(stalls.answer_at(Nanos(6 * S), Nanos(6 * S + 1)), Nanos(7 * S));
    assert_eq!(stalls.active(Nanos(11 * S)), ["stall, 1.00 s left"]);
    assert!(stalls.active(Nanos(3 * S)).is_empty());
    let mut errors = with("[[fault]]\nkind = 'error'\nshare = 1\nfor_s = 1\nevery_s = 2");
    let fails = [0, 1, 2, 3, 4].map(|n| errors.fails(Op::Read, 0..1, Nanos(n * S), Nanos(n * S)));
    assert_eq!(fails, [true, false, true, false, true]);
}

#[test]
fn random_length_of_a_single_fault_is_in_its_range() {
    for seed in 0..20 {
        let mut faults = Faults::new(seed);
        let schedule = "[[fault]]\nkind = 'stall'\nat_s = 1\nfor_s = [2, 4]";
        faults.add(&Fault::parse_schedule(schedule).unwrap()[0], Nanos(0));
        let end = faults.answer_at(Nanos(0), Nanos(S)).0;
        assert!((3 * S..5 * S).contains(&end), "{end}");
        assert_eq!(faults.answer_at(Nanos(0), Nanos(1_000_000 * S)).0, 1_000_000 * S);
    }
}

#[test]
fn written_fault_is_read_back() {
    for schedule in [
        "[[fault]]\nkind = 'slow'\nfactors = [[0.9, 1.0], [0.99, 10]]\nredraw_s = 3600",
        "[[fault]]\nkind = 'slow'\nfactor = 5\nfor_s = [180, 360]\nevery_s = [7200, 10800]",
        "[[fault]]\nkind = 'error'\nshare = 0.5\nat_s = 2\nfor_s = 1\nevery_s = 5",
        "[[fault]]\nkind = 'power-cut'",
        "[[fault]]\nkind = 'media'\noffset = 18_000_000_000\nbytes = 4096\nat_s = 1",
    ] {
        let fault = Fault::parse_schedule(schedule).unwrap()[0];
        let text = toml::to_string(&fault).unwrap();
        assert_eq!(toml::from_str::<Fault>(&text).unwrap(), fault, "{text}");
    }
}

#[test]
fn invalid_random_fault_error_names_the_key() {
    for (keys, expected) in [
        ("kind = 'slow'", "`slow` takes `factor`, or `factors`"),
        ("kind = 'slow'\nfactor = 2\nredraw_s = 1", "`slow` takes `factor`, or `factors`"),
        ("kind = 'slow'\nfactor = 2\nfactors = [[0.5, 2]]", "`slow` takes `factor`, or `factors`"),
        ("kind = 'slow'\nfactors = []", "factors must have 1 to 24 points"),
        ("kind = 'slow'\nfactors = [[0.5, 0.5]]", "factors from 1"),
        ("kind = 'slow'\nfactors = [[0.5, 2]]\nredraw_s = -1", "redraw_s must be from 0.001"),
        ("kind = 'slow'\nfactor = 2\nevery_s = 5", "missing field `for_s`"),
        ("kind = 'slow'\nfactor = 2\nfor_s = 6\nevery_s = 5", "every_s must be from 6"),
        ("kind = 'slow'\nfactor = 2\nfor_s = [3, 2]", "for_s must be from 3"),
        ("kind = 'slow'\nfactor = 2\nfor_s = 1\nevery_s = [5, 4]", "every_s must be from 5"),
        ("kind = 'slow'\nfactor = 2\nfor_s = 'long'", "expected seconds, or [least, most]"),
        ("kind = 'power-cut'\nfor_s = 1\nevery_s = 5", "does not recur"),
    ] {
        let error = Fault::parse_schedule(&format!("[[fault]]\n{keys}")).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{keys}: {error}");
    }
}
