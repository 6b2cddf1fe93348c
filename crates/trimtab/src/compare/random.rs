//! `trimtab compare --random`: a series of arrays drawn at random.

mod page;

use std::io::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;
use trimtab_compare::random::{
    ArrayError, ArrayResult, FIGURES, LEAST, LEVEL, MARGIN, Recording, Series, SeriesOptions,
    SeriesSummary, Standing, TIE, run_series, scenario,
};
use trimtab_compare::{BuiltinTrainer, Entry, StrategyKind, random};
use trimtab_report::{Align, Facts, Table, machine};

use super::Args;
use crate::console;
use crate::exit::{BadInput, Incomplete};
use crate::interrupt::Interrupt;
use crate::json::Json;
use crate::output::Report;
use crate::progress::{Progress, during};
use crate::units;

/// The strategies of a series, unless others are named.
const STRATEGIES: [StrategyKind; 10] = [
    StrategyKind::Base,
    StrategyKind::Clone,
    StrategyKind::Tied,
    StrategyKind::Hedge,
    StrategyKind::Adaptive,
    StrategyKind::Snitch,
    StrategyKind::C3,
    StrategyKind::Linnos,
    StrategyKind::LinnosHl,
    StrategyKind::Trimtab,
];

/// The series as JSON.
#[derive(Serialize)]
struct Output<'a> {
    trimtab: &'static str,
    machine: String,
    seed: u64,
    recordings: Vec<String>,
    strategies: Vec<&'a str>,
    settings: &'a str,
    is_complete: bool,
    summary: &'a SeriesSummary,
    arrays: &'a [ArrayResult],
    failed: &'a [Failed],
}

/// An array that could not be compared.
#[derive(Serialize)]
struct Failed {
    number: u64,
    error: String,
}

/// Arrays that could not be compared, of which the table and the page have the reasons.
const MOST_SHOWN: usize = 10;

/// More than anyone waits for.
const MOST_ARRAYS: u64 = 1_000_000;

pub(super) fn run(args: &Args, arrays: u64) -> Result<()> {
    if arrays > MOST_ARRAYS {
        return Err(BadInput(format!("--random {arrays}: at most {MOST_ARRAYS} arrays")).into());
    }
    // The seed of an array is its number and 1.
    if args.first.checked_add(arrays).is_none_or(|end| end == u64::MAX) {
        let (first, most) = (args.first, u64::MAX - 1 - arrays);
        return Err(BadInput(format!("--first {first}: at most {most}")).into());
    }
    let options = options(args, arrays)?;
    if args.show {
        let mut out = console::out(false);
        for number in (0..arrays).map(|array| options.first + array) {
            writeln!(out, "{}", scenario(&options, &options.array(number)?))?;
        }
        return Ok(out.flush()?);
    }
    let rows = random::rows(&options)
        .map_err(|error| BadInput(format!("--strategies, --row or --set: {error}")))?;
    let json = args.json.as_deref().map(|out| Json::create(out, &[])).transpose()?;
    let page = args.report.as_deref().map(|out| Report::create(out, &[])).transpose()?;
    let work = || until_interrupted(&options, args.quiet);
    let Outcome { results, failed, end } =
        if args.quiet { work() } else { during("comparing", work) }?;
    let is_complete = end == End::Complete && failed.is_empty();
    let summary = SeriesSummary::new(&rows, &results);
    // An empty result does not replace what an earlier run has left.
    let has_results = !results.is_empty() || is_complete;
    if let Some(page) = page.filter(|_| has_results) {
        page.write(&self::page::page(&options, &rows, &summary, &results, &failed))?;
    }
    let to_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json.filter(|_| has_results || to_standard_output) {
        json.write(&Output {
            trimtab: env!("CARGO_PKG_VERSION"),
            machine: machine(),
            seed: options.seed,
            recordings: options.recordings.iter().map(Recording::name).collect(),
            strategies: rows.iter().map(|row| row.name.as_str()).collect(),
            settings: &options.settings,
            is_complete,
            summary: &summary,
            arrays: &results,
            failed: &failed,
        })?;
    }
    if !args.quiet && !to_standard_output && has_results {
        let mut out = console::out(false);
        out.write_all(text(&options, &rows, &summary, &results, &failed).as_bytes())?;
        out.flush()?;
    }
    let done = results.len() + failed.len();
    let mut why = Vec::new();
    if let [first, ..] = failed.as_slice() {
        why.push(format!(
            "{} of {arrays} arrays could not be compared, the first of them array {}: {}",
            failed.len(),
            first.number,
            first.error
        ));
    }
    match end {
        End::Complete => {}
        End::OfTime => why.push(format!("the time ended it after {done} of {arrays} arrays")),
        End::Signal => why.push(format!("a signal ended it after {done} of {arrays} arrays")),
    }
    if why.is_empty() {
        return Ok(());
    }
    Err(Incomplete(why.join("; ")).into())
}

/// What came of a series.
struct Outcome {
    /// The arrays that were compared, by number.
    results: Vec<ArrayResult>,
    /// Those that could not be, by number.
    failed: Vec<Failed>,
    end: End,
}

/// What ended a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    OfTime,
    Signal,
}

/// How often a signal is looked for.
const POLL: Duration = Duration::from_millis(20);

/// Runs a series until it ends, or a signal comes: then the arrays that are complete are its
/// results, and the others are left to the end of the process.
///
/// # Errors
/// The error of the first array, if all were tried and none can be compared.
fn until_interrupted(options: &SeriesOptions, quiet: bool) -> Result<Outcome> {
    let interrupt = Interrupt::catch_beside(options.threads, &[])?;
    let (each, ended) = mpsc::channel();
    let own = options.clone();
    // Not a scoped thread: an array takes many seconds, and a user who wants to end does not wait.
    let series = thread::Builder::new().name("series".to_owned()).spawn(move || {
        run_series(&own, &BuiltinTrainer, &|result| {
            // Nobody listens after a signal.
            _ = each.send(match result {
                Ok(result) => Ok(result.clone()),
                Err(ArrayError { number, source }) => {
                    Err(Failed { number: *number, error: source.to_string() })
                }
            });
        })
    });
    let series = series.context("cannot begin the series")?;
    let mut progress = if quiet { Progress::hidden() } else { Progress::new() };
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    let signal = loop {
        match ended.recv_timeout(POLL) {
            Ok(array) => {
                match array {
                    Ok(result) => results.push(result),
                    Err(array) => failed.push(array),
                }
                let (done, all) = ((results.len() + failed.len()) as u64, options.arrays);
                progress.show(|elapsed| line(done, all, elapsed));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break false,
        }
        if (results.len() + failed.len()) as u64 == options.arrays {
            break false;
        }
        if interrupt.has_come() {
            break true;
        }
    };
    results.sort_by_key(|result: &ArrayResult| result.number);
    failed.sort_by_key(|array: &Failed| array.number);
    if signal {
        return Ok(Outcome { results, failed, end: End::Signal });
    }
    let Series { failed: errors, all_tried, .. } =
        series.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if all_tried
        && results.is_empty()
        && let Some(ArrayError { number, source }) = errors.into_iter().next()
    {
        let place = format!("array {number} of the series {}", options.seed);
        return Err(anyhow::Error::from(source).context(place));
    }
    let end = if all_tried { End::Complete } else { End::OfTime };
    Ok(Outcome { results, failed, end })
}

fn line(done: u64, all: u64, elapsed: Duration) -> String {
    let left = elapsed.mul_f64((all - done) as f64 / done as f64);
    format!(
        "{done} of {all} arrays; {:.0} s, about {:.0} s left",
        elapsed.as_secs_f64(),
        left.as_secs_f64()
    )
}

fn options(args: &Args, arrays: u64) -> Result<SeriesOptions> {
    let names = match args.strategies.is_empty() {
        true => STRATEGIES.map(|kind| kind.name().to_owned()).to_vec(),
        false => args.strategies.clone(),
    };
    let named = names.iter().filter(|name| *name != "base");
    let named = named.map(|name| super::quoted(name));
    let mut rows = vec!["\"base\"".to_owned()];
    rows.extend(named.chain(args.row.iter().cloned()));
    let threads = super::threads(args);
    let recordings = args.trace.iter().map(|path| Recording::open(path));
    Ok(SeriesOptions {
        arrays,
        first: args.first,
        seed: args.seed.context("clap asks for it")?,
        recordings: recordings.collect::<Result<_, _>>()?,
        rows,
        settings: args.set.iter().map(|line| format!("{line}\n")).collect(),
        threads,
        until: args.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(60.0 * minutes)),
    })
}

/// The whole output.
fn text(
    options: &SeriesOptions,
    rows: &[Entry],
    summary: &SeriesSummary,
    results: &[ArrayResult],
    failed: &[Failed],
) -> String {
    let facts = facts(options, results, failed);
    let (strategies, standing) = (strategies(summary), standing(summary));
    let verdict = verdict(rows, summary);
    let worst = worst(results);
    format!("{facts}\n{strategies}\n{standing}\n{worst}\n{verdict}\n")
}

fn facts(options: &SeriesOptions, results: &[ArrayResult], failed: &[Failed]) -> Facts {
    let mut facts = Facts::new();
    facts.add("seed of the series", options.seed.to_string());
    facts.add("arrays", results.len().to_string());
    // Those that are left out are not a random sample.
    for Failed { number, error } in failed.iter().take(MOST_SHOWN) {
        facts.add("could not be compared", format!("array {number}: {error}"));
    }
    if failed.len() > MOST_SHOWN {
        facts.add("could not be compared", format!("{} more", failed.len() - MOST_SHOWN));
    }
    let reads = results.iter().map(|array| array.reads).min().unwrap_or_default();
    facts.add("reads", format!("{} of each array, at least", trimtab_report::count(reads)));
    if !options.recordings.is_empty() {
        let names: Vec<_> = options.recordings.iter().map(Recording::name).collect();
        let replay = results.iter().filter(|array| array.traits.recording.is_some()).count();
        facts.add("recordings", format!("{}, replayed by {replay} arrays", names.join(", ")));
    }
    let events = results.iter().filter(|array| array.traits.event != "none").count();
    facts.add("with an event", format!("{events} arrays"));
    facts.add("machine", machine());
    facts
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Names of [`FIGURES`].
const NAMES: [&str; FIGURES.len()] = ["mean", "p99", "p99.9"];

fn strategies(summary: &SeriesSummary) -> Table {
    let mut columns = vec![("strategy".to_owned(), Align::Left)];
    columns.extend(NAMES.map(|name| (format!("{name} / base"), Align::Right)));
    columns.extend(NAMES.map(|name| (format!("worse {name}"), Align::Right)));
    columns.push(("extra I/O".to_owned(), Align::Right));
    let caption = format!(
        "medians over the arrays; worse: share of the arrays on which the figure exceeds base's \
         by more than {:.0}% and {LEAST}",
        100.0 * MARGIN
    );
    let mut table = Table::new(&columns).with_caption(caption);
    for row in &summary.strategies {
        let mut cells = vec![row.strategy.clone()];
        cells.extend(row.ratio.map(|ratio| format!("{ratio:.3}")));
        cells.extend(row.worse.map(percent));
        cells.push(format!("{:.1}%", row.extra_io_percent));
        table.row(cells);
    }
    table
}

fn standing(summary: &SeriesSummary) -> Table {
    let columns = [
        ("against the best published", Align::Left),
        ("figure", Align::Left),
        ("within 5%", Align::Right),
        ("ahead", Align::Right),
        ("median regret", Align::Right),
        ("most", Align::Right),
    ];
    let mut table = Table::new(&columns);
    let mut add = |of: &str, standings: &[Standing]| {
        for (name, standing) in NAMES.iter().zip(standings) {
            table.row([
                of.to_owned(),
                (*name).to_owned(),
                percent(standing.within),
                percent(standing.ahead),
                percent(standing.median_regret),
                percent(standing.most_regret),
            ]);
        }
    };
    add("of like cost", &summary.like_cost);
    add("of all", &summary.all);
    table
}

/// The arrays on which the judged strategy loses most.
fn worst(results: &[ArrayResult]) -> Table {
    let columns = [
        ("array", Align::Right),
        ("figure", Align::Left),
        ("base", Align::Right),
        ("judged", Align::Right),
        ("ratio", Align::Right),
        ("p", Align::Right),
        ("replicas", Align::Right),
        ("read time", Align::Right),
        ("utilisation", Align::Right),
        ("reads", Align::Right),
        ("failover", Align::Right),
        ("arrivals", Align::Left),
        ("event", Align::Left),
    ];
    let mut table = Table::new(&columns).with_caption("the arrays on which it loses most");
    let mut all: Vec<_> = results
        .iter()
        .flat_map(|array| array.against_base.iter().zip(NAMES).map(move |pair| (array, pair)))
        .filter(|(_, (test, _))| test.exceeds())
        .collect();
    all.sort_by(|(_, (a, _)), (_, (b, _))| {
        (b.ours_ns / b.base_ns).total_cmp(&(a.ours_ns / a.base_ns))
    });
    for (array, (test, name)) in all.into_iter().take(20) {
        let traits = &array.traits;
        let time = |ns: f64| units::long(trimtab_io::Nanos(ns as u64));
        table.row([
            array.number.to_string(),
            name.to_owned(),
            time(test.base_ns),
            time(test.ours_ns),
            format!("{:.3}", test.ours_ns / test.base_ns),
            format!("{:.1e}", test.p),
            traits.replicas.to_string(),
            format!("{} µs", traits.read_us),
            percent(traits.utilisation),
            percent(traits.read_share),
            format!("{} µs", traits.failover_us),
            traits.arrivals.to_owned(),
            traits.event.to_owned(),
        ]);
    }
    table
}

fn verdict(rows: &[Entry], summary: &SeriesSummary) -> String {
    let Some(Entry { name, .. }) = rows.last().filter(|row| row.kind != StrategyKind::Base) else {
        return "There is nothing besides base that could be compared with it.".to_owned();
    };
    format!(
        "{name} is worse than base, with confidence ({LEVEL}, Holm), on {} of {} arrays \
         ({} without regard to confidence). It is within {:.0}% of the best published strategy of \
         like cost in all three figures on {}, and ahead of all of them in all three on {}.",
        summary.worse.len(),
        summary.arrays,
        summary.exceeds.len(),
        100.0 * TIE,
        percent(summary.within_in_all),
        percent(summary.ahead_in_all),
    )
}
