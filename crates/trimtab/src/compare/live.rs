//! `trimtab compare --live`: the same comparison on drives that the kernel has.

mod agreement;
mod emulated;
mod files;
mod notes;
mod serve;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use trimtab_report::{Section, Table, machine};
use trimtab_sim::compare::{self, Comparison, Progress, Report, Rig};

use super::teacher::Teacher;
use super::{Args, page, table};
use crate::exit::{BadInput, Incomplete};
use crate::json::Json;
use crate::output;
use agreement::Agreement;
use emulated::Emulated;
use files::Files;
use notes::Notes;

/// How often phase two is simulated for each seed. It is to say what can be expected, and
/// one turn is as much chance as one live run is.
const TURNS: u32 = 5;

const SIGNALS: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

/// Raised by Ctrl-C. The second one ends the process as it is: drives go with it.
#[derive(Clone, Debug)]
struct End(Arc<AtomicBool>);

impl End {
    fn catch() -> Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        for signal in SIGNALS {
            let at_second = Arc::clone(&end);
            signal_hook::flag::register_conditional_default(signal, at_second)
                .context("cannot catch signals")?;
            signal_hook::flag::register(signal, Arc::clone(&end))
                .context("cannot catch signals")?;
        }
        Ok(Self(end))
    }

    fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// All that is reported.
#[derive(Serialize)]
struct Told<'a> {
    trimtab: &'static str,
    scenario: &'a str,
    machine: String,
    live: &'a Report,
    notes: &'a Notes,
    /// The same scenario in simulation, if the drives are emulated ones.
    simulated: Option<&'a Report>,
    agreement: Option<&'a Agreement>,
}

/// Runs a comparison live, and beside it in simulation where the drives are
/// emulated ones.
pub(super) fn run(
    args: &Args,
    mut comparison: Comparison,
    json: Option<Json>,
    report: Option<output::Report>,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<()> {
    if args.seeds.is_empty() {
        // Real time is dear: one seed, unless more are asked for.
        comparison.set_seeds(comparison.seeds()[..1].to_vec()).map_err(BadInput)?;
    }
    let (live, notes, simulated) = if args.files.is_empty() {
        let mut in_turns = comparison.clone();
        in_turns.set_turns(TURNS);
        let simulated = compare::compare(&in_turns, &Teacher, threads, progress)?;
        // Not before: a simulation ends at once.
        let end = End::catch()?;
        let mut rig = Emulated::new(&comparison, end.clone())?;
        let live = on_rig(&mut rig, &comparison, threads, progress, &end)?;
        (live, rig.into_notes(), Some(simulated))
    } else {
        let end = End::catch()?;
        let mut rig = Files::new(&args.files, args.destroys, &mut comparison, end.clone())?;
        let live = on_rig(&mut rig, &comparison, threads, progress, &end)?;
        (live, rig.into_notes(), None)
    };
    let agreement = simulated.as_ref().map(|simulated| Agreement::new(&live, simulated, &notes));
    let path = &args.scenario;
    if let Some(file) = report {
        let mut page = page::page(path, &comparison, &live);
        let mut section = Section::new("How it was measured");
        section.table(notes.table());
        page.section(section);
        if let (Some(simulated), Some(agreement)) = (&simulated, &agreement) {
            let mut section = Section::new("The same in simulation");
            section.table(in_simulation(simulated));
            section.table(agreement.table());
            section.note(agreement.verdict());
            page.section(section);
        }
        file.write(&page)?;
    }
    let to_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json {
        json.write(&Told {
            trimtab: env!("CARGO_PKG_VERSION"),
            scenario: comparison.text(),
            machine: machine(),
            live: &live,
            notes: &notes,
            simulated: simulated.as_ref(),
            agreement: agreement.as_ref(),
        })?;
    }
    if !args.quiet && !to_standard_output {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", table::text(path, &live))?;
        writeln!(out, "{}", notes.table())?;
        if let (Some(simulated), Some(agreement)) = (&simulated, &agreement) {
            let simulated = in_simulation(simulated);
            writeln!(out, "{simulated}\n{}\n{}", agreement.table(), agreement.verdict())?;
        }
    }
    match notes.trouble() {
        None => Ok(()),
        Some(trouble) => Err(Incomplete(trouble).into()),
    }
}

fn in_simulation(simulated: &Report) -> Table {
    table::strategies(simulated).with_caption(format!(
        "the same in simulation, {TURNS} times for each seed, which begin a little apart:\n\
         medians; in parentheses the lowest and the highest"
    ))
}

fn on_rig(
    rig: &mut dyn Rig,
    comparison: &Comparison,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
    end: &End,
) -> Result<Report> {
    let result = compare::compare_on(rig, comparison, &Teacher, threads, progress);
    if end.has_come() {
        bail!("ended before it was complete");
    }
    Ok(result?)
}
