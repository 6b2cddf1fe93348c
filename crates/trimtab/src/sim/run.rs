//! `trimtab sim run`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use trimtab_device::Profile;
use trimtab_report::machine;
use trimtab_sim::{Report, Scenario, Simulation};

use super::summary;
use crate::exit::Incomplete;
use crate::json::Json;
use crate::progress::Progress;
use crate::units;

const HELP: &str = "\
Examples:
  trimtab sim run examples/sim-closed-loop.toml
  trimtab sim run examples/sim-mixed.toml --json mixed.json
  trimtab sim run examples/sim-mixed.toml --json - | jq '.devices[0].write_amplification'

docs/scenario.md describes every key of a scenario. The same scenario gives the
same figures on any machine; in the JSON, only `machine` tells where it ran.
Ctrl-C ends the simulation and prints what there is so far (exit code 3).";

/// What to simulate.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The scenario, in TOML.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Write the figures as JSON, which appears when it is whole; - is standard
    /// output, in place of the summary.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Print no summary and show no progress.
    #[arg(long)]
    quiet: bool,
}

/// All that is reported.
#[derive(Debug, Serialize)]
struct Told<'a> {
    trimtab: &'static str,
    /// The scenario as it was.
    scenario: &'a str,
    machine: String,
    /// Whether it came to its end.
    complete: bool,
    #[serde(flatten)]
    report: &'a Report,
    /// By device: what it was made of, after overrides.
    profiles: BTreeMap<&'a str, &'a Profile>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let path = &args.scenario;
    let interrupted = catch_signals()?;
    let scenario = Scenario::load(path)?;
    // A place that cannot be written should show before minutes of work.
    let json = args.json.as_deref().map(|out| Json::create(out, &[path])).transpose()?;
    let Some(mut simulation) = fill(&scenario, &interrupted, args.quiet)? else {
        return Err(Incomplete("interrupted before it began".to_owned()).into());
    };
    let begun = Instant::now();
    let complete = go(&mut simulation, &interrupted, args.quiet)?;
    let report = simulation.report();
    let to_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json {
        let told = Told {
            trimtab: env!("CARGO_PKG_VERSION"),
            scenario: scenario.text(),
            machine: machine(),
            complete,
            report: &report,
            profiles: scenario.profiles().collect(),
        };
        json.write(&told)?;
    }
    if !args.quiet && !to_standard_output {
        let speed = Speed { took: begun.elapsed(), requests: simulation.answered() };
        let text = summary::text(path, &scenario, &report, &speed);
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    if complete {
        return Ok(());
    }
    let at = units::long(simulation.now());
    Err(Incomplete(format!("interrupted after {at} of simulated time")).into())
}

/// How fast the simulation was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    pub(super) took: Duration,
    pub(super) requests: u64,
}

/// Makes the drives; none if a signal came.
fn fill(
    scenario: &Scenario,
    interrupted: &AtomicBool,
    quiet: bool,
) -> Result<Option<Simulation<trimtab_device::Ssd>>> {
    let mut progress = if quiet { Progress::hidden() } else { Progress::new() };
    let made = scenario.simulation_watched(&mut |device, share| {
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        progress.show(|_| format!("{}  filling {device}", bar(share)));
        ControlFlow::Continue(())
    })?;
    Ok(made)
}

/// Runs to the end, or to a signal: then false.
fn go(
    simulation: &mut Simulation<trimtab_device::Ssd>,
    interrupted: &AtomicBool,
    quiet: bool,
) -> Result<bool> {
    let mut progress = if quiet { Progress::hidden() } else { Progress::new() };
    while simulation.step()? {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(false);
        }
        progress.show(|elapsed| line(simulation, elapsed));
    }
    Ok(true)
}

fn line(simulation: &Simulation<trimtab_device::Ssd>, elapsed: Duration) -> String {
    let million = simulation.answered() as f64 / 1e6;
    let rate = million / elapsed.as_secs_f64();
    let share = simulation.share_done().map_or_else(String::new, |share| bar(share) + "  ");
    let now = units::long(simulation.now());
    format!("{share}{now} simulated, {million:.1} million requests, {rate:.2} million/s")
}

/// A bar that is full when `share` is 1.
fn bar(share: f64) -> String {
    const WIDTH: usize = 20;
    let done = ((share * WIDTH as f64) as usize).min(WIDTH);
    format!("[{}{}] {:3.0}%", "#".repeat(done), ".".repeat(WIDTH - done), share * 100.0)
}

/// A flag that Ctrl-C and SIGTERM set; the second one ends the program.
fn catch_signals() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // In this order: the first handler must not see what the second sets.
        let end = signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag));
        let set = end.and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)));
        set.context("cannot catch signals")?;
    }
    Ok(flag)
}
