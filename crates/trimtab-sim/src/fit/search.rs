//! The search for the nearest profile.

use std::ops::Range;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::Profile;
use trimtab_io::Op;

use super::distance::Latencies;
use super::knobs::{Knob, Size, alternatives, variants};
use super::player::{Player, Sent, When};
use crate::parallel;

/// The number of requests by which initial profiles are selected.
const GLANCE: usize = 4000;
/// How often the speed of an initial profile is adjusted to the drive's, and the largest step.
const PACES: usize = 3;
const MOST_PACE: f64 = 4.0;
/// The number of completions over which a rate is measured.
const STRETCH: usize = 256;
/// The number of parents, of children per generation, and of generations.
const PARENTS: usize = 6;
const CHILDREN: usize = 12;
const GENERATIONS: u32 = 100;
/// Generations in which each kind of profile has separate children.
const APART: u32 = 20;
/// The largest factor by which a child's knobs are changed: in the first generation, and in
/// the last.
const FIRST_TURN: f64 = 2.2;
const LAST_TURN: f64 = 1.05;
/// One child in this many differs in an alternative.
const ALTERNATIVE: u32 = 4;

/// A profile, and its distance to the drive.
#[derive(Clone, Debug)]
struct Candidate {
    profile: Profile,
    /// Infinite if it cannot sustain the load.
    error: f64,
    /// The factor by which the drive is slower.
    slower_by: f64,
}

/// Tries models. `progress` is called with the number tried and the least error so far; if it
/// returns false, the search ends.
pub(super) struct Search<'a, P> {
    player: &'a Player,
    requests: &'a [Sent],
    truth: &'a Latencies,
    size: Size,
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
        size: Size,
        threads: usize,
        progress: P,
    ) -> Self {
        let (tried, least, go_on) = (0, f64::INFINITY, true);
        Self { player, requests, truth, size, threads, tried, least, progress, go_on }
    }

    /// The number of models tried.
    pub(super) const fn tried(&self) -> usize {
        self.tried
    }

    /// Reports the progress. Returns whether the search may continue.
    fn may_go_on(&mut self) -> bool {
        self.go_on &= (self.progress)(self.tried, self.least);
        self.go_on
    }

    /// The nearest profiles found, starting with these, in order; each has the name of its
    /// origin. The link's speed is measured with the requests `link`.
    pub(super) fn nearest(&mut self, bases: &[Profile], link: &[Sent]) -> Vec<Profile> {
        let mut random = Pcg64::seed_from_u64(1);
        let mut parents = Vec::new();
        for alike in self.first(bases, busy_mb_s(link)) {
            parents.extend(self.breed(alike, 0..APART, &mut random));
        }
        let found = self.breed(parents, APART..GENERATIONS, &mut random);
        found.into_iter().map(|found| found.profile).collect()
    }

    /// The nearest of these and of their descendants in some generations.
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
            parents.extend(self.score(children));
            keep_nearest(&mut parents);
        }
        parents
    }

    /// The initial profiles, the nearest of each kind: with a buffer or without, and with the
    /// measured link or another. The kinds are too different to be compared at once.
    fn first(&mut self, bases: &[Profile], link: Option<f64>) -> [Vec<Candidate>; 4] {
        let glance = &self.requests[self.requests.len().saturating_sub(GLANCE)..];
        let truth = Latencies::measured(glance);
        let all: Vec<_> = bases.iter().flat_map(|base| variants(base, self.size, link)).collect();
        let mut found = self.compare(all, glance, &truth);
        // Adjusted to the drive's speed before they are compared, if that reduces the
        // distance.
        for _ in 0..PACES {
            if !self.may_go_on() {
                break;
            }
            let paced = parallel::map(self.threads, found.len(), |i| {
                let by = found[i].slower_by.clamp(1.0 / MOST_PACE, MOST_PACE);
                let paced = Knob::Flash.turn(&found[i].profile, self.size, by);
                paced.unwrap_or_else(|| found[i].profile.clone())
            });
            let paced = self.compare(paced, glance, &truth);
            for (found, paced) in found.iter_mut().zip(paced) {
                if paced.error < found.error {
                    *found = paced;
                }
            }
        }
        found.sort_by(|a, b| a.error.total_cmp(&b.error));
        let mut kinds: [Vec<Profile>; 4] = Default::default();
        for Candidate { profile, .. } in found {
            let is_measured = Some(profile.timing.host_link_mb_s) == link;
            let is_buffered = profile.buffer.size_mb > 0.0;
            let kind = &mut kinds[usize::from(is_measured) + 2 * usize::from(is_buffered)];
            if kind.len() < PARENTS {
                kind.push(profile);
            }
        }
        kinds.map(|kind| self.score(kind))
    }

    /// The distances of these models to the drive.
    fn score(&mut self, profiles: Vec<Profile>) -> Vec<Candidate> {
        let found = self.compare(profiles, self.requests, self.truth);
        self.least = found.iter().map(|found| found.error).fold(self.least, f64::min);
        found
    }

    /// The distances of these models to the drive, by some of the requests.
    fn compare(
        &mut self,
        profiles: Vec<Profile>,
        requests: &[Sent],
        truth: &Latencies,
    ) -> Vec<Candidate> {
        let results = parallel::map(self.threads, profiles.len(), |i| {
            let model = self.player.play(&profiles[i], requests, 0);
            model.map_or((f64::INFINITY, 0.0), |model| {
                (model.distance(truth).error(), model.slower_by(truth))
            })
        });
        self.tried += profiles.len();
        let candidate = |(profile, (error, slower_by))| Candidate { profile, error, slower_by };
        profiles.into_iter().zip(results).map(candidate).collect()
    }

    /// A profile with a few changed parameters, or also with another alternative; `None` if it
    /// is invalid.
    fn child(&self, parent: &Profile, turn: f64, random: &mut Pcg64) -> Option<Profile> {
        let mut child = parent.clone();
        if random.random_ratio(1, ALTERNATIVE) {
            let mut variants = alternatives(&child, self.size);
            let chosen = random.random_range(0..variants.len().max(1));
            child = (chosen < variants.len()).then(|| variants.swap_remove(chosen))?;
        }
        for _ in 0..random.random_range(1..4) {
            let knob = Knob::ALL[random.random_range(0..Knob::ALL.len())];
            let by = libm::pow(turn, random.random_range(-1.0..1.0));
            child = knob.turn(&child, self.size, by).unwrap_or(child);
        }
        (child != *parent).then_some(child)
    }
}

/// The nearest ones, in order.
fn keep_nearest(found: &mut Vec<Candidate>) {
    found.sort_by(|a, b| a.error.total_cmp(&b.error));
    // A profile without an effect under this load is a duplicate: the older one stays.
    found.dedup_by(|a, b| a.error == b.error);
    found.truncate(PARENTS);
}

/// The rate at which a drive with a full queue was read, MB/s: the 90th percentile over
/// stretches. `None` if there are too few.
fn busy_mb_s(requests: &[Sent]) -> Option<f64> {
    let busy = requests.iter().filter(|sent| matches!(sent.when, When::Below(..)));
    let mut answers: Vec<_> = busy
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
    rates.get(rates.len() * 9 / 10).copied().filter(|rate| (1.0..1e5).contains(rate))
}
