//! `trimtab sim run`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use trimtab_device::DriveProfile;
use trimtab_report::machine;
use trimtab_sim::{HostedDrive, Report, Scenario, Simulation};

use super::summary;
use crate::console;
use crate::exit::Incomplete;
use crate::interrupt::Interrupt;
use crate::json::Json;
use crate::progress::Progress;
use crate::size;
use crate::units;

const HELP: &str = "\
Examples:
  trimtab sim run examples/sim-closed-loop.toml
  trimtab sim run examples/sim-mixed.toml --json mixed.json
  trimtab sim run examples/sim-mixed.toml --json - | jq '.devices[0].write_amplification'

docs/scenario.md describes every key of a scenario. The same scenario gives the
same figures on any machine; in the JSON, only `machine` tells where it ran.
Ctrl-C ends the simulation and prints what there is so far (exit code 3).";

/// The scenario, and the outputs.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The scenario, in TOML.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Write the figures as JSON, to a file that appears once complete, or with - to standard
    /// output in place of the summary.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// The most space for a decompressed copy of a trace that is compressed Parquet or not a
    /// regular file: 512M, 64G [default: 16G, or a quarter of the free space for temporary
    /// files].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_spool: Option<u64>,
    /// Print no summary and show no progress.
    #[arg(long)]
    quiet: bool,
}

/// The whole report.
#[derive(Debug, Serialize)]
struct RunReport<'a> {
    trimtab: &'static str,
    /// The scenario's text.
    scenario: &'a str,
    machine: String,
    /// Whether the simulation reached its end.
    complete: bool,
    #[serde(flatten)]
    report: &'a Report,
    /// By device: its profile, after overrides.
    profiles: BTreeMap<&'a str, &'a DriveProfile>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let path = &args.scenario;
    let interrupt = Interrupt::catch(&[])?;
    let mut scenario = Scenario::load(path)?;
    if let Some(bytes) = args.max_spool {
        scenario.set_max_spool(bytes);
    }
    // An unwritable path should show before minutes of work.
    let json = args.json.as_deref().map(|out| Json::create(out, &[path])).transpose()?;
    let Some(mut simulation) = fill(&scenario, &interrupt, args.quiet)? else {
        return Err(Incomplete("interrupted before it began".to_owned()).into());
    };
    let begun = Instant::now();
    let complete = go(&mut simulation, &interrupt, args.quiet)?;
    let report = simulation.report();
    let to_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json {
        let report = RunReport {
            trimtab: env!("CARGO_PKG_VERSION"),
            scenario: scenario.text(),
            machine: machine(),
            complete,
            report: &report,
            profiles: scenario.profiles().collect(),
        };
        json.write(&report)?;
    }
    if !args.quiet && !to_standard_output {
        let speed = Speed { took: begun.elapsed(), requests: simulation.completed() };
        let text = summary::text(path, &scenario, &report, &speed);
        let mut out = console::out(false);
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

/// Makes the drives; `None` if a signal arrived.
fn fill(
    scenario: &Scenario,
    interrupt: &Interrupt,
    quiet: bool,
) -> Result<Option<Simulation<HostedDrive>>> {
    let mut progress = if quiet { Progress::hidden() } else { Progress::new() };
    let made = scenario.simulation_watched(&mut |device, share| {
        if interrupt.has_come() {
            return ControlFlow::Break(());
        }
        progress.show(|_| format!("{}  filling {device}", bar(share)));
        ControlFlow::Continue(())
    })?;
    Ok(made)
}

/// Runs to the end, or to a signal: then returns false.
fn go(
    simulation: &mut Simulation<HostedDrive>,
    interrupt: &Interrupt,
    quiet: bool,
) -> Result<bool> {
    let mut progress = if quiet { Progress::hidden() } else { Progress::new() };
    while simulation.step()? {
        if interrupt.has_come() {
            return Ok(false);
        }
        progress.show(|elapsed| line(simulation, elapsed));
    }
    Ok(true)
}

fn line(simulation: &Simulation<HostedDrive>, elapsed: Duration) -> String {
    let million = simulation.completed() as f64 / 1e6;
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
