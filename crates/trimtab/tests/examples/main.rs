//! Runs every command that a page or a help text shows.
//!
//! `collect` finds the commands: fenced `console` and `sh` blocks of the pages, comments at
//! the beginning of the example files, and the `Examples:` of every `--help`. `table` lists
//! what is substituted before a command runs here, and which commands do not run, with the
//! reason. `stage` provides their inputs: traces, models, drives. A new command runs unless
//! the table lists it. A table entry that matches no command fails the test, as does a command
//! that fails.

mod collect;
#[path = "../emulated/mod.rs"]
mod emulated;
mod stage;
mod table;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use collect::Shown;
use stage::{Outcome, Stage};
use table::{Needs, Plan};
use trimtab_testdisk::{self as testdisk, Feature};

/// Test machines have few processors, and some commands wait for time to pass.
const AT_ONCE: usize = 3;

#[test]
fn shown_commands_work() {
    let shown = collect::all();
    assert!(shown.len() > 100, "only {} commands are found", shown.len());
    let mut problems = table::stale(&shown);
    let (run, kept): (Vec<_>, Vec<_>) = shown
        .iter()
        .map(|shown| (shown, table::plan(&shown.command)))
        .partition(|(_, plan)| matches!(plan, Plan::Run { .. }));
    let stage = Stage::new(&run);
    for (shown, plan) in &kept {
        let Plan::Not(why) = plan else { unreachable!("is not run") };
        if let Err(error) = stage.parses(&shown.command) {
            problems.push(format!("{}: {}\n    {error}", shown.place, shown.command));
        }
        testdisk::note(&format!("not run: {}: {}: {why}", shown.place, shown.command));
    }
    let (failed, skipped) = run_all(&stage, &run);
    problems.extend(failed);
    testdisk::note(&format!(
        "commands of pages and help texts: {} found, {} run, {} not run for a reason in the \
         table, {} skipped here",
        shown.len(),
        run.len() - skipped.len(),
        kept.len(),
        skipped.len(),
    ));
    for (command, feature, why) in skipped {
        testdisk::skip(feature, &format!("{command}: {why}"));
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// A command that was not run, and the feature that the machine lacks.
type Skipped = (String, Feature, String);

/// Runs commands, some at a time. Returns those that failed, and the reasons why others were
/// skipped.
fn run_all(stage: &Stage, commands: &[(&Shown, Plan)]) -> (Vec<String>, Vec<Skipped>) {
    let next = AtomicUsize::new(0);
    let (failed, skipped) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let done = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((shown, plan)) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Some are on several pages.
                    if !done.lock().unwrap().insert(&shown.command) {
                        continue;
                    }
                    let begin = Instant::now();
                    let outcome = stage.run(&shown.command, plan);
                    let took = begin.elapsed();
                    if took > stage::TOO_LONG / 4 {
                        testdisk::note(&format!("{}: {took:.0?}", shown.command));
                    }
                    match outcome {
                        Outcome::Done => {}
                        Outcome::Skipped(feature, why) => {
                            skipped.lock().unwrap().push((shown.command.clone(), feature, why));
                        }
                        Outcome::Failed(why) => {
                            let text = format!("{}: {}\n    {why}", shown.place, shown.command);
                            failed.lock().unwrap().push(text);
                        }
                    }
                }
            });
        }
    });
    (failed.into_inner().unwrap(), skipped.into_inner().unwrap())
}

#[test]
fn table_entries_have_reasons() {
    for (what, reason) in table::reasons() {
        assert!(reason.len() > 10, "`{what}`: why?");
    }
    assert_eq!(table::needs("trimtab trace info disk.parquet"), Needs::Nothing);
    assert_eq!(table::needs("trimtab drive stat slow"), Needs::Drives);
    assert_eq!(table::needs("trimtab top nvme0n1"), Needs::Ebpf);
}
