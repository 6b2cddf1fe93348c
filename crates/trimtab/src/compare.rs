//! `trimtab compare`.

mod arrays;
mod live;
mod page;
mod random;
mod table;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use trimtab_compare::{BuiltinTrainer, Comparison};
use trimtab_predict::LabelRule;
use trimtab_report::machine;

use crate::console;
use crate::json::Json;
use crate::output::Report;
use crate::progress::{Progress, during};
use crate::size;

const HELP: &str = "\
Examples:
  trimtab compare examples/compare-az-consumer.toml
  trimtab compare examples/compare-az-consumer.toml --report az.html --json az.json
  trimtab compare examples/compare-co-enterprise.toml --seeds 11,12,13
  sudo trimtab compare --live examples/live-consumer.toml --report live.html
  trimtab compare examples/array/mixed.toml --report array.html
  trimtab compare --random 20 --seed 1 --report random.html
  trimtab compare --random 20 --seed 1 --trace examples/sqlite.parquet

docs/compare.md describes every key of a scenario, docs/arrays.md those of
parity arrays. The same scenario gives the same figures on any machine and with
any number of threads.";

/// The scenario, and the outputs.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The scenario, in TOML.
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "random")]
    scenario: Option<PathBuf>,
    /// Compare on N arrays drawn at random instead: drives, workloads, costs, and what happens
    /// to the drives. docs/compare.md describes the space.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["scenario", "seeds", "live", "files"], requires = "seed")]
    random: Option<u64>,
    /// The seed of the series of arrays.
    #[arg(long, value_name = "S", requires = "random", conflicts_with = "scenario")]
    seed: Option<u64>,
    /// The number of the first array of the series.
    #[arg(
        long,
        value_name = "N",
        requires = "random",
        conflicts_with = "scenario",
        default_value_t = 0
    )]
    first: u64,
    /// A recording that some of the random arrays replay; may be given several times.
    #[arg(long, value_name = "FILE", requires = "random", conflicts_with = "scenario")]
    trace: Vec<PathBuf>,
    /// The strategies to compare, instead of the scenario's. On random arrays the last is judged
    /// against `base`.
    #[arg(long, value_name = "NAME,NAME…", value_delimiter = ',')]
    strategies: Vec<String>,
    /// A row for random arrays, as an entry of a scenario's `strategies`, after the named ones:
    /// '{ strategy = "trimtab", name = "no margin", tuning = { margin = 0 } }'.
    #[arg(long, value_name = "TOML", requires = "random", conflicts_with = "scenario")]
    row: Vec<String>,
    /// A line of TOML that replaces keys of the scenario, or of that of each random array:
    /// 'tuning.margin = 0.1', 'parallel = 5'. May be given several times.
    #[arg(long, value_name = "KEY = VALUE")]
    set: Vec<String>,
    /// Begin no random array after this time; what is done by then is shown, and the exit code
    /// is 3.
    #[arg(long, value_name = "MINUTES", requires = "random", conflicts_with = "scenario", value_parser = minutes,
          allow_negative_numbers = true)]
    minutes: Option<f64>,
    /// Print the scenarios of the random arrays instead of running them.
    #[arg(long, requires = "random", conflicts_with = "scenario")]
    show: bool,
    /// What is slow for trimtab's predictors: cost, knee, inflection, relative, p95, p99. The
    /// published predictors are always trained as they were published, by the inflection point.
    #[arg(long, value_name = "LABEL", default_value = "cost")]
    label: LabelRule,
    /// Seeds to use instead of the scenario's.
    #[arg(long, value_name = "N,N…", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// The number of threads [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Write the figures as JSON, to a file that appears once complete, or with - to standard
    /// output in place of the table.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Write an HTML page with the table and plots.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Run it on this machine: on emulated drives, which are block devices, beside the
    /// simulation. Needs root, FUSE and loop devices. One seed unless --seeds.
    #[arg(long)]
    live: bool,
    /// Run it on these files or devices instead, one for each of the scenario's drives. Only
    /// reads are served.
    #[arg(long, value_name = "PATH,PATH…", value_delimiter = ',', requires = "live")]
    files: Vec<PathBuf>,
    /// Serve writes to --files as well, which destroys their content. Always refused for what
    /// is in use: mounted, swap, part of another device, behind a loop device, an emulated
    /// drive or its content.
    #[arg(long = "i-know-this-destroys-data", requires = "files")]
    destroys: bool,
    /// The most space for a decompressed copy of a trace that is compressed Parquet or not a
    /// regular file: 512M, 64G [default: 16G, or a quarter of the free space for temporary
    /// files].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_spool: Option<u64>,
    /// Print no table and show no progress.
    #[arg(long)]
    quiet: bool,
}

/// The report as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    trimtab: &'static str,
    /// The scenario's text.
    scenario: &'a str,
    machine: String,
    #[serde(flatten)]
    report: &'a trimtab_compare::Report,
}

pub(crate) fn run(args: Args) -> Result<()> {
    if let Some(arrays) = args.random {
        return random::run(&args, arrays);
    }
    let path = &args.scenario.clone().context("clap asks for it")?;
    if arrays::is_one(path) {
        return arrays::run(&args, path);
    }
    let mut comparison = Comparison::load_with(path, &settings(&args))?;
    if !args.seeds.is_empty() {
        comparison.set_seeds(args.seeds.clone())?;
    }
    comparison.set_label(args.label);
    if let Some(bytes) = args.max_spool {
        comparison.set_max_spool(bytes);
    }
    // An unwritable path should show before minutes of work.
    let json = args.json.as_deref().map(|out| Json::create(out, &[path])).transpose()?;
    let page = args.report.as_deref().map(|out| Report::create(out, &[path])).transpose()?;
    let threads = threads(&args);
    let progress = if args.quiet { Progress::hidden() } else { Progress::new() };
    let progress = Mutex::new(progress);
    let show = |at: &trimtab_compare::Progress<'_>| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(|elapsed| line(at, elapsed));
        }
    };
    if args.live {
        return live::run(&args, path, comparison, json, page, threads, &show);
    }
    let work = || trimtab_compare::compare(&comparison, &BuiltinTrainer, threads, &show);
    let report = if args.quiet { work() } else { during("comparing", work) }?;
    drop(progress);
    let text = table::text(path, &report);
    if let Some(page) = page {
        page.write(&page::page(path, &comparison, &report))?;
    }
    let to_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json {
        let (trimtab, scenario) = (env!("CARGO_PKG_VERSION"), comparison.text());
        json.write(&Summary { trimtab, scenario, machine: machine(), report: &report })?;
    }
    if !args.quiet && !to_standard_output {
        let mut out = console::out(false);
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

/// What replaces keys of the scenario, in order.
fn settings(args: &Args) -> Vec<String> {
    let mut settings = args.set.clone();
    if !args.strategies.is_empty() {
        let names = args.strategies.iter().map(|name| quoted(name)).collect::<Vec<_>>();
        settings.push(format!("strategies = [{}]", names.join(", ")));
    }
    settings
}

/// A name as a string of TOML.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.escape_default())
}

fn threads(args: &Args) -> usize {
    args.threads
        .map_or_else(|| available_parallelism().map_or(1, std::num::NonZero::get), usize::from)
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.0..=1e6).contains(minutes));
    minutes.ok_or_else(|| "minutes are a number from 0 to 1,000,000".to_owned())
}

fn line(at: &trimtab_compare::Progress<'_>, elapsed: Duration) -> String {
    let (seed, piece) = (at.seed, at.piece);
    format!(
        "seed {} of {}: {}, {} of {}; {:.0} s",
        seed.0 + 1,
        seed.1,
        at.doing,
        (piece.0 + 1).min(piece.1),
        piece.1,
        elapsed.as_secs_f64()
    )
}
