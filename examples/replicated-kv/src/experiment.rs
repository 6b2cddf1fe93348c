//! The experiment: drives, stores, a phase to learn from, and the same operations by
//! each strategy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use trimtab_block::BlockDevice;
use trimtab_device::Profile;
use trimtab_emu::{Data, Drive, Fill, Spec};
use trimtab_io::Nanos;
use trimtab_read::{ReadOptions, Source};

use trimtab_predict::Model;
use trimtab_tracker::{StateTracker, TrackerOptions};

use crate::clients::{self, Outcome, Plan, Strategy};
use crate::drives::{self, MountedDrive};
use crate::learn;
use crate::noise::{self, Noise};
use crate::report::{Readers, Report, Row};
use crate::store::{self, Store};
use crate::value::{Book, mix};

/// The flash before it all: full, and in use for long.
const FILL: Fill = Fill { share: 1.0, overwrites: 3.0 };

const ENDED: &str = "ended by a signal";

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    pub(crate) profile: Profile,
    pub(crate) plan: Plan,
    /// How long the drives are watched to learn from.
    pub(crate) learn: Duration,
    pub(crate) rounds: u32,
    /// Bytes per second that each drive is written beside the stores, in bursts.
    pub(crate) noise: u64,
    /// Bytes of the file that these go to.
    pub(crate) noise_file: u64,
}

/// The drives with a store on each, and who uses them.
struct Rig<'a> {
    drives: Vec<MountedDrive>,
    devices: Vec<BlockDevice>,
    book: Book,
    experiment: &'a Experiment,
    end: &'a AtomicBool,
}

/// Does it; `say` is told what is going on, and `end` ends it.
///
/// # Errors
/// Something could not be made, or it was ended. Nothing is left behind.
pub(crate) fn run(experiment: &Experiment, end: &AtomicBool, say: &dyn Fn(&str)) -> Result<Report> {
    // The load shall be on time on a busy machine, as the drives are. Not vital.
    _ = rustix::process::setpriority_process(None, -19);
    say("making three drives with file systems");
    drives::mount_unseen()?;
    let rig = Rig::new(experiment, end)?;
    say("filling the stores");
    rig.fill()?;
    say("recording, to learn from");
    let (recordings, hedge_after) = rig.record()?;
    say("learning");
    let models = learn::models(&recordings, experiment.plan.seed)?;
    rig.go_on()?;
    let functions = models.iter().map(|model| model.trained.functions().to_vec()).collect();
    let options = TrackerOptions { functions, ..TrackerOptions::default() };
    let tracker = StateTracker::load(&rig.devices, &options)?;
    rig.drives.iter().try_for_each(|drive| drive.at_rest(Drive::snapshot))?;
    let strategies = [
        ("base", Strategy::Base),
        ("hedging", Strategy::Hedging(hedge_after)),
        ("failover", Strategy::Failover(hedge_after)),
        ("failover and hedging", Strategy::Both(hedge_after)),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..experiment.rounds {
        for (name, strategy) in strategies {
            say(&format!("round {} of {}: {name}", round + 1, experiment.rounds));
            let row = rig.measure(name, strategy, &tracker, &models, round)?;
            match rows.iter_mut().find(|row| row.name == name) {
                Some(sum) => sum.add(&row),
                None => rows.push(row),
            }
        }
    }
    Ok(Report { rows, models, hedge_after })
}

impl<'a> Rig<'a> {
    fn new(experiment: &'a Experiment, end: &'a AtomicBool) -> Result<Self> {
        let make = |number: u64| {
            let capacity = experiment.profile.capacity_bytes();
            let spec = Spec {
                seed: mix(experiment.plan.seed) ^ number,
                fill: FILL,
                data: Data::Memory { cap_bytes: capacity },
                ..Spec::new(
                    format!("kv-{}-{number}", std::process::id()),
                    experiment.profile.clone(),
                )
            };
            if end.load(Relaxed) {
                bail!(ENDED);
            }
            MountedDrive::new(&spec)
        };
        let drives = (0..3).map(make).collect::<Result<Vec<_>>>()?;
        let device =
            |drive: &MountedDrive| BlockDevice::find(&drive.drive.info().device.to_string_lossy());
        let devices = drives.iter().map(device).collect::<Result<_, _>>()?;
        let book = Book::new(experiment.plan.records);
        Ok(Self { drives, devices, book, experiment, end })
    }

    fn go_on(&self) -> Result<()> {
        if self.end.load(Relaxed) {
            bail!(ENDED);
        }
        Ok(())
    }

    fn directories(&self) -> impl Iterator<Item = &Path> {
        self.drives.iter().map(|drive| &*drive.directory)
    }

    /// Fills the stores, and lays out what is written to beside them.
    fn fill(&self) -> Result<()> {
        let go_on = || self.go_on();
        let Experiment { plan, noise_file, .. } = *self.experiment;
        let fill = |directory: &Path| {
            store::create(directory, plan.records, &go_on)?;
            noise::lay_out(directory, noise_file, &go_on)
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = self.directories().map(|d| scope.spawn(move || fill(d))).collect();
            let join = |fills: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                fills.join().map_err(|_| anyhow::anyhow!("filling panicked"))?
            };
            // All of them are waited for, whatever comes of the first.
            all.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// A phase without refusals: what the drives did, and the reads' p95.
    fn record(&self) -> Result<(Vec<Vec<trimtab_predict::Recorded>>, Duration)> {
        let plan = Plan {
            time: self.experiment.learn,
            // Other operations than what is measured later.
            seed: !self.experiment.plan.seed,
            ..self.experiment.plan
        };
        let plain = ReadOptions { direct: true, publish: None, ..ReadOptions::default() };
        let stores = self.open(|_| Ok(plain.clone()))?;
        let noise = self.noise(plan.seed)?;
        let work = || clients::run(&stores, &self.book, Strategy::Base, &plan, self.end);
        let (recordings, outcome) = learn::record(&self.devices, work)?;
        noise.end()?;
        self.go_on()?;
        let outcome = outcome?;
        must_be_whole(&outcome)?;
        tidy(&stores)?;
        let p95 = outcome.reads.quantile(0.95).unwrap_or(Nanos::from_millis(1));
        Ok((recordings, Duration::from_nanos(p95.0)))
    }

    fn measure(
        &self,
        name: &'static str,
        strategy: Strategy,
        tracker: &StateTracker,
        models: &[Arc<Model>],
        round: u32,
    ) -> Result<Row> {
        self.drives.iter().try_for_each(|drive| drive.at_rest(Drive::restore))?;
        let stores = self.open(|number| {
            Ok(ReadOptions {
                model: Some(Arc::clone(&models[number])),
                source: Source::Given(tracker.drive(number)?),
                direct: true,
                publish: None,
                ..ReadOptions::default()
            })
        })?;
        let seed = self.experiment.plan.seed.wrapping_add(round.into());
        let plan = Plan { seed, ..self.experiment.plan };
        let noise = self.noise(seed)?;
        let outcome = clients::run(&stores, &self.book, strategy, &plan, self.end)?;
        let noise = noise.end()?;
        self.go_on()?;
        let mut readers = Readers::default();
        stores.iter().for_each(|store| readers.add(&store.figures().into()));
        tidy(&stores)?;
        Ok(Row { name, outcome, readers, noise })
    }

    fn open(&self, options: impl Fn(usize) -> Result<ReadOptions>) -> Result<[Store; 3]> {
        let open = |(number, directory)| Store::open(directory, &options(number)?);
        let stores = self.directories().enumerate().map(open).collect::<Result<Vec<_>>>()?;
        stores.try_into().ok().context("there are three drives")
    }

    fn noise(&self, seed: u64) -> Result<Noise> {
        Noise::begin(self.directories(), self.experiment.noise, seed)
    }
}

fn tidy(stores: &[Store; 3]) -> Result<()> {
    stores.iter().try_for_each(Store::tidy)
}

/// What is learnt from should not be what came of a fault.
fn must_be_whole(outcome: &Outcome) -> Result<()> {
    match (outcome.wrong, outcome.failed) {
        (0, 0) => Ok(()),
        (wrong, failed) => bail!("{wrong} wrong values, and {failed} operations that failed"),
    }
}
