//! What holds for any requests, whatever policy and members do.

use proptest::prelude::*;
use trimtab_array::policy::{
    Asks, BusyTime, Flagged, Plain, Predicted, Proactive, ReadPolicy, StripeRead, Tolerance,
    Tolerant, Trimtab, TrimtabOptions, Turns, Windows,
};
use trimtab_array::{Layout, Level, Member, Rotation};
use trimtab_io::{Nanos, Op, Outcome, Request, mix64};
use trimtab_predict::{Forecast, Predictor, Ticket, Verdict};

use crate::members::{Array, CHUNK, STRIPES};
/// Has one member after the other written again.
#[derive(Debug)]
struct Refreshing(u8, u8);

impl ReadPolicy for Refreshing {
    fn begin(&mut self, _: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        asks.flagged(read.wanted());
    }

    fn refresh(&mut self, _: Nanos, _: u64) -> Option<Member> {
        self.0 = (self.0 + 1) % self.1;
        Some(Member(self.0))
    }
}

/// Finds a read late or fast as it comes, and counts what it is told of.
#[derive(Clone)]
struct Moody(u32);

impl Predictor for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        let number = mix64(now.0 ^ request.offset << 8 ^ u64::from(request.device.0) << 40);
        let verdict = if number.is_multiple_of(3) { Verdict::Late } else { Verdict::Fast };
        Forecast { wait: Some(Nanos(number % 1000)), ..Forecast::bare(verdict) }
    }

    fn sent(&mut self, _: Nanos, _: &Request) -> Ticket {
        self.0 += 1;
        Ticket(0)
    }

    fn completed(&mut self, _: Nanos, _: Ticket, _: bool) {
        self.0 -= 1;
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

pub(crate) fn policy(number: usize, layout: &Layout) -> Box<dyn ReadPolicy> {
    let turns = Turns { start: Nanos(0), length: Nanos(3000), members: layout.members() as u8 };
    match number {
        0 => Box::new(Plain),
        1 => Box::new(Flagged::new(BusyTime::Ignored)),
        2 => Box::new(Flagged::new(BusyTime::Shortest)),
        3 => Box::new(Windows::new(turns)),
        4 => Box::new(Proactive::FULL_STRIPE),
        5 => Box::new(Proactive::with_extra(1)),
        6 => Box::new(Tolerant::new(Tolerance::REACTIVE)),
        7 => Box::new(Refreshing(0, layout.members() as u8)),
        8 => Box::new(Trimtab::new(layout.members(), TrimtabOptions::default())),
        9 => {
            let moody = || Box::new(Moody(0)) as Box<dyn Predictor>;
            let all = (0..layout.members()).map(|_| moody()).collect();
            Box::new(Predicted::new(all, layout.chunk()))
        }
        _ => Box::new(Tolerant::new(Tolerance::ADAPTIVE)),
    }
}

pub(crate) fn layouts() -> impl Strategy<Value = Layout> {
    let level = prop_oneof![
        Just((Level::Raid0, 2)),
        Just((Level::Raid1, 2)),
        Just((Level::Raid4, 3)),
        Just((Level::Raid5, 3)),
        Just((Level::Raid6, 4)),
    ];
    (level, 0_usize..5, any::<bool>()).prop_map(|((level, least), more, last)| {
        let rotation = if last { Rotation::ParityLast } else { Rotation::LeftSymmetric };
        Layout::new(level, rotation, least + more, CHUNK, STRIPES * CHUNK).unwrap()
    })
}

/// A request: whether it writes, and its range as fractions of the array.
pub(crate) type Wanted = (bool, f64, f64, usize);

pub(crate) fn requests() -> impl Strategy<Value = Vec<Wanted>> {
    let length = prop_oneof![3 => 0.0..0.1_f64, 1 => 0.0..1.0_f64];
    prop::collection::vec((any::<bool>(), 0.0..1.0_f64, length, 0_usize..12), 1..40)
}

pub(crate) fn range(layout: &Layout, offset: f64, length: f64) -> (u64, u64) {
    let capacity = layout.capacity();
    let offset = (capacity as f64 * offset) as u64 & !511;
    let length = 512 + ((capacity as f64 * length) as u64 & !511);
    (offset, length.clamp(512, capacity - offset))
}

/// How many members can be lost.
fn redundancy(layout: &Layout) -> usize {
    match layout.level() {
        Level::Raid1 => layout.members() - 1,
        level => level.parities(),
    }
}

/// Requests of which those at a time that are given overlap in time. Checks each read against what
/// was or was being written. In the middle `lost` members break, with an announcement or without.
pub(crate) fn check(
    array: Array,
    requests: &[Wanted],
    lost: usize,
    announced: bool,
) -> Result<(), TestCaseError> {
    check_all(array, requests, lost, announced, false)
}

/// The same; with `discards` every third write is a discard of whole stripes.
pub(crate) fn check_all(
    mut array: Array,
    requests: &[Wanted],
    lost: usize,
    announced: bool,
    discards: bool,
) -> Result<(), TestCaseError> {
    let layout = *array.planner.layout();
    // What each byte may be: the last complete write, and all since that had begun.
    let mut current = vec![0_u8; layout.capacity() as usize];
    let mut open: Vec<(u64, bool, u64, u64, u8)> = Vec::new();
    for (number, &(write, offset, length, steps)) in requests.iter().enumerate() {
        let (mut offset, mut length) = range(&layout, offset, length);
        let id = number as u64;
        let is_discard = discards && write && number % 3 == 0;
        if is_discard {
            let end = (offset + length).next_multiple_of(layout.stripe_bytes());
            offset -= offset % layout.stripe_bytes();
            length = end - offset;
        }
        let value = if is_discard { 0 } else { 1 + (number % 250) as u8 };
        // Two that overlap and of which one writes may give either; that is tested by parity
        // alone. Here they come one after the other.
        let overlaps = |&(_, writes, from, bytes, _): &(u64, bool, u64, u64, u8)| {
            (writes || write) && from < offset + length && offset < from + bytes
        };
        while open.iter().any(overlaps) {
            prop_assert!(array.step(), "stuck");
            settle(&mut array, &mut open, &mut current)?;
        }
        if number == requests.len() / 2 {
            for member in 0..lost.min(redundancy(&layout)) {
                // Without an announcement, or with one.
                array.broken.insert(member as u8);
                if announced {
                    array.planner.lose(Member(member as u8));
                }
            }
        }
        let data = vec![if write { value } else { 0 }; length as usize];
        let op = match write {
            true if is_discard => Op::Discard,
            true => Op::Write,
            false => Op::Read,
        };
        open.push((id, write, offset, length, value));
        array.submit(id, op, offset, data);
        for _ in 0..steps {
            array.step();
        }
        settle(&mut array, &mut open, &mut current)?;
    }
    array.run();
    settle(&mut array, &mut open, &mut current)?;
    prop_assert!(open.is_empty());
    prop_assert_eq!(array.completed.len(), requests.len());
    array.shut_down();
    array.check_parity();
    Ok(())
}

/// Compares complete reads, and enters complete writes.
fn settle(
    array: &mut Array,
    open: &mut Vec<(u64, bool, u64, u64, u8)>,
    current: &mut [u8],
) -> Result<(), TestCaseError> {
    let mut still = Vec::new();
    for (id, write, offset, length, value) in open.drain(..) {
        let Some(outcome) = array.completed.get(&id) else {
            still.push((id, write, offset, length, value));
            continue;
        };
        prop_assert_eq!(*outcome, Outcome::Done, "{}", id);
        let range = offset as usize..(offset + length) as usize;
        if write {
            current[range].fill(value);
        } else {
            prop_assert!(array.user[&id].1 == current[range], "read {} is wrong", id);
        }
    }
    *open = still;
    Ok(())
}

/// Requests overlap in time and place: a read returns, for each sector, what was written last before
/// it began or something that was written meanwhile; and parity fits afterwards.
pub(crate) fn check_concurrent(mut array: Array, requests: &[Wanted]) -> Result<(), TestCaseError> {
    let layout = *array.planner.layout();
    let mut all: Vec<Lasting> = Vec::new();
    for (number, &(write, offset, length, steps)) in requests.iter().enumerate() {
        let (offset, length) = range(&layout, offset, length);
        let data = vec![if write { 1 + number as u8 } else { 0 }; length as usize];
        all.push(Lasting { write, offset, length, begun: array.now, ended: None });
        array.submit(number as u64, if write { Op::Write } else { Op::Read }, offset, data);
        note_ends(&mut all, &array);
        for _ in 0..steps / 3 {
            array.step();
            note_ends(&mut all, &array);
        }
    }
    let mut steps = 0;
    while array.step() {
        note_ends(&mut all, &array);
        steps += 1;
        prop_assert!(steps < 100_000, "it does not come to an end");
    }
    prop_assert!(array.planner.is_idle());
    prop_assert!(array.completed.values().all(|outcome| *outcome == Outcome::Done));
    prop_assert_eq!(array.completed.len(), requests.len());
    array.shut_down();
    array.check_parity();
    for (id, read) in all.iter().enumerate().filter(|(_, one)| !one.write) {
        let data = &array.user[&(id as u64)].1;
        for (sector, bytes) in data.chunks(512).enumerate() {
            let value = bytes[0];
            prop_assert!(bytes.iter().all(|&byte| byte == value), "torn");
            let at = read.offset + sector as u64 * 512;
            prop_assert!(may_return(&all, read, at, value), "read {} at {}: {}", id, at, value);
        }
    }
    Ok(())
}

/// A request and its time.
struct Lasting {
    write: bool,
    offset: u64,
    length: u64,
    begun: Nanos,
    ended: Option<Nanos>,
}

fn note_ends(all: &mut [Lasting], array: &Array) {
    for (id, one) in all.iter_mut().enumerate() {
        if one.ended.is_none() && array.completed.contains_key(&(id as u64)) {
            one.ended = Some(array.now);
        }
    }
}

/// Whether a read may return this value of a sector: that of a write, or what was there at first.
fn may_return(all: &[Lasting], read: &Lasting, at: u64, value: u8) -> bool {
    let covers = |one: &&Lasting| one.write && (one.offset..one.offset + one.length).contains(&at);
    // Whether a later write was over before the read began.
    let is_overwritten = |since: Nanos| {
        all.iter()
            .filter(covers)
            .any(|other| other.begun > since && other.ended.is_some_and(|ended| ended < read.begun))
    };
    match value.checked_sub(1) {
        None => !is_overwritten(Nanos(0)),
        Some(writer) => {
            let writer = &all[usize::from(writer)];
            covers(&writer)
                && writer.begun <= read.ended.unwrap()
                && writer.ended.is_none_or(|ended| !is_overwritten(ended))
        }
    }
}
