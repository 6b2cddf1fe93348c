//! `trimtab drive fault`.

use anyhow::Result;
use clap::Subcommand;
use trimtab_io::Nanos;
use trimtab_live::drive::{Drive, Effect, Fault, Home, Ops};

use crate::duration;

const HELP: &str = "\
Examples:
  sudo trimtab drive fault slow stall --for 500ms
  sudo trimtab drive fault slow slow --factor 10 --for 2s
  sudo trimtab drive fault slow error --reads --share 0.1 --for 10s
  sudo trimtab drive fault slow clear

A fault begins at once; several may be on at a time. A schedule is given to
`trimtab drive create --faults` (docs/emulated-drives.md).";

/// What shall go wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drive.
    name: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Answer nothing.
    Stall(Time),
    /// Take longer for each request.
    Slow {
        /// How many times as long.
        #[arg(long, value_name = "N")]
        factor: f64,
        #[command(flatten)]
        time: Time,
    },
    /// Fail requests with EIO.
    Error {
        /// Which share of them, 0 to 1.
        #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
        share: f64,
        /// Only reads.
        #[arg(long, visible_alias = "read")]
        reads: bool,
        /// Only writes.
        #[arg(long, visible_alias = "write", conflicts_with = "reads")]
        writes: bool,
        #[command(flatten)]
        time: Time,
    },
    /// End all faults, those of a schedule too.
    Clear,
}

#[derive(Debug, clap::Args)]
struct Time {
    /// For so long: 500ms, 2s.
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    length: Nanos,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = Drive::find(&Home::from_environment(), &args.name)?;
    let (effect, time) = match &args.what {
        What::Clear => return Ok(drive.clear_faults()?),
        What::Stall(time) => (Effect::Stall, time),
        What::Slow { factor, time } => (Effect::Slow { factor: *factor }, time),
        What::Error { share, reads, writes, time } => {
            let ops = match (reads, writes) {
                (true, _) => Ops::Reads,
                (_, true) => Ops::Writes,
                _ => Ops::All,
            };
            (Effect::Error { ops, share: *share }, time)
        }
    };
    Ok(drive.fault(Fault { effect, at_s: 0.0, for_s: time.length.as_secs_f64() })?)
}
