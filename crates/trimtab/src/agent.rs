//! `trimtab agent`.

mod config;
mod drive;
mod listen;
mod metrics;
mod notify;
mod server;
mod surroundings;
mod training;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_read::{ReaderSums, readers};
use trimtab_record::monitor::{Monitor, POLL};
use trimtab_report::{count, escaped};
use trimtab_state::LiveDrive;
use trimtab_tracker::{StateTracker, TrackerOptions};

use self::config::Config;
use self::drive::Drive;
use self::metrics::Told;
use self::notify::Notify;
use self::server::Page;
use self::surroundings::Surroundings;
use self::training::Outcome;
use crate::console;
use crate::exit::bpf_error;
use crate::log;
use crate::privileges::{self, keep_only};
use crate::record::{Signal, Signals};

const EXAMPLES: &str = "\
Examples:
  trimtab agent --config examples/agent.toml --check
  sudo trimtab agent --config /etc/trimtab/agent.toml
  curl http://127.0.0.1:9753/metrics

SIGHUP has it load its models again; SIGTERM or Ctrl-C ends it. docs/agent.md has the
configuration and the metrics, dist/trimtab-agent.service a systemd unit.";

/// How often the metrics are made anew.
const PUBLISH: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration, in TOML.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Only say whether it, its drives and its models are right.
    #[arg(long)]
    check: bool,
    /// With --check: print the configuration as JSON, defaults filled in.
    #[arg(long, requires = "check")]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let config = Config::read(&args.config)?;
    if args.check {
        keep_only(privileges::BPF)?;
        for drive in find(&config)? {
            drive.load()?;
            if config.retrain {
                drive.can_be_trained()?;
            }
        }
        return said_right(args, &config);
    }
    // Before the programs are loaded, so that a port in use costs nothing; and while root may
    // still take a port below 1024.
    let listeners = bind(&config)?;
    let addresses = urls(&listeners)?;
    // Before there is any other thread, and before what others may have written is read.
    keep_only(privileges::BPF)?;
    let drives = find(&config)?;
    let models = drives.iter().map(at_first).collect();
    if config.retrain {
        drives.iter().for_each(tell_if_it_cannot_be_trained);
    }
    let (signals, reload) = (Signals::catch()?, hang_ups()?);
    let page = Page::default();
    server::serve(listeners, &page);
    let mut agent = Agent::begin(&config, drives, models).map_err(lacking)?;
    // Who hears that it is ready finds something there.
    page.publish(agent.metrics());
    let notify = Notify::from_environment();
    notify.say("READY=1");
    log::line(&format!("agent: watching {}, metrics at {addresses}", names(&agent.drives)));
    let mut next = Instant::now() + PUBLISH;
    while signals.look() == Signal::None {
        if reload.swap(false, Ordering::Relaxed) {
            agent.reload();
        }
        agent.turn()?;
        if Instant::now() >= next {
            next = Instant::now() + PUBLISH;
            agent.look_around();
            page.publish(agent.metrics());
            notify.alive();
        }
        std::thread::sleep(POLL);
    }
    notify.say("STOPPING=1");
    log::line("agent: ended");
    Ok(())
}

fn bind(config: &Config) -> Result<Vec<TcpListener>> {
    server::bind(&config.addresses).map_err(|(address, e)| {
        anyhow!("cannot serve metrics at {address} (choose another by `listen`): {e}")
    })
}

/// Where the metrics are, by the ports that the kernel has given.
fn urls(listeners: &[TcpListener]) -> Result<String> {
    let url = |one: &TcpListener| Ok(format!("http://{}/metrics", one.local_addr()?));
    Ok(listeners.iter().map(url).collect::<Result<Vec<_>>>()?.join(", "))
}

fn find(config: &Config) -> Result<Vec<Drive>> {
    let drive = |told: &config::Drive| {
        Ok(Drive::new(BlockDevice::find(&told.device)?, told.model.clone(), config))
    };
    config.drives.iter().map(drive).collect()
}

/// A drive's model at the beginning. One that cannot be loaded must not cost the others
/// theirs, nor keep the agent from starting again after a crash.
fn at_first(drive: &Drive) -> Option<Arc<Model>> {
    drive.load().unwrap_or_else(|error| {
        let name = &drive.device.name;
        log::line(&format!("agent: {name}: goes without a model, until SIGHUP: {error:#}"));
        None
    })
}

fn tell_if_it_cannot_be_trained(drive: &Drive) {
    if let Err(error) = drive.can_be_trained() {
        log::line(&format!("agent: {}: {error:#}", drive.device.name));
    }
}

fn said_right(args: &Args, config: &Config) -> Result<()> {
    use std::io::Write as _;

    let mut out = console::out(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, config).map_err(std::io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    let drives = config.drives.len();
    let what = if drives == 1 { "drive" } else { "drives" };
    let file = args.config.display().to_string();
    Ok(writeln!(out, "{}: right, {drives} {what}", escaped(&file))?)
}

fn names(drives: &[Drive]) -> String {
    drives.iter().map(|drive| drive.device.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A flag that SIGHUP sets.
fn hang_ups() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&flag))
        .context("cannot catch signals")?;
    Ok(flag)
}

/// Says beside what is lacking what there is all the same.
fn lacking(error: anyhow::Error) -> anyhow::Error {
    match bpf_error(&error) {
        Some(trimtab_bpf::Error::Privilege) => anyhow!(
            "{error}; without them there are `trimtab agent --check` and the rates of `trimtab top`"
        ),
        _ => error,
    }
}

/// The drives, and what watches them.
struct Agent {
    drives: Vec<Drive>,
    monitor: Monitor,
    tracker: StateTracker,
    live: Vec<LiveDrive>,
    readers: ReaderSums,
    retrain: bool,
    retrain_pause: Duration,
    watched: Surroundings,
}

impl Agent {
    fn begin(config: &Config, drives: Vec<Drive>, models: Vec<Option<Arc<Model>>>) -> Result<Self> {
        let devices: Vec<BlockDevice> = drives.iter().map(|drive| drive.device.clone()).collect();
        // The recorder first: it finds devices that are named twice.
        let mut monitor = Monitor::load(&devices, 1)?;
        let functions = |model: &Option<Arc<Model>>| {
            model.as_ref().map_or(Vec::new(), |model| model.trained.functions().to_vec())
        };
        let functions = models.iter().map(functions).collect();
        let mut tracker = StateTracker::load(
            &devices,
            &TrackerOptions { functions, ..TrackerOptions::default() },
        )?;
        if !config.pin_directory.as_os_str().is_empty() {
            tracker
                .pin(&config.pin_directory)
                .with_context(|| format!("pin_directory = {:?}", config.pin_directory))?;
        }
        for (i, model) in models.into_iter().enumerate() {
            monitor.drive_mut(i).set_model(model);
            monitor.drive_mut(i).keep(config.kept_requests());
        }
        let live = (0..devices.len()).map(|i| tracker.drive(i)).collect::<Result<_, _>>()?;
        let (retrain, retrain_pause) = (config.retrain, config.retrain_pause());
        let readers = ReaderSums::default();
        let watched = Surroundings::of(&drives);
        Ok(Self { drives, monitor, tracker, live, readers, retrain, retrain_pause, watched })
    }

    /// Takes in what has happened, and sees to the models.
    fn turn(&mut self) -> Result<()> {
        self.monitor.poll()?;
        for i in 0..self.drives.len() {
            self.drives[i].drift.turn(self.monitor.drive(i));
            self.train(i);
            if let Some(outcome) = self.drives[i].trained() {
                self.take(i, outcome);
            }
        }
        Ok(())
    }

    /// Says what has become of the drives and of the file that others read the state by.
    fn look_around(&mut self) {
        self.watched.look_at_drives(&self.drives);
        self.watched.look_at_pins(&mut self.tracker);
    }

    /// Begins a training if a drive needs one. One at a time: each has a copy of what was
    /// recorded, and more memory for what it makes of that. Which drive's turn is next
    /// comes by itself, because each is asked before its own training is taken as over.
    fn train(&mut self, i: usize) {
        if !self.retrain || self.drives.iter().any(Drive::is_training) {
            return;
        }
        let (drive, began) = (&mut self.drives[i], self.monitor.started_unix());
        if drive.train(self.monitor.drive(i), self.retrain_pause, began) {
            let name = &drive.device.name;
            log::line(&format!("agent: {name}: its model does not fit any more, training"));
        }
    }

    /// Takes what came of a training.
    fn take(&mut self, i: usize, outcome: Outcome) {
        let what = match outcome {
            Outcome::Trained(model) => {
                let reads = count(model.card.training.reads as u64);
                match self.install(i, model) {
                    Ok(()) => {
                        self.drives[i].count_trained();
                        format!("trained again, on {reads} reads")
                    }
                    Err(error) => {
                        self.drives[i].count_failed();
                        format!(
                            "trained again, but the model before stays in use until SIGHUP: {error}"
                        )
                    }
                }
            }
            Outcome::Void => {
                self.drives[i].put_off();
                "its model was replaced or loaded while it was trained again: what came of \
                 that is dropped (SIGHUP loads the files as they are)"
                    .to_owned()
            }
            Outcome::Failed(error) => {
                let error = self.drives[i].can_be_trained().err().unwrap_or(error);
                self.drives[i].count_failed();
                format!("cannot train again, the model stays: {error:#}")
            }
        };
        log::line(&format!("agent: {}: {what}", self.drives[i].device.name));
    }

    /// From now on this is the drive's model: in the maps, and in the figures. If the maps
    /// do not take it, the one before stays.
    fn install(&mut self, i: usize, model: Arc<Model>) -> Result<()> {
        let functions = model.trained.functions();
        // Readers of the maps see that their functions are others now, and refuse
        // nothing until they have the new model too.
        if self.live[i].functions() != functions {
            self.tracker.set_functions(i, functions)?;
            self.live[i].refresh()?;
        }
        self.monitor.drive_mut(i).set_model(Some(model));
        self.drives[i].begin_anew();
        Ok(())
    }

    /// Loads all models again. One that cannot be loaded stays as it was.
    fn reload(&mut self) {
        for i in 0..self.drives.len() {
            // Also if it cannot be loaded: somebody is about to replace it.
            self.drives[i].make_training_void();
            let loaded = self.drives[i].load().and_then(|model| match model {
                None => Ok(false),
                Some(model) => Ok(self.install(i, model).map(|()| true)?),
            });
            let what = match loaded {
                Ok(false) => continue,
                Ok(true) => "model loaded again".to_owned(),
                Err(error) => format!("the model stays: {error:#}"),
            };
            log::line(&format!("agent: {}: {what}", self.drives[i].device.name));
        }
    }

    fn metrics(&mut self) -> String {
        self.readers.look(&readers());
        let told = |(i, drive): (usize, &'_ Drive)| {
            let figures = self.monitor.drive(i);
            let counters = self.live[i].counters();
            Told {
                // The name lives as long as the drive.
                device: &self.drives[i].device.name,
                figures,
                in_flight: self.live[i].in_flight(),
                missed: counters.missed + counters.table_full,
                moved: drive.drift.last().map(|checked| checked.comparison.shift()),
                retrain: drive.should_be_trained(figures),
                readers: self.readers.of(drive.device.number).copied(),
                trained: drive.trained,
                failed: drive.failed,
            }
        };
        let drives: Vec<Told<'_>> = self.drives.iter().enumerate().map(told).collect();
        metrics::page(&drives, &self.monitor.losses())
    }
}
