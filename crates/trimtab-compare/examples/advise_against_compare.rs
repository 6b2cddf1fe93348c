//! What `advise` says from recordings, against what `compare` finds on the same drives.
//!
//! ```text
//! cargo run --release -p trimtab-compare --example advise_against_compare SCENARIO.toml…
//! cargo run --release -p trimtab-compare --example advise_against_compare random FIRST_SEED ARRAYS
//! ```
//!
//! The recordings of phase one go to `trimtab_train::advise`, phase two is simulated with the
//! strategies `base` and `trimtab`. A line for each array: mean latency without steering, the
//! interval and the likely value of the advice, and what the comparison found, as shares of its
//! own `base`. Random arrays have two to four drives of the built-in profiles, alike or not, under
//! Poisson or bursty load.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::path::Path;
use std::sync::Mutex;

use trimtab_compare::{
    BuiltinTrainer, Comparison, SlowThreshold, TrainError, TrainedPredictor, Trainer,
    TrainingInputs, compare,
};
use trimtab_device::Profile;
use trimtab_io::Nanos;
use trimtab_predict::Recorded;
use trimtab_trace::Record;
use trimtab_train::{Advice, advise};

/// Trains as `trimtab compare` does, and asks for advice on the same recordings.
struct Asking(Mutex<Option<Advice>>);

impl Trainer for Asking {
    fn inflections(
        &self,
        recordings: &[&[Record]],
        seed: u64,
    ) -> Result<Vec<Option<SlowThreshold>>, TrainError> {
        let recorded: Vec<Vec<Recorded>> = recordings
            .iter()
            .map(|records| {
                let all = records.iter().enumerate();
                all.filter_map(|(i, record)| trimtab_train::recorded(record, i)).collect()
            })
            .collect();
        let recorded: Vec<&[Recorded]> = recorded.iter().map(Vec::as_slice).collect();
        match advise(&recorded, true, seed, |_| {}) {
            Ok(advice) => *self.0.lock().expect("no panic") = Some(advice),
            Err(error) => println!("  no advice: {error}"),
        }
        BuiltinTrainer.inflections(recordings, seed)
    }

    fn train(&self, inputs: &TrainingInputs<'_>) -> Result<TrainedPredictor, TrainError> {
        BuiltinTrainer.train(inputs)
    }
}

/// The size of every drive.
const CAPACITY: u64 = 8 << 30;

/// An array drawn at random.
fn random_array(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1_u64 << 24) as f64
    };
    let fits = |name: &&str| {
        Profile::builtin(name).is_some_and(|profile| profile.with_capacity(CAPACITY).is_ok())
    };
    let names: Vec<&str> = Profile::builtin_names().filter(fits).collect();
    let mut pick = {
        let mut random = random;
        move || names[(random() * names.len() as f64) as usize]
    };
    let drives = 2 + (random() * 3.0) as usize;
    let alike = random() < 0.6;
    let read_share = 0.5 + 0.48 * random();
    let rate = (1000.0 * 20_f64.powf(random())).round();
    let size = 4096 << (random() * 3.0) as u32;
    let arrivals = match random() < 0.5 {
        true => format!("{{ kind = \"poisson\", iops = {rate} }}"),
        false => {
            let (on, off) = ((3.0 * rate).round(), (0.4 * rate).round());
            format!(
                "{{ kind = \"bursty\", on_iops = {on}, off_iops = {off}, on_ms = 200, off_ms = 800 }}"
            )
        }
    };
    let mut text = format!(
        "seeds = [{seed}]\nstrategies = [\"base\", \"trimtab\"]\nphase_one = {{ reads = 24000 }}\nphase_two = {{ reads = 24000 }}\n\
         [workload]\nread_share = {read_share:.2}\noffsets = {{ kind = \"uniform\" }}\n\
         sizes = [{{ bytes = {size}, weight = 1 }}]\narrivals = {arrivals}\n"
    );
    let first = pick();
    for drive in 0..drives {
        let profile = if alike || drive == 0 { first } else { pick() };
        text += &format!(
            "[[device]]\nprofile = \"{profile}\"\ncapacity = \"8G\"\n\
             fill = {{ share = 1.0, kind = \"aged\" }}\n"
        );
    }
    text
}

fn one(name: &str, comparison: &Comparison) {
    let asking = Asking(Mutex::new(None));
    let report = match compare(comparison, &asking, 1, &|_| {}) {
        Ok(report) => report,
        Err(error) => return println!("{name}: {error}"),
    };
    let Some(advice) = asking.0.into_inner().expect("no panic") else { return };
    let reads: usize = advice.drives.iter().map(|drive| drive.reads).sum();
    let mean = |of: fn(&trimtab_train::DriveAdvice) -> Nanos| {
        let sum = advice.drives.iter().map(|d| d.reads as f64 * of(d).0 as f64).sum::<f64>();
        sum / reads as f64
    };
    let found = |name: &str| {
        let row = report.strategies.iter().find(|row| row.strategy == name);
        row.and_then(|row| row.latencies.summary().mean).map_or(f64::NAN, |mean| mean.0 as f64)
    };
    let [before, likely, best] =
        [mean(|d| d.before.mean), mean(|d| d.likely.mean), mean(|d| d.best.mean)];
    let (base, trimtab) = (found("base"), found("trimtab"));
    let share = trimtab / base;
    println!(
        "{name}: before {:.0} us, advice {:.2} to 1, likely {:.2}; compare: base {:.0} us, trimtab {share:.2} {} likely off by {:+.0}%",
        before / 1e3,
        best / before,
        likely / before,
        base / 1e3,
        if share >= best / before && share <= 1.01 { "within," } else { "OUTSIDE," },
        100.0 * (likely / before / share - 1.0),
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [random, first, arrays] if random == "random" => {
            let first: u64 = first.parse()?;
            for seed in first..first + arrays.parse::<u64>()? {
                one(
                    &format!("seed {seed}"),
                    &Comparison::parse(&random_array(seed), Path::new("."))?,
                );
            }
        }
        scenarios => {
            for path in scenarios {
                one(path, &Comparison::load(Path::new(path))?);
            }
        }
    }
    Ok(())
}
