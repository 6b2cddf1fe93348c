//! Time of a decision on a shared machine: the median and the tenth percentile of two thousand
//! rounds of a thousand decisions. A round is shorter than a time slice, so most are not
//! interrupted; criterion averages over all elapsed time.
//!
//! `cargo run --release -p trimtab-learn --features train --example decision_time`
//!
//! For counting instructions with valgrind, arguments select the instructions and the number of
//! rounds: `decision_time AVX2 1`.
#![allow(clippy::print_stdout)]

#[path = "../benches/models/mod.rs"]
mod models;

use std::hint::black_box;
use std::time::Instant;

use trimtab_learn::Simd;

const DECISIONS: usize = 1_000;

fn measure(what: &str, simd: Simd, rounds: usize, mut decide: impl FnMut()) {
    let mut round = || {
        let begin = Instant::now();
        (0..DECISIONS).for_each(|_| decide());
        begin.elapsed().as_nanos() as f64 / DECISIONS as f64
    };
    let mut times: Vec<f64> = (0..rounds).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    let (tenth, median) = (times[rounds / 10], times[rounds / 2]);
    println!("{what:30} {simd:14} p10 {tenth:6.1} ns, median {median:6.1} ns");
}

fn main() {
    let only = std::env::args().nth(1);
    let rounds = std::env::args().nth(2).map_or(2_000, |rounds| rounds.parse().expect("a number"));
    let wanted = |simd: &Simd| only.as_ref().is_none_or(|name| *name == simd.to_string());
    let (network, samples) = models::network();
    for simd in Simd::all().filter(wanted) {
        let mut samples = samples.iter().cycle();
        measure("network 31-256-2", simd, rounds, || {
            black_box(network.margin(simd, black_box(samples.next().expect("endless"))));
        });
    }
    // As `trimtab` decides: two forests of the same size over the same features.
    let (forest, samples) = models::forest((32, 8, 56));
    for simd in Simd::all().filter(wanted) {
        let mut samples = samples.chunks_exact(forest.features()).cycle();
        measure("2 x 32 trees x 8, 56 features", simd, rounds, || {
            let sample = black_box(samples.next().expect("endless"));
            black_box(forest.both_scores_with(simd, black_box(&forest), sample));
        });
    }
    for (trees, leaves, features) in models::FORESTS {
        let (forest, samples) = models::forest((trees, leaves, features));
        let what = format!("{trees} trees x {leaves}, {features} features");
        for simd in Simd::all().filter(wanted) {
            let mut samples = samples.chunks_exact(forest.features()).cycle();
            measure(&what, simd, rounds, || {
                black_box(forest.score_with(simd, black_box(samples.next().expect("endless"))));
            });
        }
    }
}
