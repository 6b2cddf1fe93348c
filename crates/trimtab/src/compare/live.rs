//! `trimtab compare --live`: the same comparison on the kernel's block devices.

mod agreement;
mod notes;

use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde::Serialize;
use trimtab_compare::live::{DriveGuard, Emulated, Files, Notes, StartDrive, drive_specs};
use trimtab_compare::{
    Agreement, BuiltinTrainer, Comparison, Progress, Report, Testbed, compare, compare_on,
};
use trimtab_emu::{RunDirectory, Spec};

use trimtab_report::{Section, Table, machine};

use super::{Args, page, table};
use crate::console;
use crate::drive::with_guard;
use crate::exit::Incomplete;
use crate::interrupt::Interrupt;
use crate::json::Json;
use crate::output;

/// How often phase two is simulated for each seed, to estimate the spread: a single simulation
/// varies as much as one live run.
const TURNS: u32 = 5;

/// Caught beside Ctrl-C and SIGTERM: emulated drives must end with the terminal too.
const HANG_UP: [i32; 1] = [signal_hook::consts::SIGHUP];

/// The report as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    trimtab: &'static str,
    scenario: &'a str,
    machine: String,
    live: &'a Report,
    notes: &'a Notes,
    /// The same scenario in simulation, if the drives are emulated.
    simulated: Option<&'a Report>,
    agreement: Option<&'a Agreement>,
}

/// Runs a comparison live, and also in simulation if the drives are emulated.
pub(super) fn run(
    args: &Args,
    path: &std::path::Path,
    mut comparison: Comparison,
    json: Option<Json>,
    report: Option<output::Report>,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<()> {
    needs(args, &comparison)?;
    if args.seeds.is_empty() {
        // Runs take real time: one seed, unless more are requested.
        comparison.set_seeds(comparison.seeds()[..1].to_vec())?;
    }
    let (live, notes, simulated) = if args.files.is_empty() {
        let mut in_turns = comparison.clone();
        in_turns.set_turns(TURNS);
        let simulated = compare(&in_turns, &BuiltinTrainer, threads, progress)?;
        // Not earlier: the default action ends a simulation at once.
        let end = Interrupt::catch(&HANG_UP)?;
        let mut testbed = Emulated::new(&comparison, start_drives(), should_stop(&end));
        let live = on_testbed(&mut testbed, &comparison, threads, progress, &end)?;
        (live, testbed.into_notes(), Some(simulated))
    } else {
        let end = Interrupt::catch(&HANG_UP)?;
        let stop = should_stop(&end);
        let mut testbed = Files::new(&args.files, args.destroys, &mut comparison, stop)?;
        let live = on_testbed(&mut testbed, &comparison, threads, progress, &end)?;
        (live, testbed.into_notes(), None)
    };
    let agreement =
        simulated.as_ref().map(|simulated| Agreement::new(&live, simulated, &notes.added));
    if let Some(file) = report {
        let mut page = page::page(path, &comparison, &live);
        let mut section = Section::new("How it was measured");
        section.table(notes::table(&notes));
        page.section(section);
        if let (Some(simulated), Some(agreement)) = (&simulated, &agreement) {
            let mut section = Section::new("The same in simulation");
            section.table(in_simulation(simulated));
            section.table(agreement::table(agreement));
            section.note(agreement::verdict(agreement));
            agreement::trouble(agreement).into_iter().for_each(|trouble| section.note(trouble));
            page.section(section);
        }
        file.write(&page)?;
    }
    let to_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json {
        json.write(&Summary {
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
        writeln!(out, "{}", notes::table(&notes))?;
        if let (Some(simulated), Some(agreement)) = (&simulated, &agreement) {
            let simulated = in_simulation(simulated);
            let (table, verdict) = (agreement::table(agreement), agreement::verdict(agreement));
            writeln!(out, "{simulated}\n{table}\n{verdict}")?;
        }
    }
    let of_agreement = agreement.as_ref().and_then(agreement::trouble);
    let trouble: Vec<_> = notes::trouble(&notes).into_iter().chain(of_agreement).collect();
    if trouble.is_empty() { Ok(()) } else { Err(Incomplete(trouble.join("; ")).into()) }
}

/// Checks what a comparison needs of the scenario, the machine and this process, before
/// minutes of simulation.
fn needs(args: &Args, comparison: &Comparison) -> Result<()> {
    comparison.check_live()?;
    if args.files.is_empty() {
        let home = RunDirectory::from_environment();
        for spec in drive_specs(comparison, comparison.seeds()[0]) {
            spec.check()?;
            trimtab_emu::check_machine(&spec)?;
        }
        home.check()?;
        trimtab_record::check()?;
    }
    Ok(trimtab_uring::check()?)
}

/// Starts each emulated drive in its own server, which ends with this process.
fn start_drives() -> StartDrive {
    Box::new(|spec: &Spec| Ok(Box::new(with_guard(spec)?) as DriveGuard))
}

fn should_stop(end: &Interrupt) -> trimtab_compare::live::ShouldStop {
    let end = end.clone();
    Arc::new(move || end.has_come())
}

fn in_simulation(simulated: &Report) -> Table {
    table::strategies(simulated).with_caption(format!(
        "the same in simulation, {TURNS} times for each seed, which begin a little apart:\n\
         medians; in parentheses the lowest and the highest"
    ))
}

fn on_testbed(
    testbed: &mut dyn Testbed,
    comparison: &Comparison,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
    end: &Interrupt,
) -> Result<Report> {
    let result = compare_on(testbed, comparison, &BuiltinTrainer, threads, progress);
    if end.has_come() {
        bail!("ended before it was complete");
    }
    Ok(result?)
}
