//! Every command that a page or a help text shows is run, as it stands there.
//!
//! `collect` finds the commands: fenced `console` and `sh` blocks of the pages, comments
//! that begin the example files, and the `Examples:` of every `--help`. `table` says what
//! is put in another's place before a command runs here, and which commands do not run,
//! with the reason. `stage` has what they need: traces, models, drives. A command that is
//! new runs unless the table says otherwise, and an entry that fits no command any more
//! fails the test, as does a command that fails.

mod collect;
#[path = "../emulated/mod.rs"]
mod emulated;
mod stage;
mod table;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use collect::Shown;
use stage::{Outcome, Stage};
use table::{Needs, Plan};
use trimtab_testdisk as testdisk;

/// Processors are few where tests run, and some commands wait for time to pass.
const AT_ONCE: usize = 3;

#[test]
fn every_command_that_is_shown_works() {
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
    let of = |needs: &str| skipped.iter().filter(|why| why.contains(needs)).count();
    testdisk::note(&format!(
        "commands of pages and help texts: {} found, {} run, {} not run for a reason in the \
         table, {} skipped here ({} for emulated drives, {} for eBPF)",
        shown.len(),
        run.len() - skipped.len(),
        kept.len(),
        skipped.len(),
        of("drives"),
        of("eBPF"),
    ));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Runs commands, some at a time; gives those that failed, and why others were skipped.
fn run_all(stage: &Stage, commands: &[(&Shown, Plan)]) -> (Vec<String>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let (failed, skipped) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let done = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((shown, plan)) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Some stand on several pages.
                    if !done.lock().unwrap().insert(&shown.command) {
                        continue;
                    }
                    match stage.run(&shown.command, plan) {
                        Outcome::Done => {}
                        Outcome::Skipped(why) => skipped.lock().unwrap().push(why),
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
fn the_table_gives_a_reason_for_each_entry() {
    for (what, reason) in table::reasons() {
        assert!(reason.len() > 10, "`{what}`: why?");
    }
    assert_eq!(table::needs("trimtab trace info disk.parquet"), Needs::Nothing);
    assert_eq!(table::needs("trimtab drive stat slow"), Needs::Drives);
    assert_eq!(table::needs("trimtab top nvme0n1"), Needs::Ebpf);
}
