//! Predictable storage latency on stock Linux: the command line.
//!
//! Each module parses one command's options, calls the crate that does the work, and prints
//! the result. Exit codes: 0 done, 1 failure, 2 bad input, 3 done but incomplete.

mod advise;
mod agent;
mod array;
mod background;
mod check;
mod compare;
mod console;
mod decimal;
mod drift_text;
mod drive;
mod duration;
mod end;
mod evaluate;
mod exit;
mod export;
mod generate;
mod input;
mod interrupt;
mod json;
mod log;
mod model_facts;
mod models;
mod output;
mod privileges;
mod processor_time;
mod profile;
mod progress;
mod record;
mod recordings;
mod run;
mod sim;
mod size;
mod top;
mod trace;
mod train;
mod units;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  sudo trimtab check
  sudo trimtab record nvme0n1 -o disk.parquet --duration 60s
  sudo trimtab top
  trimtab trace info disk.parquet
  trimtab trace report disk.parquet -o disk.html
  trimtab sim run examples/sim-mixed.toml
  trimtab evaluate --trace disk.parquet --report scores.html

Exit codes: 0 done, 1 failure, 2 bad input, 3 done but incomplete.";

/// Predictable storage latency on stock Linux.
#[derive(Debug, Parser)]
#[command(name = "trimtab", version = env!("TRIMTAB_VERSION"), arg_required_else_help = true)]
#[command(after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check what trimtab can do on this machine, and how to enable the rest.
    Check(check::Args),
    /// Record every request that real block devices serve.
    Record(record::Args),
    /// Show the kernel's state of block devices: requests in flight, the last latencies, and a
    /// model's decisions.
    Watch(watch::Args),
    /// Watch drives in a terminal: rates, latencies, and the accuracy of their models.
    Top(top::Args),
    /// Watch drives as a service: tracks their state for readers, serves metrics, trains
    /// models again.
    Agent(agent::Args),
    /// Run a program whose late reads the kernel refuses, for programs that then read another
    /// replica.
    Run(run::Args),
    /// Compare ways to steer reads among drives that hold the same data.
    Compare(compare::Args),
    /// Make emulated drives: real block devices that behave like a drive.
    #[command(subcommand, after_help = drive::EXAMPLES)]
    Drive(drive::Command),
    /// Make arrays of drives, in Linux md's format: block devices that read around late members.
    #[command(subcommand, after_help = array::EXAMPLES)]
    Array(array::Command),
    /// List and show descriptions of drives, for simulation.
    #[command(subcommand, after_help = profile::EXAMPLES)]
    Profile(profile::Command),
    /// Look at, convert, cut, re-rate or make traces of block I/O.
    #[command(subcommand, after_help = trace::EXAMPLES)]
    Trace(trace::Command),
    /// Simulate drives under a workload, in virtual time.
    #[command(subcommand, after_help = sim::EXAMPLES)]
    Sim(sim::Command),
    /// Estimate the gain of failing over between drives, from recordings of them.
    Advise(advise::Args),
    /// Train a model of how a drive behaves, from a recording of it.
    Train(train::Args),
    /// Score predictors on a recording: trained on its past, evaluated on its
    /// future.
    Evaluate(evaluate::Args),
    /// Make the man pages and completions that packages install.
    #[command(hide = true)]
    Generate(generate::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Record(args) => record::run(args),
        Command::Watch(args) => watch::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::run(args),
        Command::Array(command) => array::run(command),
        Command::Drive(command) => drive::run(command),
        Command::Profile(command) => profile::run(command),
        Command::Trace(command) => trace::run(command),
        Command::Sim(command) => sim::run(command),
        Command::Advise(args) => advise::run(args),
        Command::Train(args) => train::run(args),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Generate(args) => generate::run(&args, &Cli::command()),
    };
    // Output left in the buffer would be lost silently.
    exit::code(result.and_then(|()| Ok(console::out(false).flush()?)))
}
