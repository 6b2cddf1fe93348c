//! `trimtab array check`.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use trimtab_report::count;
use trimtab_volume::{Array, Check, RunDirectory};

use crate::console;
use crate::exit::Incomplete;
use crate::json::Json;
use crate::progress::Progress;

const HELP: &str = "\
Examples:
  sudo trimtab array check fast
  sudo trimtab array check fast --repair
  sudo trimtab array check fast --json | jq .mismatches

Waits for the end. Ctrl-C ends the waiting, not the check. With --repair parity is computed
again from the data, and copies get what the first has. Exit code 1 if something did not fit
and was left, 3 if a member failed before all was compared.";

/// What to check.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The array.
    name: String,
    /// Make fit what does not.
    #[arg(long)]
    repair: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How often the array is asked how far it is.
const PERIOD: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args) -> Result<()> {
    let array = Array::find(&RunDirectory::from_environment(), &args.name)?;
    array.check(args.repair)?;
    let mut progress = Progress::new();
    let (check, all) = loop {
        thread::sleep(PERIOD);
        let stat = array.stat().map_err(|error| {
            Incomplete(format!(
                "{}: the array has ended, and the check with it: {error}",
                args.name
            ))
        })?;
        let Some(check) = stat.check else { bail!("the check has ended without a result") };
        if check.is_complete {
            break (check, stat.stripes);
        }
        let share = check.stripes as f64 / stat.stripes.max(1) as f64;
        progress.show(|_| format!("comparing: {:.1}%", share * 100.0));
    };
    drop(progress);
    report(args, check, all)
}

fn report(args: &Args, check: Check, all: u64) -> Result<()> {
    let Check { stripes, mismatches, unreadable, .. } = check;
    if args.json {
        Json::StandardOutput.write(&check)?;
    } else {
        let [stripes, mismatches] = [stripes, mismatches].map(count);
        writeln!(console::out(false), "{stripes} stripes compared, {mismatches} did not fit")?;
    }
    if check.is_cut {
        let [compared, all] = [check.stripes, all].map(count);
        let why = "a member failed meanwhile, and without it nothing can be compared";
        let what = format!("{}: {compared} of {all} stripes compared: {why}", args.name);
        return Err(Incomplete(what).into());
    }
    if unreadable > 0 {
        bail!("{}: too little could be read of some stripes: see the array's log", args.name);
    }
    if mismatches > 0 && !args.repair {
        bail!("{}: {} stripes do not fit: --repair makes them", args.name, count(mismatches));
    }
    Ok(())
}
