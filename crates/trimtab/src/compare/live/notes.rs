//! How a live comparison was measured, as a table.

use trimtab_compare::live::{LATE, Notes, RunNote};
use trimtab_io::Nanos;
use trimtab_report::{Align, Table, count};

use crate::units;

/// The table of the runs.
pub(super) fn table(notes: &Notes) -> Table {
    let columns = [
        ("run", Align::Left),
        ("runs", Align::Right),
        ("took", Align::Right),
        ("requests late, p50", Align::Right),
        ("p99", Align::Right),
        ("CPU, generator", Align::Right),
        ("drives", Align::Right),
        ("too early", Align::Right),
        ("saturated", Align::Right),
        ("stolen", Align::Right),
        ("refused and tried", Align::Right),
    ];
    let mut caption = "how it was measured: how often it was run (again if the generator fell \
                       behind), how\nlate requests were handed out (it counts as latency), and \
                       the share of one\nprocessor that it took. Too early is the share of \
                       reads that emulated drives answered\nbefore their models say; \
                       saturated, of those in moments in which half of them came\nmore than \
                       30 µs after that: the machine was too busy. Stolen is the share of all\n\
                       processors' time that the host of a virtual machine gave to others. \
                       False revokes\nare an estimate from the refused reads that were tried \
                       all the same"
        .to_owned();
    if notes.recorded > 0 {
        let (recorded, lost) = (count(notes.recorded), notes.lost);
        caption += &format!(". Of phase one's {recorded} requests\n{lost} were not seen to end");
    }
    let mut table = Table::new(&columns).with_caption(caption);
    let none = || units::NONE.to_owned();
    let time = |time: Option<Nanos>| time.map_or_else(none, units::long);
    let percent = |share: Option<f64>| share.map_or_else(none, |share| format!("{share:.0}%"));
    let mut seed = None;
    for run in &notes.runs {
        if notes.has_several_seeds() && seed != Some(run.seed) {
            seed = Some(run.seed);
            table.group(format!("seed {}", run.seed));
        }
        let drives: Vec<_> = run.drive_cpu_percent.iter().map(|cpu| format!("{cpu:.0}%")).collect();
        table.row([
            run.strategy.clone(),
            run.runs.to_string(),
            units::long(run.took_ns),
            time(run.late_p50_ns),
            time(run.late_p99_ns),
            format!("{:.0}%", run.cpu_percent),
            if drives.is_empty() { none() } else { drives.join(" ") },
            percent(run.early_percent),
            percent(run.saturated_percent),
            percent(run.stolen_percent),
            run.forced_samples.to_string(),
        ]);
    }
    table
}

/// What makes the result less reliable, if anything.
pub(super) fn trouble(notes: &Notes) -> Option<String> {
    let named = |run: &RunNote| match notes.has_several_seeds() {
        true => format!("{} (seed {})", run.strategy, run.seed),
        false => run.strategy.clone(),
    };
    let behind: Vec<_> = notes.late_runs().map(named).collect();
    let mut trouble = Vec::new();
    if !behind.is_empty() {
        trouble.push(format!(
            "the generator fell behind ({} late, one in a hundred) in: {}; give it less to do, \
             or the machine less besides",
            units::long(LATE),
            behind.join(", ")
        ));
    }
    if notes.has_lost_many() {
        trouble.push(format!(
            "{} of {} requests of phase one were not seen to end, and are not learnt from",
            notes.lost, notes.recorded
        ));
    }
    (!trouble.is_empty()).then(|| trouble.join("; "))
}
