//! `trimtab drive fault`.

use anyhow::Result;
use clap::ValueEnum;
use trimtab_emu::{Drive, Effect, Fault, FaultOps, RunDirectory};
use trimtab_io::Nanos;

use crate::exit::BadInput;
use crate::{duration, size};

const HELP: &str = "\
Faults, and the options that each takes:
  stall      answer nothing: --for
  slow       take longer for each request: --factor, --for
  error      fail requests with EIO: --share, --reads or --writes, --for
  media      make a part of the medium unreadable, until it is written: --at, --bytes
  power-cut  cut the power: writes not yet flushed are lost in whole or in part, and
             requests fail until power returns: --seed, --for (or until cleared)
  clear      end all faults, including scheduled ones, and restore power

Examples:
  sudo trimtab drive fault slow stall --for 500ms
  sudo trimtab drive fault slow slow --factor 10 --for 2s
  sudo trimtab drive fault slow error --reads --share 0.1 --for 10s
  sudo trimtab drive fault slow media --at 1M --bytes 512
  sudo trimtab drive fault slow power-cut --seed 7
  sudo trimtab drive fault slow clear

A fault begins at once; several may be on at a time. A schedule is given to
`trimtab drive create --faults` (docs/emulated-drives.md).";

/// The fault to inject.
///
/// The fault is a value and not a subcommand, because clap looks for a subcommand before it
/// fills in the drive's name, and a drive may be called `slow`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, long_about = None)]
pub(crate) struct Args {
    /// The drive.
    name: String,
    /// The fault.
    #[arg(value_enum, value_name = "FAULT", hide_possible_values = true)]
    what: What,
    /// How long it lasts: 500ms, 2s.
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_positive)]
    length: Option<Nanos>,
    /// slow: how many times as long requests take.
    #[arg(long, value_name = "N")]
    factor: Option<f64>,
    /// error: the share of them that fails, 0 to 1 [default: 1].
    #[arg(long, value_name = "SHARE")]
    share: Option<f64>,
    /// error: only reads.
    #[arg(long, visible_alias = "read")]
    reads: bool,
    /// error: only writes.
    #[arg(long, visible_alias = "write", conflicts_with = "reads")]
    writes: bool,
    /// media: where it begins on the drive.
    #[arg(long, value_name = "OFFSET", value_parser = size::parse_bytes)]
    at: Option<u64>,
    /// media: how much it is [default: 512].
    #[arg(long, value_name = "SIZE", value_parser = size::parse_bytes)]
    bytes: Option<u64>,
    /// power-cut: the seed that selects what is lost; the same seed loses the same of the same
    /// writes [default: the drive's, different for each cut].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    Stall,
    Slow,
    Error,
    Media,
    PowerCut,
    Clear,
}

/// Faults that can have a duration.
const LASTING: [What; 4] = [What::Stall, What::Slow, What::Error, What::PowerCut];

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check_options()?;
    let fault = args.fault()?;
    let drive = Drive::find(&RunDirectory::from_environment(), &args.name)?;
    match fault {
        Some(fault) => Ok(drive.fault(fault)?),
        None => Ok(drive.clear_faults()?),
    }
}

impl Args {
    /// Refuses an option that the fault does not take, rather than ignoring it.
    fn check_options(&self) -> Result<(), BadInput> {
        let given = [
            ("--for", self.length.is_some(), &LASTING[..]),
            ("--factor", self.factor.is_some(), &[What::Slow]),
            ("--share", self.share.is_some(), &[What::Error]),
            ("--reads", self.reads, &[What::Error]),
            ("--writes", self.writes, &[What::Error]),
            ("--at", self.at.is_some(), &[What::Media]),
            ("--bytes", self.bytes.is_some(), &[What::Media]),
            ("--seed", self.seed.is_some(), &[What::PowerCut]),
        ];
        match given.iter().find(|(_, is_given, takers)| *is_given && !takers.contains(&self.what)) {
            Some((option, ..)) => Err(BadInput(format!("`{}` takes no {option}", self.what()))),
            None => Ok(()),
        }
    }

    /// `None` clears all faults.
    fn fault(&self) -> Result<Option<Fault>, BadInput> {
        let effect = match self.what {
            What::Clear => return Ok(None),
            What::Stall => Effect::Stall,
            What::Slow => {
                Effect::Slow { factor: self.factor.ok_or_else(|| self.lacks("--factor N"))? }
            }
            What::Error => Effect::Error { ops: self.ops(), share: self.share.unwrap_or(1.0) },
            What::Media => Effect::Media {
                offset: self.at.ok_or_else(|| self.lacks("--at OFFSET"))?,
                bytes: self.bytes.unwrap_or(512),
            },
            What::PowerCut => Effect::PowerCut { seed: self.seed },
        };
        if let (What::PowerCut | What::Media, None) = (self.what, self.length) {
            return Ok(Some(Fault::once(effect, 0.0, f64::INFINITY)));
        }
        let length = self.length.ok_or_else(|| self.lacks("--for TIME"))?;
        Ok(Some(Fault::once(effect, 0.0, length.as_secs_f64())))
    }

    fn ops(&self) -> FaultOps {
        match (self.reads, self.writes) {
            (true, _) => FaultOps::Reads,
            (_, true) => FaultOps::Writes,
            _ => FaultOps::All,
        }
    }

    fn lacks(&self, option: &str) -> BadInput {
        BadInput(format!("`{}` needs {option}", self.what()))
    }

    /// The fault's name on the command line.
    fn what(&self) -> String {
        self.what.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
