//! `trimtab run`.

mod program;
mod signals;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use trimtab_io::Nanos;
use trimtab_refuse::{Expect, Limits, Pattern, ProgramGroup, Refuser};

use self::program::Starter;
use self::signals::Forwarder;
use crate::decimal::Decimal;
use crate::duration;
use crate::exit::{BadInput, ProgramEnded};
use crate::log;
use crate::models;
use crate::privileges::{self, keep_only};

const EXAMPLES: &str = "\
For programs that already read another replica when a read fails. Other programs will report
I/O errors: a refused read fails with EBUSY (Device or resource busy), and nothing is tried
again for them.

Refused are reads (pread, preadv2, io_uring and all others) of the named files, if they are
open for direct I/O (O_DIRECT), by PROGRAM and its children. Everything else is admitted, and
so is every read of a drive that is not tracked, or has no fresh expectation. A share of the
late reads is always admitted.

Examples:
  sudo trimtab run --deadline 2ms --files '/var/lib/db/**/*.sst' -- db-server
  sudo trimtab run --deadline 500us --files /dev/nvme0n1 --model nvme0n1.model -- store
  sudo trimtab run --deadline 2ms --assume-wait 10ms --files 'data/*' -- setpriv --reuid=db db
      # every read is late: does the program fail over?

It needs root, and a kernel with BPF LSM (Debian 12 and 13 have one; `trimtab check` says
whether this one has). The exit code is the program's; 128 and the signal's number if a signal
ended it.";

/// How often the expected waits are published: four times within a deadline, between these.
const FASTEST: Nanos = Nanos::from_micros(250);
const SLOWEST: Nanos = Nanos::from_millis(10);

/// Run a program whose late reads the kernel refuses.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Refuse reads that are expected to take longer: 500us, 2ms; at most 1m.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_deadline, allow_hyphen_values = true)]
    deadline: Nanos,
    /// The files whose reads may be refused, as a pattern that is quoted for the shell: `*`, `?`,
    /// `[a-z]`, and `**` for any directories. May be given several times.
    #[arg(short, long, value_name = "GLOB", required = true)]
    files: Vec<String>,
    /// The model of the drives, made by `trimtab train`. Without one, requests in flight and
    /// recent latencies tell the expected wait.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The time that asking another replica takes: it is taken off the deadline.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "0us")]
    hop: Nanos,
    /// Admit this share of the reads that are expected to be late: 5%, 0.05.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5%")]
    admit_share: u32,
    /// Admit all reads if the expected wait is older than this.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, default_value = "50ms")]
    stale: Nanos,
    /// Where a state tracker pins the drives' state. Drives that none tracks are tracked by this
    /// command.
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/trimtab")]
    pins: PathBuf,
    /// Take this to be the expected wait of every drive, to test how the program fails over.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["model", "pins"])]
    assume_wait: Option<Nanos>,
    /// Print the figures at the end as JSON, to standard error.
    #[arg(long)]
    json: bool,
    /// The program to run, and its arguments.
    #[arg(value_name = "PROGRAM", last = true, required = true)]
    program: Vec<String>,
}

/// Reads a share from 0.0001% to 100%, in millionths.
fn share(text: &str) -> Result<u32, String> {
    const WHOLE: u64 = 1_000_000;
    let wrong = || {
        format!(
            "expected a share above 0% (some reads must be admitted, to notice that a drive has \
             recovered) and up to 100%, such as 5% or 0.05, found `{text}`"
        )
    };
    let (number, by) = text.strip_suffix('%').map_or((text, 1), |number| (number, 100));
    let number: Decimal = number.parse().map_err(|_| wrong())?;
    let of = u128::from(number.denominator) * by;
    let millionths = u128::from(number.numerator) * u128::from(WHOLE) / of;
    match u32::try_from(millionths) {
        Ok(share) if share > 0 && u64::from(share) <= WHOLE => Ok(share),
        _ => Err(wrong()),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.hop >= args.deadline {
        let (hop, deadline) = (args.hop, args.deadline);
        let why = format!("--hop {hop}: expected less than the deadline, {deadline}");
        return Err(BadInput(why).into());
    }
    let patterns = args.files.iter().map(|text| Pattern::parse(text));
    let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
    let expect = match args.assume_wait {
        Some(wait) => Expect::Assumed(wait),
        None => {
            let model = args.model.as_deref().map(models::load).transpose()?.map(Arc::new);
            Expect::State { pins: args.pins.clone(), model }
        }
    };
    let period = Nanos((args.deadline.0 / 4).clamp(FASTEST.0, SLOWEST.0));
    let limits = Limits {
        limit: args.deadline - args.hop,
        // Several periods, or nothing would ever be fresh.
        stale: args.stale.max(Nanos(4 * period.0)),
        share: args.admit_share,
    };
    let signals = Forwarder::catch()?;
    let group = ProgramGroup::make()?;
    // The program keeps its privileges: a thread that has them starts it.
    let starter = Starter::new(&group)?;
    keep_only(privileges::RUN)?;
    let mut refuser = Refuser::attach(&group, patterns, expect, limits)?;
    for pattern in args.files.iter().filter(|_| refuser.decisions().is_ok_and(|d| d.files == 0)) {
        log::line(&format!("run: no file matches {pattern} yet; those opened later are refused"));
    }
    refuser.publish();
    show(refuser.notes());
    let mut program = starter.start(&args.program)?;
    let status = loop {
        refuser.publish();
        refuser.follow();
        show(refuser.notes());
        signals.forward(&program);
        if let Some(status) = program.has_ended()? {
            break status;
        }
        thread::sleep(Duration::from_nanos(period.0));
    };
    let decisions = refuser.decisions()?;
    drop(refuser);
    drop(group);
    summary::print(&decisions, &args.program[0], args.json);
    Err(ProgramEnded(status).into())
}

/// Prints what the user should know.
fn show(notes: Vec<String>) {
    for note in notes {
        log::line(&format!("run: {note}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_in_millionths() {
        for (text, expected) in [
            ("5%", 50_000),
            ("0.05", 50_000),
            ("100%", 1_000_000),
            ("1", 1_000_000),
            ("0.0001%", 1),
        ] {
            assert_eq!(share(text), Ok(expected), "{text}");
        }
        for text in ["0", "0%", "0.00001%", "101%", "2", "-5%", "", "five"] {
            let error = share(text).unwrap_err();
            assert!(error.contains("such as 5%") && error.contains(&format!("`{text}`")));
        }
    }
}
