//! `trimtab compare --live`: the same comparison on drives that the kernel has.

mod agreement;
mod emulated;
mod files;
mod foretold;
mod notes;
mod serve;

use std::io::Write as _;

use anyhow::{Result, bail};
use serde::Serialize;
use trimtab_emu::RunDirectory;
use trimtab_live::array;
use trimtab_report::{Section, Table, machine};
use trimtab_sim::compare::{self, Comparison, Progress, Report, Rig};

use super::teacher::Teacher;
use super::{Args, page, table};
use crate::console;
use crate::exit::{BadInput, Incomplete};
use crate::interrupt::Interrupt;
use crate::json::Json;
use crate::output;
use agreement::Agreement;
use emulated::Emulated;
use files::Files;
use notes::Notes;

/// How often phase two is simulated for each seed. It is to say what can be expected, and
/// one turn is as much chance as one live run is.
const TURNS: u32 = 5;

/// Beside Ctrl-C and SIGTERM: drives are to go with the terminal too.
const HANG_UP: [i32; 1] = [signal_hook::consts::SIGHUP];

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
    needs(args, &comparison)?;
    if args.seeds.is_empty() {
        // Real time is dear: one seed, unless more are asked for.
        comparison.set_seeds(comparison.seeds()[..1].to_vec()).map_err(BadInput)?;
    }
    let (live, notes, simulated) = if args.files.is_empty() {
        let mut in_turns = comparison.clone();
        in_turns.set_turns(TURNS);
        let simulated = compare::compare(&in_turns, &Teacher, threads, progress)?;
        // Not before: a simulation ends at once.
        let end = Interrupt::catch(&HANG_UP)?;
        let mut rig = Emulated::new(&comparison, end.clone())?;
        let live = on_rig(&mut rig, &comparison, threads, progress, &end)?;
        (live, rig.into_notes(), Some(simulated))
    } else {
        let end = Interrupt::catch(&HANG_UP)?;
        let mut rig = Files::new(&args.files, args.destroys, &mut comparison, end.clone())?;
        let live = on_rig(&mut rig, &comparison, threads, progress, &end)?;
        (live, rig.into_notes(), None)
    };
    let agreement =
        simulated.as_ref().map(|simulated| Agreement::new(&live, simulated, &notes.added));
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
            agreement.trouble().into_iter().for_each(|trouble| section.note(trouble));
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
        let mut out = console::out(false);
        writeln!(out, "{}", table::text(path, &live))?;
        writeln!(out, "{}", notes.table())?;
        if let (Some(simulated), Some(agreement)) = (&simulated, &agreement) {
            let simulated = in_simulation(simulated);
            writeln!(out, "{simulated}\n{}\n{}", agreement.table(), agreement.verdict())?;
        }
    }
    let of_agreement = agreement.as_ref().and_then(Agreement::trouble);
    let trouble: Vec<_> = notes.trouble().into_iter().chain(of_agreement).collect();
    if trouble.is_empty() { Ok(()) } else { Err(Incomplete(trouble.join("; ")).into()) }
}

/// Makes sure of all that a comparison needs of the scenario, the machine and this process,
/// before minutes of simulation.
fn needs(args: &Args, comparison: &Comparison) -> Result<()> {
    comparison.check_live()?;
    if args.files.is_empty() {
        let home = RunDirectory::from_environment();
        for spec in emulated::specs(comparison, comparison.seeds()[0]) {
            spec.check()?;
            trimtab_emu::check_machine(&spec)?;
        }
        home.check()?;
        trimtab_record::check()?;
    }
    Ok(array::check()?)
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
    end: &Interrupt,
) -> Result<Report> {
    let result = compare::compare_on(rig, comparison, &Teacher, threads, progress);
    if end.has_come() {
        bail!("ended before it was complete");
    }
    Ok(result?)
}
