//! The comparison on a testbed: drives that are not simulated by this crate.

use trimtab_device::DriveProfile;
use trimtab_io::{Nanos, derived_seed};
use trimtab_sim::scenario::{DeviceSpec, Fill, FillKind};
use trimtab_steer::driver::{ArrayFigures, ArrayIo};
use trimtab_steer::{Costs, Strategy, StrategyKind};
use trimtab_trace::Record;

use crate::error::{Error, TestbedError};
use crate::figures::{Report, SeedFigures};
use crate::prepare::prepare_on;
use crate::simulated::Progress;
use crate::spec::{Comparison, Entry};
use crate::trainer::Trainer;

/// A drive that a scenario describes.
#[derive(Clone, Copy, Debug)]
pub struct WantedDrive<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its profile.
    pub profile: &'a DriveProfile,
    /// Share of it that is filled, 0 to 1.
    pub fill: f64,
    /// How often that is overwritten at random; 0: written once, in order.
    pub overwrites: f64,
    /// The most requests at a time.
    pub queue_depth: u32,
}

impl Comparison {
    /// The drives that the scenario describes, for a testbed to make.
    pub fn wanted_drives(&self) -> impl Iterator<Item = WantedDrive<'_>> {
        self.devices.iter().map(|device| {
            let Fill { share, kind, overwrites } = device.fill;
            let overwrites = if kind == FillKind::Aged { overwrites } else { 0.0 };
            let DeviceSpec { name, profile, host, .. } = device;
            WantedDrive { name, profile, fill: share, overwrites, queue_depth: host.queue_depth }
        })
    }

    /// The seed of a drive, from a seed of the scenario.
    #[must_use]
    pub fn drive_seed(seed: u64, drive: usize) -> u64 {
        derived_seed(seed, drive as u64)
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

    /// Checks that the comparison can be run on a [`Testbed`].
    ///
    /// # Errors
    /// Its workload changes, which only simulations support.
    pub fn check_live(&self) -> Result<(), trimtab_sim::Error> {
        if self.change.is_some() {
            let what = "`change` is for simulations; leave it out for a live comparison";
            return Err(trimtab_sim::Error::Scenario(what.to_owned()));
        }
        if self.devices.iter().any(|device| device.scheduler.is_some()) {
            let what = "`scheduler` is for simulations; a live drive has the one that the system \
                        gave it, so leave it out";
            return Err(trimtab_sim::Error::Scenario(what.to_owned()));
        }
        if self.devices.iter().any(|device| device.cache.is_some()) {
            let what = "`cache` is for simulations; live drives are read past the page cache, so \
                        leave it out";
            return Err(trimtab_sim::Error::Scenario(what.to_owned()));
        }
        let groups = self.groups.len() > 1;
        if self.copies.is_some() || self.parallel > 1 || self.resend > Nanos::ZERO || groups {
            let what = "`copies`, `group`, `parallel` and `costs.resend_us` are for simulations; leave them out \
                        for a live comparison";
            return Err(trimtab_sim::Error::Scenario(what.to_owned()));
        }
        Ok(())
    }

    /// Limits workloads to the first `bytes` bytes of the drives.
    pub const fn set_reach(&mut self, bytes: u64) {
        self.reach = Some(bytes);
    }
}

/// Drives that a comparison is run on: real ones, or emulated ones that are block devices.
pub trait Testbed {
    /// Prepares the drives for a seed.
    ///
    /// # Errors
    /// They cannot be prepared.
    fn prepare(&mut self, seed: u64) -> Result<(), TestbedError>;

    /// Phase one: each drive serves the requests whose primary replica it is, at their
    /// times, and is recorded. Every row starts from the drives as they are afterwards.
    ///
    /// # Errors
    /// The drives or the recorder failed.
    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, TestbedError>;

    /// Phase two, under one strategy. A doubtful row is served again after all others.
    ///
    /// # Errors
    /// The drives failed.
    fn serve(&mut self, row: Row<'_>) -> Result<Served, TestbedError>;

    /// Whether the drives' firmware can be made to take no time for itself.
    fn has_ideal(&self) -> bool;

    /// Whether the drives have the scenario's faults while a row is served.
    fn has_faults(&self) -> bool;
}

/// A row of the table, to be measured.
pub struct Row<'a> {
    /// Its name in the scenario.
    pub name: &'a str,
    /// Whether the drives' firmware must take no time for itself.
    pub ideal: bool,
    /// Builds the strategy, for each run if there are several.
    pub strategy: &'a dyn Fn() -> Box<dyn Strategy>,
    /// The requests to serve, on a clock that starts now.
    pub requests: &'a [ArrayIo],
    /// Determines the order in which each read fails over.
    pub seed: u64,
    /// The latency from which on a read was slow, by drive, for strategies that predict.
    pub thresholds: Option<Vec<Nanos>>,
}

/// A measured row.
pub struct Served {
    /// The figures.
    pub figures: ArrayFigures,
    /// How late requests were handed out (p99), if that makes the figures unreliable: of
    /// several such runs the least late one counts.
    pub doubt: Option<Nanos>,
}

/// How often a doubtful row is served again, as long as any of the doubtful rows improves.
const ROUNDS: u32 = 2;

/// Serves all rows by number, and then the doubtful ones again: disturbances that delay
/// requests (other guests of its host, say) last for minutes.
fn serve_all(
    rows: usize,
    serve: &mut dyn FnMut(usize, bool) -> Result<Served, Error>,
) -> Result<Vec<ArrayFigures>, Error> {
    let mut served = (0..rows).map(|row| serve(row, false)).collect::<Result<Vec<_>, _>>()?;
    'rounds: for _ in 0..ROUNDS {
        let is_doubtful = |row: &usize| served[*row].doubt.is_some();
        let doubtful: Vec<usize> = (0..rows).filter(is_doubtful).collect();
        for &row in &doubtful {
            // A doubtful result is kept if it cannot be replaced.
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

/// Runs a comparison on a testbed. A decision takes its actual time there; only a charge that
/// the scenario states (LinnOS at its published cost, say) is added.
///
/// # Errors
/// As [`compare`](crate::compare()), or the testbed failed; or the workload of the scenario
/// changes, which only simulations support.
pub fn compare_on(
    testbed: &mut dyn Testbed,
    comparison: &Comparison,
    trainer: &dyn Trainer,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<Report, Error> {
    comparison.check_live()?;
    if !testbed.has_faults() && comparison.faults.iter().any(|faults| !faults.is_empty()) {
        let what = "`fault` is for simulated and emulated drives; leave it out for others";
        return Err(trimtab_sim::Error::Scenario(what.to_owned()).into());
    }
    let mut here = comparison.clone();
    here.entries.retain(|entry| entry.kind != StrategyKind::Ideal || testbed.has_ideal());
    // Only simulated drives tell what a host of managed flash would know.
    here.entries.retain(|entry| !entry.kind.knows_queues());
    let comparison = &here;
    let mut report = Report::new(comparison);
    report.failover_ns = Nanos::ZERO;
    let seeds = comparison.seeds.len();
    for (number, &seed) in comparison.seeds.iter().enumerate() {
        let tell = |doing: &str, piece, of| {
            progress(&Progress { seed: (number, seeds), doing, piece: (piece, of) });
        };
        tell("making the drives ready", 0, 1);
        testbed.prepare(seed)?;
        let mut record = |requests: &[ArrayIo]| Ok(testbed.record(requests)?);
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
                ideal: entry.kind == StrategyKind::Ideal,
                strategy: &|| ready.strategy(comparison, entry, costs, None),
                requests: &ready.requests(entry),
                seed: ready.order_seed(),
                thresholds: ready.trainees(entry).map(|trainees| trainees.thresholds.clone()),
            };
            Ok(testbed.serve(row)?)
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
