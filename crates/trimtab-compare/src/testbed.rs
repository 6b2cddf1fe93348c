//! The same comparison on drives that are not simulated here.

use trimtab_device::Profile;
use trimtab_io::Nanos;
use trimtab_steer::{Costs, Kind, Strategy};
use trimtab_trace::Record;

use super::engine::Progress;
use super::figures::{Report, SeedFigures};
use super::prepare::prepare_on;
use super::spec::{Comparison, Entry};
use super::trainer::Trainer;
use crate::array::{ArrayFigures, ArrayIo};
use crate::error::Error;
use crate::scenario::{DeviceSpec, Fill, FillKind, derived};

/// A drive that a scenario wants.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What it is called.
    pub name: &'a str,
    /// How it is built.
    pub profile: &'a Profile,
    /// Share of it that is filled, 0 to 1.
    pub fill: f64,
    /// How often that is overwritten at random; 0: it is written once, in order.
    pub overwrites: f64,
    /// Requests that it has at a time, at most.
    pub queue_depth: u32,
}

impl Comparison {
    /// The drives that it is of, for a rig to make.
    pub fn wanted(&self) -> impl Iterator<Item = Wanted<'_>> {
        self.devices.iter().map(|device| {
            let Fill { share, kind, overwrites } = device.fill;
            let overwrites = if kind == FillKind::Aged { overwrites } else { 0.0 };
            let DeviceSpec { name, profile, host, .. } = device;
            Wanted { name, profile, fill: share, overwrites, queue_depth: host.queue_depth }
        })
    }

    /// What is random in a drive, with a seed of the scenario.
    #[must_use]
    pub fn drive_seed(seed: u64, drive: usize) -> u64 {
        derived(seed, drive as u64)
    }

    /// How long drives rest between the phases.
    #[must_use]
    pub const fn gap(&self) -> Nanos {
        self.gap
    }

    /// The seeds.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// Whether it can be run on a [`Rig`].
    ///
    /// # Errors
    /// Its workload changes, which is for simulations.
    pub fn check_live(&self) -> Result<(), Error> {
        if self.change.is_some() {
            let what = "`change` is for simulations; leave it out for a live comparison";
            return Err(Error::Scenario(what.to_owned()));
        }
        Ok(())
    }

    /// Lets workloads reach no farther than this many bytes of the drives.
    pub const fn set_reach(&mut self, bytes: u64) {
        self.reach = Some(bytes);
    }
}

/// Drives that a comparison is run on: real ones, or emulated ones that the kernel
/// takes for real.
pub trait Rig {
    /// Makes the drives ready for a seed.
    ///
    /// # Errors
    /// They cannot be; the text is one line.
    fn prepare(&mut self, seed: u64) -> Result<(), String>;

    /// Phase one: each drive serves the requests whose home it is, at their times,
    /// and is recorded. Every row begins from the drives as they are then.
    ///
    /// # Errors
    /// The drives or the recorder failed; the text is one line.
    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, String>;

    /// Phase two, under one strategy. A row that was served doubtfully is served again
    /// after all others.
    ///
    /// # Errors
    /// The drives failed; the text is one line.
    fn serve(&mut self, row: Row<'_>) -> Result<Served, String>;

    /// Whether the drives can be as if they had nothing to do with themselves.
    fn has_ideal(&self) -> bool;
}

/// A row of the table, to be measured.
pub struct Row<'a> {
    /// What the scenario calls it.
    pub name: &'a str,
    /// Whether the drives are to have nothing to do with themselves.
    pub ideal: bool,
    /// Makes the strategy: anew for each run, if there are several.
    pub strategy: &'a dyn Fn() -> Box<dyn Strategy>,
    /// What it is to serve, on a clock that begins now.
    pub requests: &'a [ArrayIo],
    /// Decides the order in which each read fails over.
    pub seed: u64,
    /// From which time on a drive was slow, for strategies that predict.
    pub thresholds: Option<Vec<Nanos>>,
}

/// A row, measured.
pub struct Served {
    /// What came of it.
    pub figures: ArrayFigures,
    /// How late requests were handed out (p99), if that is too late to say anything of the
    /// strategy: of several such runs the one counts where this is least.
    pub doubt: Option<Nanos>,
}

/// A row of which nothing undoubted is known is served so often more, as long as any of them
/// is not doubtful then.
const ROUNDS: u32 = 2;

/// Serves all rows by number, and those that are doubtful again when all have been: what
/// keeps a machine from handing out requests in time, other guests of its host for
/// example, lasts for minutes.
fn serve_all(
    rows: usize,
    serve: &mut dyn FnMut(usize, bool) -> Result<Served, Error>,
) -> Result<Vec<ArrayFigures>, Error> {
    let mut served = (0..rows).map(|row| serve(row, false)).collect::<Result<Vec<_>, _>>()?;
    'rounds: for _ in 0..ROUNDS {
        let is_doubtful = |row: &usize| served[*row].doubt.is_some();
        let doubtful: Vec<usize> = (0..rows).filter(is_doubtful).collect();
        for &row in &doubtful {
            // What there is is worth more than nothing: its doubt is known.
            let Ok(again) = serve(row, true) else { break 'rounds };
            if again.doubt < served[row].doubt {
                served[row] = again;
            }
        }
        if doubtful.iter().all(|&row| served[row].doubt.is_some()) {
            break;
        }
    }
    Ok(served.into_iter().map(|served| served.figures).collect())
}

/// Runs a comparison on a rig. What deciding costs is what it takes there; only what
/// a row is charged in the scenario (LinnOS at its published cost, say) comes on top.
///
/// # Errors
/// As [`compare`](super::compare()), or the rig failed; or the scenario has its
/// workload change, which is for simulations.
pub fn compare_on(
    rig: &mut dyn Rig,
    comparison: &Comparison,
    trainer: &dyn Trainer,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<Report, Error> {
    comparison.check_live()?;
    let mut here = comparison.clone();
    here.entries.retain(|entry| entry.kind != Kind::Ideal || rig.has_ideal());
    let comparison = &here;
    let mut report = Report::new(comparison);
    report.failover_ns = Nanos::ZERO;
    let seeds = comparison.seeds.len();
    for (number, &seed) in comparison.seeds.iter().enumerate() {
        let tell = |doing: &str, piece, of| {
            progress(&Progress { seed: (number, seeds), doing, piece: (piece, of) });
        };
        tell("making the drives ready", 0, 1);
        rig.prepare(seed).map_err(Error::Rig)?;
        let mut record = |requests: &[ArrayIo]| rig.record(requests).map_err(Error::Rig);
        let ready = prepare_on(comparison, seed, trainer, threads, &tell, &mut record)?;
        let entries = &comparison.entries;
        let inference = |entry: &Entry| entry.inference.unwrap_or_default();
        let figures = serve_all(entries.len(), &mut |number, again| {
            let entry = &entries[number];
            let doing = if again { format!("{}, again", entry.name) } else { entry.name.clone() };
            tell(&doing, number, entries.len());
            let costs = Costs { inference: inference(entry), failover: Nanos::ZERO };
            let row = Row {
                name: &entry.name,
                ideal: entry.kind == Kind::Ideal,
                strategy: &|| ready.strategy(comparison, entry, costs),
                requests: &ready.requests,
                seed: ready.order_seed(),
                thresholds: ready.trainees(entry).map(|trainees| trainees.thresholds.clone()),
            };
            rig.serve(row).map_err(Error::Rig)
        })?;
        let measured = entries
            .iter()
            .zip(figures)
            .map(|(entry, figures)| (SeedFigures::new(seed, inference(entry), &figures), figures));
        let measured = measured.collect();
        report.add_seed(seed, ready.facts(comparison));
        report.add_turn(0, measured);
    }
    report.finish();
    Ok(report)
}

#[cfg(test)]
mod tests;
