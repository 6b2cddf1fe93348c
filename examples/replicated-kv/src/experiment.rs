//! The experiment: drives, the store, a phase to learn from, and the same operations in each
//! way of reading.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Result, bail};
use trimtab_block::BlockDevice;
use trimtab_device::Profile;
use trimtab_emu::{Data, Drive, Fill, Spec};
use trimtab_read::Source;
use trimtab_replicas::ReplicaOptions;

use trimtab_predict::Model;
use trimtab_tracker::{StateTracker, TrackerOptions};

use crate::clients::{self, Outcome, Plan};
use crate::drives::{self, MountedDrive};
use crate::learn;
use crate::mirror::Way;
use crate::noise::{self, Noise};
use crate::report::{Pages, Report, Row};
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
    /// Bytes per second that each drive is written beside the store, in bursts.
    pub(crate) noise: u64,
    /// Bytes of the file that these go to.
    pub(crate) noise_file: u64,
}

/// The drives, with a copy of the store on each.
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
    say("filling the store");
    rig.fill()?;
    say("recording, to learn from");
    let recordings = rig.record()?;
    say("learning");
    let models = learn::models(&recordings, experiment.plan.seed)?;
    rig.go_on()?;
    let functions = models.iter().map(|model| model.trained.functions().to_vec()).collect();
    let options = TrackerOptions { functions, ..TrackerOptions::default() };
    let tracker = StateTracker::load(&rig.devices, &options)?;
    rig.drives.iter().try_for_each(|drive| drive.at_rest(Drive::snapshot))?;
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..experiment.rounds {
        for name in ["base", "replica set, no models", "replica set"] {
            say(&format!("round {} of {}: {name}", round + 1, experiment.rounds));
            let way = match name {
                "base" => Way::Base,
                "replica set" => rig.set(&tracker, &models)?,
                _ => Way::Set(rig.without_models()),
            };
            let row = rig.measure(name, &way, round)?;
            match rows.iter_mut().find(|row| row.name == name) {
                Some(sum) => sum.add(&row),
                None => rows.push(row),
            }
        }
    }
    Ok(Report { rows, models })
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

    /// Fills the store, and lays out what is written to beside it.
    fn fill(&self) -> Result<()> {
        let go_on = || self.go_on();
        let Experiment { plan, noise_file, .. } = *self.experiment;
        store::create(&self.directories().collect::<Vec<_>>(), plan.records, &go_on)?;
        let lay_out = |directory| noise::lay_out(directory, noise_file, &go_on);
        std::thread::scope(|scope| {
            let all: Vec<_> = self.directories().map(|d| scope.spawn(move || lay_out(d))).collect();
            let join = |fills: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                fills.join().map_err(|_| anyhow::anyhow!("filling panicked"))?
            };
            // All of them are waited for, whatever comes of the first.
            all.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// A phase of plain reads: what the drives did.
    fn record(&self) -> Result<Vec<Vec<trimtab_predict::Recorded>>> {
        let plan = Plan {
            time: self.experiment.learn,
            // Other operations than what is measured later.
            seed: !self.experiment.plan.seed,
            ..self.experiment.plan
        };
        let store = self.open(&Way::Base)?;
        let noise = self.noise(plan.seed)?;
        let work = || clients::run(&store, &self.book, &plan, self.end);
        let (recordings, outcome) = learn::record(&self.devices, work)?;
        noise.end()?;
        self.go_on()?;
        must_be_whole(&outcome?)?;
        store.tidy()?;
        Ok(recordings)
    }

    fn measure(&self, name: &'static str, way: &Way, round: u32) -> Result<Row> {
        self.drives.iter().try_for_each(|drive| drive.at_rest(Drive::restore))?;
        let store = self.open(way)?;
        let seed = self.experiment.plan.seed.wrapping_add(round.into());
        let plan = Plan { seed, ..self.experiment.plan };
        let noise = self.noise(seed)?;
        let outcome = clients::run(&store, &self.book, &plan, self.end)?;
        let noise = noise.end()?;
        self.go_on()?;
        let pages = store.figures().map(|figures| Pages::from(&figures)).unwrap_or_default();
        store.tidy()?;
        Ok(Row { name, outcome, pages, noise })
    }

    fn open(&self, way: &Way) -> Result<Store> {
        Store::open(&self.directories().collect::<Vec<_>>(), way)
    }

    fn without_models(&self) -> Vec<ReplicaOptions> {
        // The store names the files.
        self.drives.iter().map(|_| ReplicaOptions::new("")).collect()
    }

    fn set(&self, tracker: &StateTracker, models: &[Arc<Model>]) -> Result<Way> {
        let with_model = |(number, options): (usize, ReplicaOptions)| {
            let source = Source::Given(tracker.drive(number)?);
            Ok(options.with_model(Arc::clone(&models[number])).with_source(source))
        };
        let replicas = self.without_models().into_iter().enumerate().map(with_model);
        Ok(Way::Set(replicas.collect::<Result<_>>()?))
    }

    fn noise(&self, seed: u64) -> Result<Noise> {
        Noise::begin(self.directories(), self.experiment.noise, seed)
    }
}

/// What is learnt from should not be what came of a fault.
fn must_be_whole(outcome: &Outcome) -> Result<()> {
    match (outcome.wrong, outcome.failed) {
        (0, 0) => Ok(()),
        (wrong, failed) => bail!("{wrong} wrong values, and {failed} operations that failed"),
    }
}
