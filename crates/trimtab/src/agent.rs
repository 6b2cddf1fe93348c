//! `trimtab agent`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use trimtab_agent::server::{self, Page};
use trimtab_agent::{Agent, Config, Error, Log, Notify};
use trimtab_record::monitor::POLL;
use trimtab_report::escaped;

use crate::console;
use crate::log;
use crate::privileges::{self, keep_only};
use crate::record::{Signal, Signals};

const EXAMPLES: &str = "\
Examples:
  trimtab agent --config examples/agent.toml --check
  sudo trimtab agent --config /etc/trimtab/agent.toml
  curl http://127.0.0.1:9753/metrics

SIGHUP reloads the models; SIGTERM or Ctrl-C ends the agent. docs/agent.md describes the
configuration and the metrics; dist/trimtab-agent.service is a systemd unit.";

/// How often the metrics are updated.
const PUBLISH: Duration = Duration::from_secs(1);

/// The configuration, and what to do with it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration, in TOML.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Only check the configuration, its drives and its models.
    #[arg(long)]
    check: bool,
    /// With --check: print the configuration as JSON, defaults filled in.
    #[arg(long, requires = "check")]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let config = Config::read(&args.config)?;
    let log: Log = Arc::new(|line: &str| log::line(&format!("agent: {line}")));
    if args.check {
        keep_only(privileges::BPF)?;
        trimtab_agent::check(&config, &log)?;
        return print_checked(args, &config);
    }
    // Before the BPF programs are loaded, so that a port in use costs nothing; and while root
    // may still bind a port below 1024.
    let listeners = server::bind(config.addresses())?;
    let addresses = urls(&listeners)?;
    // Before any other thread starts, and before files that others may have written are read.
    keep_only(privileges::BPF)?;
    let (signals, reload) = (Signals::catch()?, hang_ups()?);
    let page = Page::default();
    let mut agent = Agent::start(&config, Arc::clone(&log)).map_err(explained)?;
    // A client that learns that the agent is ready must find metrics.
    page.publish(agent.metrics());
    server::serve(listeners, &page);
    let notify = Notify::from_environment();
    notify.report("READY=1");
    let names: Vec<_> = agent.drive_names().collect();
    log(&format!("watching {}, metrics at {addresses}", names.join(", ")));
    let mut next = Instant::now() + PUBLISH;
    while signals.look() == Signal::None {
        if reload.swap(false, Ordering::Relaxed) {
            agent.reload();
        }
        agent.turn()?;
        if Instant::now() >= next {
            next = Instant::now() + PUBLISH;
            agent.check_surroundings();
            page.publish(agent.metrics());
            notify.alive();
        }
        std::thread::sleep(POLL);
    }
    notify.report("STOPPING=1");
    log("ended");
    Ok(())
}

/// The URLs of the metrics, with the ports that the kernel assigned.
fn urls(listeners: &[TcpListener]) -> Result<String> {
    let url = |one: &TcpListener| Ok(format!("http://{}/metrics", one.local_addr()?));
    Ok(listeners.iter().map(url).collect::<Result<Vec<_>>>()?.join(", "))
}

fn print_checked(args: &Args, config: &Config) -> Result<()> {
    use std::io::Write as _;

    let mut out = console::out(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, config).map_err(std::io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    let drives = config.drive_count();
    let what = if drives == 1 { "drive" } else { "drives" };
    let file = args.config.display().to_string();
    Ok(writeln!(out, "{}: right, {drives} {what}", escaped(&file))?)
}

/// A flag that SIGHUP sets.
fn hang_ups() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&flag))
        .context("cannot catch signals")?;
    Ok(flag)
}

/// Adds to an error about privileges what works without them.
fn explained(error: Error) -> anyhow::Error {
    match error.bpf() {
        Some(trimtab_bpf::Error::Privilege) => anyhow!(
            "{error}; without them there are `trimtab agent --check` and the rates of `trimtab top`"
        ),
        _ => error.into(),
    }
}
