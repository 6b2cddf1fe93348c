//! What a moved read costs the reads that come after it.
//!
//! A read that leaves its primary replica is ahead of the reads that the other replica gets
//! meanwhile, and no longer ahead of those of its primary. Where reads come independently of each
//! other that is the same on both sides. Where a user's request is many reads at once, each of a
//! drive of its own, it is not: the moved read meets the one that is due there next, and leaves a
//! drive that gets none. That one is delayed, or moves in its turn, and what each of them gains is
//! less than what all of them lose. No read sees that by itself.
//!
//! So reads are followed that could go to another replica, whether or not they do: how many reads
//! arrive for that replica until its queue is short again, and how many for its primary? A queue is
//! short when a read that was sent meanwhile has hardly waited; until then a request delays all that come after
//! it, whether or not it is complete. The difference, each times what a request there delays the next by, is the
//! toll of a move. It costs no I/O to know. What is charged is the mean less [`CERTAIN`] standard errors, or zero. A primary
//! whose own toll is larger, less [`CERTAIN_OF_PRIMARY`] standard errors, is charged that one: where
//! drives are unlike, reads that leave one with few reads for one with many delay others, and their
//! mean with those in the other direction does not show it. The toll is taken to be that of a read
//! of the array's mean length; a longer one is charged as much more, which is an approximation.

use trimtab_io::{Nanos, RequestId};

use crate::replica::{MOST_DRIVES, Replica};

/// Reads that are followed at once.
const FOLLOWED: usize = 32;
/// One that is not complete after so many others will not be: it has failed.
const LOST: u64 = 4096;
/// A read that takes less than so many times the latency without a queue has hardly waited.
const WAITED: u64 = 2;
/// A read is followed for so many times its latency after it is complete, at most: where a queue is long for
/// longer the drive is overloaded, and what one read less would change there is not known.
const LONGEST: u64 = 3;
/// The weight of a read in the mean, after the first ones.
const WEIGHT: f64 = 0.005;
/// A toll is known after so many reads, and is reduced by so many standard errors. A primary's own needs more
/// of both: the largest of several estimates is mostly too large.
const LEAST: f64 = 16.0;
const CERTAIN: f64 = 2.0;
const LEAST_OF_PRIMARY: f64 = 32.0;
const CERTAIN_OF_PRIMARY: f64 = 3.0;
/// A primary's own toll is forgotten when so many of its reads have come since the last one of them was
/// followed to its end: a toll that keeps its reads from moving keeps them from being followed too.
const FORGOTTEN: u32 = 4096;

/// What a moved read costs others, as measured.
#[derive(Clone, Debug)]
pub(crate) struct Externality {
    /// In order of their arrival.
    followed: Vec<Followed>,
    /// Whether the last read that a replica has served had waited there.
    waited: [bool; MOST_DRIVES],
    /// Reads that could be moved, followed or not.
    candidates: u64,
    /// Of all reads, and by primary.
    all: Toll,
    tolls: [Toll; MOST_DRIVES],
}

/// What a read of one primary costs others if it is moved.
#[derive(Clone, Copy, Debug)]
struct Toll {
    /// It is known after so many reads, and is reduced by so many standard errors.
    least: f64,
    certain: f64,
    /// Reads that were followed to their end, and those that have come since the last one was.
    reads: f64,
    since: u32,
    mean: f64,
    square: f64,
    /// Of a move, ns; asked for more often than it changes.
    toll: f64,
}

/// A read that could be moved.
#[derive(Clone, Copy, Debug)]
struct Followed {
    read: RequestId,
    /// Which of the reads it is that could be moved.
    number: u64,
    from: Replica,
    to: Replica,
    began: Nanos,
    /// The queues there and at its primary have not been short since.
    waits: [bool; 2],
    /// It is complete, and is followed until then at most.
    until: Option<Nanos>,
    /// By how much it would delay others, less what it would delay at its primary, ns.
    delays: f64,
}

impl Externality {
    pub(crate) fn new() -> Self {
        Self {
            followed: Vec::with_capacity(FOLLOWED),
            waited: [false; MOST_DRIVES],
            candidates: 0,
            all: Toll::new(LEAST, CERTAIN),
            tolls: [Toll::new(LEAST_OF_PRIMARY, CERTAIN_OF_PRIMARY); MOST_DRIVES],
        }
    }

    /// What a move of a read of mean length away from this primary costs other reads, ns.
    pub(crate) fn toll(&self, primary: Replica) -> f64 {
        self.tolls[primary.index()].toll.max(self.all.toll)
    }

    /// The same in the mean over all primaries.
    pub(crate) const fn mean_toll(&self) -> f64 {
        self.all.toll
    }

    /// A read of this primary comes, followed or not.
    pub(crate) fn comes(&mut self, primary: Replica) {
        let own = &mut self.tolls[primary.index()];
        own.since += 1;
        if own.since > FORGOTTEN {
            *own = Toll::new(own.least, own.certain);
        }
    }

    /// Whether a read is followed that this replica matters to.
    pub(crate) fn concerns(&self, primary: Replica) -> bool {
        self.followed.iter().any(|read| read.to == primary || read.from == primary)
    }

    /// A read arrives for its primary replica, where each request delays the next by so much, ns.
    pub(crate) fn arrived(&mut self, primary: Replica, delay: f64) {
        for read in &mut self.followed {
            if read.to == primary && read.waits[0] {
                read.delays += delay;
            } else if read.from == primary && read.waits[1] {
                read.delays -= delay;
            }
        }
    }

    /// A read could go to another replica than its primary.
    pub(crate) fn follow(&mut self, now: Nanos, read: RequestId, from: Replica, to: Replica) {
        self.candidates += 1;
        if self.followed.len() == FOLLOWED && self.followed[0].number + LOST < self.candidates {
            self.followed.remove(0);
        }
        if self.followed.len() < FOLLOWED {
            let number = self.candidates;
            let (waits, until, delays) = ([true; 2], None, 0.0);
            let followed = Followed { read, number, from, to, began: now, waits, until, delays };
            self.followed.push(followed);
        }
    }

    /// A read is complete.
    pub(crate) fn completed(&mut self, now: Nanos, read: RequestId) {
        let is_it = |followed: &Followed| followed.read == read && followed.until.is_none();
        let Some(at) = self.followed.iter().position(is_it) else { return };
        let followed = &mut self.followed[at];
        let took = now.since(followed.began);
        followed.until = Some(now + Nanos(LONGEST.saturating_mul(took.0)));
        followed.waits = [followed.to, followed.from].map(|replica| self.waited[replica.index()]);
        if followed.waits == [false; 2] {
            let followed = self.followed.remove(at);
            self.record(&followed);
        }
    }

    /// A replica has served a read that was sent at this time; one that does not wait there takes `alone`.
    pub(crate) fn served(&mut self, now: Nanos, replica: Replica, sent: Nanos, alone: Nanos) {
        let has_waited = now.since(sent).0 > WAITED.saturating_mul(alone.0);
        self.waited[replica.index()] = has_waited;
        let mut at = 0;
        while let Some(read) = self.followed.get_mut(at) {
            let Some(until) = read.until else {
                at += 1;
                continue;
            };
            if !has_waited && sent >= read.began {
                read.waits[0] &= read.to != replica;
                read.waits[1] &= read.from != replica;
            }
            if now > until || read.waits == [false; 2] {
                let read = self.followed.remove(at);
                self.record(&read);
            } else {
                at += 1;
            }
        }
    }

    /// A read has been followed to its end.
    fn record(&mut self, read: &Followed) {
        self.all.record(read.delays);
        self.tolls[read.from.index()].record(read.delays);
    }
}

impl Toll {
    const fn new(least: f64, certain: f64) -> Self {
        Self { least, certain, reads: 0.0, since: 0, mean: 0.0, square: 0.0, toll: 0.0 }
    }

    fn record(&mut self, delays: f64) {
        self.reads += 1.0;
        self.since = 0;
        let weight = self.weight();
        self.mean += weight * (delays - self.mean);
        self.square += weight * (delays * delays - self.square);
        if self.reads >= self.least {
            let variance = (self.square - self.mean * self.mean).max(0.0);
            self.toll = (self.mean - self.certain * (variance * weight).sqrt()).max(0.0);
        }
    }

    fn weight(&self) -> f64 {
        WEIGHT.max(self.reads.recip())
    }
}

#[cfg(test)]
mod tests {
    use trimtab_io::SplitMix64;

    use super::*;

    const SLOPE: f64 = 1000.0;
    const DRIVES: u64 = 8;

    /// Reads in order of time: each begins (`Some` primary and other), or ends.
    fn serve(reads: impl IntoIterator<Item = (u64, Option<(u8, u8)>)>) -> Externality {
        let mut externality = Externality::new();
        for (now, (read, begins)) in (0..).map(Nanos).zip(reads) {
            let read = RequestId(read);
            let Some((primary, other)) = begins else {
                end(&mut externality, now, read);
                continue;
            };
            if externality.concerns(Replica(primary)) {
                externality.arrived(Replica(primary), SLOPE);
            }
            externality.follow(now, read, Replica(primary), Replica(other));
        }
        externality
    }

    /// A read is complete, and no drive has a queue.
    fn end(externality: &mut Externality, now: Nanos, read: RequestId) {
        externality.completed(now, read);
        (0..DRIVES as u8).for_each(|drive| externality.served(now, Replica(drive), now, now));
    }

    fn two_drives(random: &mut SplitMix64) -> (u8, u8) {
        let primary = random.next() % DRIVES;
        let other = (primary + 1 + random.next() % (DRIVES - 1)) % DRIVES;
        (primary as u8, other as u8)
    }

    #[test]
    fn independent_reads_have_no_toll() {
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            // Four in flight at a time.
            let reads = (0..20_000_u64).flat_map(|i| {
                let begins = (i, Some(two_drives(&mut random)));
                [Some(begins), i.checked_sub(4).map(|ended| (ended, None))].into_iter().flatten()
            });
            let externality = serve(reads);
            let tolls = (0..DRIVES as u8).map(|primary| externality.toll(Replica(primary)));
            let toll = tolls.sum::<f64>() / DRIVES as f64;
            assert!(toll < 0.1 * SLOPE, "seed {seed}: {toll}");
        }
    }

    /// Reads of a drive with few go to one with many: the drives are unlike, and so are the tolls.
    #[test]
    fn drives_have_tolls_of_their_own() {
        let mut random = SplitMix64::new(1);
        // Ten reads of drive 1 to one of drive 0, and four in flight.
        let reads = (0..20_000_u64).flat_map(|i| {
            let primary = u8::from(!random.next().is_multiple_of(11));
            let begins = (i, Some((primary, 1 - primary)));
            [Some(begins), i.checked_sub(4).map(|ended| (ended, None))].into_iter().flatten()
        });
        let externality = serve(reads);
        let tolls = [0, 1].map(|primary| externality.toll(Replica(primary)));
        assert!(tolls[0] > 2.0 * SLOPE && tolls[1] == 0.0, "{tolls:?}");
    }

    /// A toll that keeps all reads of its primary there is not renewed by any of them.
    #[test]
    fn a_toll_that_nothing_renews_is_forgotten() {
        let mut externality = Externality::new();
        for i in 0..100 {
            let (now, read) = (Nanos(i), RequestId(i));
            externality.comes(Replica(0));
            externality.follow(now, read, Replica(0), Replica(1));
            externality.arrived(Replica(1), SLOPE);
            end(&mut externality, now, read);
            // Of another primary, so that the mean is none.
            let other = RequestId(1000 + i);
            externality.follow(now, other, Replica(2), Replica(3));
            externality.arrived(Replica(2), 2.0 * SLOPE);
            end(&mut externality, now, other);
        }
        assert_eq!(externality.mean_toll(), 0.0);
        for _ in 0..FORGOTTEN {
            assert_eq!(externality.toll(Replica(0)), SLOPE);
            externality.comes(Replica(0));
        }
        externality.comes(Replica(0));
        assert_eq!(externality.toll(Replica(0)), 0.0);
    }

    /// Each request is a read of each drive, at once: a moved read meets the one of that drive.
    #[test]
    fn reads_of_a_drive_each_have_one() {
        let mut random = SplitMix64::new(1);
        let reads = (0..100_u64).flat_map(|request| {
            let ids = move |drive: u64| DRIVES * request + drive;
            let begins: Vec<_> = (0..DRIVES)
                .map(|drive| {
                    let other = drive + 1 + random.next() % DRIVES.saturating_sub(drive + 1).max(1);
                    (ids(drive), Some((drive as u8, (other % DRIVES) as u8)))
                })
                .collect();
            begins.into_iter().chain((0..DRIVES).map(move |drive| (ids(drive), None)))
        });
        let externality = serve(reads);
        let mean = externality.mean_toll();
        assert!((0.7 * SLOPE..SLOPE).contains(&mean), "{mean}");
        // The last drive's reads would go to one that gets none meanwhile.
        for primary in (0..DRIVES as u8 - 1).map(Replica) {
            let toll = externality.toll(primary);
            assert!((0.99 * SLOPE..=SLOPE).contains(&toll), "{primary:?}: {toll}");
        }
    }

    /// A moved read delays those that come while it waits, and after it while there is a queue.
    #[test]
    fn a_read_is_followed_until_its_queue_is_short() {
        const ALONE: Nanos = Nanos(10);
        let (from, to) = (Replica(0), Replica(1));
        let toll = |until: Nanos, took: Nanos| {
            let mut externality = Externality::new();
            for i in 0..100 {
                let (began, read) = (Nanos(10_000 * (i + 1)), RequestId(i));
                externality.follow(began, read, from, to);
                // Reads have waited on either drive.
                for drive in [from, to] {
                    externality.served(began + Nanos(1000), drive, began - Nanos(1), ALONE);
                }
                externality.completed(began + Nanos(1000), read);
                externality.arrived(to, SLOPE);
                // It was sent before: that it did not wait says nothing of those that came after.
                externality.served(began + Nanos(1001), to, began - Nanos(1), Nanos(1001));
                externality.served(began + until, to, began + until - took, ALONE);
                externality.served(began + until, from, began + until - took, ALONE);
                externality.arrived(to, SLOPE);
                externality.served(began + Nanos(5000), from, began, ALONE);
            }
            externality.toll(from)
        };
        assert_eq!(toll(Nanos(2000), Nanos(20)), SLOPE, "the queue is short again");
        assert_eq!(toll(Nanos(2000), Nanos(21)), 2.0 * SLOPE, "there still was a queue");
        assert_eq!(toll(Nanos(4001), Nanos(21)), SLOPE, "no longer than three times as long");
    }

    #[test]
    fn a_read_that_never_completes_is_forgotten() {
        let mut random = SplitMix64::new(1);
        let lost = (0..FOLLOWED as u64).map(|i| (i, Some(two_drives(&mut random))));
        let mut externality = serve(lost.collect::<Vec<_>>());
        for i in 0..2 * LOST {
            let read = RequestId(1000 + i);
            externality.follow(Nanos(i), read, Replica(0), Replica(1));
            end(&mut externality, Nanos(i), read);
        }
        let reads = externality.tolls[0].reads;
        assert!(reads >= LOST as f64 / 2.0, "{reads}");
    }
}
