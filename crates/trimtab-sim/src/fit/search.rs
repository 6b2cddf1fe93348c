//! Looking for the profile that comes nearest.

use std::ops::Range;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::Profile;
use trimtab_io::Op;

use super::distance::Latencies;
use super::knobs::{Knob, other_ways, variants};
use super::player::{Player, Sent};
use crate::parallel;

/// The error of a model that is too slow for the load.
const FAR: f64 = 10.0;
/// Requests by which profiles to begin with are chosen.
const GLANCE: usize = 4000;
/// How often the pace of a profile to begin with is set by the drive's, and by how much at once.
const PACES: usize = 3;
const MOST_PACE: f64 = 4.0;
/// Answers over which a rate is measured.
const STRETCH: usize = 256;
/// Profiles that have children, how many all of them have in a generation, and generations.
const PARENTS: usize = 6;
const CHILDREN: usize = 12;
const GENERATIONS: u32 = 100;
/// Generations in which profiles with a buffer and those without have children of their own.
const APART: u32 = 30;
/// Knobs of a child are turned by at most so much: in the first generation, and in the last.
const FIRST_TURN: f64 = 2.2;
const LAST_TURN: f64 = 1.05;
/// One child in so many is another way in something.
const OTHER_WAYS: u32 = 4;

/// A profile, and how far it is from the drive.
#[derive(Clone, Debug)]
struct Candidate {
    profile: Profile,
    error: f64,
}

/// Tries models. `progress` is told how many were tried, and the least error so far; if it
/// returns false, nothing more is tried.
pub(super) struct Search<'a, P> {
    player: &'a Player,
    requests: &'a [Sent],
    truth: &'a Latencies,
    capacity: u64,
    threads: usize,
    tried: usize,
    least: f64,
    progress: P,
    go_on: bool,
}

impl<'a, P: FnMut(usize, f64) -> bool> Search<'a, P> {
    pub(super) const fn new(
        player: &'a Player,
        requests: &'a [Sent],
        truth: &'a Latencies,
        capacity: u64,
        threads: usize,
        progress: P,
    ) -> Self {
        let (tried, least, go_on) = (0, FAR, true);
        Self { player, requests, truth, capacity, threads, tried, least, progress, go_on }
    }

    /// How many models were tried.
    pub(super) const fn tried(&self) -> usize {
        self.tried
    }

    /// Tells how far the search is; whether it may go on.
    fn may_go_on(&mut self) -> bool {
        self.go_on &= (self.progress)(self.tried, self.least);
        self.go_on
    }

    /// The nearest profile that was found, beginning with these; its name is that of the one
    /// it came from.
    pub(super) fn nearest(&mut self, bases: Vec<Profile>) -> Option<Profile> {
        let mut random = Pcg64::seed_from_u64(1);
        let first = self.first(bases);
        // What writes to a buffer and what does not are too unlike to be compared at once.
        let (buffered, plain): (Vec<_>, Vec<_>) =
            first.into_iter().partition(|found| found.profile.buffer.size_mb > 0.0);
        let mut parents = self.breed(buffered, 0..APART, &mut random);
        parents.extend(self.breed(plain, 0..APART, &mut random));
        keep_nearest(&mut parents);
        let found = self.breed(parents, APART..GENERATIONS, &mut random);
        found.into_iter().next().map(|best| best.profile)
    }

    /// The nearest of these and of what comes from them in some generations.
    fn breed(
        &mut self,
        mut parents: Vec<Candidate>,
        generations: Range<u32>,
        random: &mut Pcg64,
    ) -> Vec<Candidate> {
        keep_nearest(&mut parents);
        for generation in generations {
            if parents.is_empty() || !self.may_go_on() {
                break;
            }
            let share = f64::from(generation) / f64::from(GENERATIONS);
            let turn = FIRST_TURN * libm::pow(LAST_TURN / FIRST_TURN, share);
            let children = (0..CHILDREN)
                .filter_map(|_| {
                    let parent = &parents[random.random_range(0..parents.len())];
                    self.child(&parent.profile, turn, random)
                })
                .collect();
            parents.extend(self.judge(children));
            keep_nearest(&mut parents);
        }
        parents
    }

    /// Those to begin with.
    fn first(&mut self, bases: Vec<Profile>) -> Vec<Candidate> {
        if !self.may_go_on() {
            return self.judge(bases);
        }
        let glance = &self.requests[self.requests.len().saturating_sub(GLANCE)..];
        let truth = Latencies::measured(glance);
        let link = busy_mb_s(self.requests);
        let all: Vec<_> =
            bases.iter().flat_map(|base| variants(base, self.capacity, link)).collect();
        // As fast as the drive before they are compared.
        let paced = parallel::map(self.threads, all.len(), |i| {
            let mut profile = all[i].clone();
            for _ in 0..PACES {
                let model = self.player.play(&profile, glance, 0);
                let ratio = model.map_or(1.0 / MOST_PACE, |model| model.pace(&truth));
                let by = ratio.clamp(1.0 / MOST_PACE, MOST_PACE);
                profile = Knob::Flash.turn(&profile, self.capacity, by).unwrap_or(profile);
            }
            profile
        });
        self.tried += PACES * all.len();
        let mut found = self.compare(paced, glance, &truth);
        found.sort_by(|a, b| a.error.total_cmp(&b.error));
        let is_buffered = |found: &Candidate| found.profile.buffer.size_mb > 0.0;
        let (buffered, plain): (Vec<_>, Vec<_>) = found.into_iter().partition(is_buffered);
        let best = [buffered, plain].into_iter().flat_map(|kind| kind.into_iter().take(PARENTS));
        // The bases come too: there is always a profile, if one that is far off.
        let profiles = best.map(|found| found.profile).chain(bases).collect();
        self.judge(profiles)
    }

    /// How far these models are from the drive.
    fn judge(&mut self, profiles: Vec<Profile>) -> Vec<Candidate> {
        let found = self.compare(profiles, self.requests, self.truth);
        self.least = found.iter().map(|found| found.error).fold(self.least, f64::min);
        found
    }

    /// How far these models are from the drive, by some of the requests.
    fn compare(
        &mut self,
        profiles: Vec<Profile>,
        requests: &[Sent],
        truth: &Latencies,
    ) -> Vec<Candidate> {
        let errors = parallel::map(self.threads, profiles.len(), |i| {
            let model = self.player.play(&profiles[i], requests, 0);
            model.map_or(FAR, |model| model.distance(truth).error())
        });
        self.tried += profiles.len();
        let candidate = |(profile, error)| Candidate { profile, error };
        profiles.into_iter().zip(errors).map(candidate).collect()
    }

    /// A profile like another one but for a few knobs, or one that is another way in
    /// something besides; none if it cannot be.
    fn child(&self, parent: &Profile, turn: f64, random: &mut Pcg64) -> Option<Profile> {
        let mut child = parent.clone();
        if random.random_ratio(1, OTHER_WAYS) {
            let mut ways = other_ways(&child, self.capacity);
            let chosen = random.random_range(0..ways.len().max(1));
            child = (chosen < ways.len()).then(|| ways.swap_remove(chosen))?;
        }
        for _ in 0..random.random_range(1..4) {
            let knob = Knob::ALL[random.random_range(0..Knob::ALL.len())];
            let by = libm::pow(turn, random.random_range(-1.0..1.0));
            child = knob.turn(&child, self.capacity, by).unwrap_or(child);
        }
        (child != *parent).then_some(child)
    }
}

/// The nearest ones, in order.
fn keep_nearest(found: &mut Vec<Candidate>) {
    found.sort_by(|a, b| a.error.total_cmp(&b.error));
    found.dedup_by(|a, b| a.profile == b.profile);
    found.truncate(PARENTS);
}

/// The rate at which a busy drive was read, MB/s: of nine stretches in ten it was less.
fn busy_mb_s(requests: &[Sent]) -> f64 {
    let mut answers: Vec<_> = requests
        .iter()
        .filter(|sent| sent.record.op == Op::Read)
        .filter_map(|sent| Some((sent.record.complete?, sent.record.length)))
        .collect();
    answers.sort_unstable();
    let mut rates: Vec<f64> = answers
        .chunks_exact(STRETCH)
        .map(|stretch| {
            let bytes: u64 = stretch.iter().map(|&(_, length)| length).sum();
            let time = stretch[STRETCH - 1].0.since(stretch[0].0);
            1000.0 * bytes as f64 / time.0.max(1) as f64
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() * 9 / 10).copied().unwrap_or_default()
}
