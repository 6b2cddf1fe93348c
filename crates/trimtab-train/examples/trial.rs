//! What would more features gain? Candidates, in groups, beside the features of `trimtab`: forests
//! of the same options are trained with each group on the past of a recording, and evaluated on
//! its future; the label is the knee of the whole recording, the target of training that of
//! `trimtab`. Recordings are in the format of published replays (see `trimtab trace info --help`).
//!
//! ```console
//! $ cargo run --release -p trimtab-train --example trial inner nvme-a.csv nvme-b.csv
//! ```
//!
//! `inner` stays within the first half of a recording (trained on three fifths of it, evaluated on
//! the rest), so that candidates can be chosen without a look at the second half; `outer` is the
//! protocol of `trimtab evaluate`. A candidate sees only what happened before its read is sent.

mod published;

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::io::{self, Write};
use std::ops::ControlFlow;

use trimtab_io::{Nanos, Op, Request};
use trimtab_learn::Rows;
use trimtab_learn::boost::{self, BoostOptions};
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::metrics::roc_auc;
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DriveTracker, FEATURE_NAMES, Recorded, Ticket, pages_of};
use trimtab_train::label::{data_latencies, knee};
use trimtab_train::{Event, events, reads, units};

const SEEDS: u64 = 5;
/// Trees, leaves, rate.
const SIZES: [(usize, usize, f64); 2] = [(32, 8, 0.1), (200, 12, 0.04)];
const NONE: i32 = i32::MAX;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let outer = args.next().ok_or("give inner or outer, and recordings")? == "outer";
    let only: Option<Vec<String>> =
        std::env::var("GROUPS").ok().map(|list| list.split(',').map(str::to_owned).collect());
    for path in args {
        one(&path, outer, only.as_deref())?;
    }
    Ok(())
}

fn one(path: &str, outer: bool, only: Option<&[String]>) -> Result<(), Box<dyn Error>> {
    let recorded = published::recording(&std::fs::read_to_string(path)?).ok_or("not a replay")?;
    let limit = knee(&data_latencies(&[&recorded])).ok_or("no knee")?;
    let mut all = reads(&recorded);
    if !outer {
        all.truncate(all.len() / 2);
    }
    let half = if outer { all.len() / 2 } else { all.len() * 3 / 5 };
    let functions = units::find(&[&recorded[..all[half].index]]).functions;
    let samples = candidates(&recorded, &functions, limit);
    let slow: Vec<bool> = all.iter().map(|read| read.latency > limit).collect();
    let targets = lateness(&all.iter().map(|read| read.latency).collect::<Vec<_>>(), limit, half);
    let share =
        slow[half..].iter().filter(|slow| **slow).count() as f64 / (all.len() - half) as f64;
    let mut out = io::stdout();
    writeln!(
        out,
        "{path}: slow from {limit}, {:.1}% of {} reads",
        share * 100.0,
        all.len() - half
    )?;
    let mut groups: Vec<(String, Vec<&str>)> = vec![("(none)".to_owned(), vec![])];
    match only {
        Some(only) => {
            groups.extend(only.iter().map(|list| (list.clone(), list.split('+').collect())))
        }
        None => {
            groups.extend(GROUPS.map(|group| (group.to_owned(), vec![group])));
            groups.push(("all".to_owned(), GROUPS.to_vec()));
        }
    }
    let mut base = [0.0; SIZES.len()];
    for (name, wanted) in groups {
        let names = &samples.names;
        let columns: Vec<usize> = (0..names.len())
            .filter(|&i| {
                let group = names[i].split('/').next().unwrap_or_default();
                group.is_empty() || wanted.contains(&group) || wanted.contains(&names[i].as_str())
            })
            .collect();
        let row = |i: usize| columns.iter().copied().map(move |c| (i, c));
        let table = |from: &[trimtab_train::Read]| -> Vec<i32> {
            from.iter().flat_map(|r| row(r.index)).map(|(i, c)| samples.rows[i][c]).collect()
        };
        let (past, future) = (table(&all[..half]), table(&all[half..]));
        write!(out, "  {name:24}{:4}", columns.len())?;
        for (size, (trees, leaves, rate)) in SIZES.into_iter().enumerate() {
            let (mut aucs, mut sums) = (Vec::new(), vec![0.0; all.len() - half]);
            let mut importance = vec![0.0; columns.len()];
            for seed in 1..=SEEDS {
                let options = BoostOptions {
                    trees,
                    leaves,
                    learning_rate: rate,
                    min_samples: (half / 200).max(20),
                    l2: 5.0,
                    row_share: 0.5,
                    feature_share: 0.5,
                    seed,
                    threads: 1,
                    ..BoostOptions::default()
                };
                let rows = Rows::new(&past, columns.len())?;
                let data = boost::Data::new(rows, &targets, &[], &options)?;
                let model = boost::train(&data, None, &options, |_| ControlFlow::Continue(()))?;
                for (sum, gain) in importance.iter_mut().zip(&model.importance) {
                    *sum += gain;
                }
                let forest = IntegerForest::new(&model.forest, 12)?;
                let scores: Vec<f64> = future
                    .chunks_exact(columns.len())
                    .map(|row| f64::from(forest.score(row)))
                    .collect();
                scores.iter().zip(&mut sums).for_each(|(score, sum)| *sum += score);
                aucs.push(roc_auc(&scores, &slow[half..]).ok_or("one class")?);
            }
            let mean = aucs.iter().sum::<f64>() / aucs.len() as f64;
            let deviation =
                (aucs.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (SEEDS - 1) as f64).sqrt();
            if name == "(none)" {
                base[size] = mean;
            }
            let averaged = roc_auc(&sums, &slow[half..]).ok_or("one class")?;
            let gain = mean - base[size];
            write!(out, " | {mean:.4} ±{deviation:.4} {gain:+.4} ({averaged:.4})")?;
            if std::env::var("IMPORTANCE").is_ok() && size == 0 {
                let total: f64 = importance.iter().sum();
                let mut order: Vec<usize> = (0..columns.len()).collect();
                order.sort_by(|&a, &b| importance[b].total_cmp(&importance[a]));
                for &i in order.iter().take(14) {
                    let share = importance[i] / total * 100.0;
                    write!(out, "\n      {:5.1}% {}", share, names[columns[i]])?;
                }
            }
        }
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

/// The target of training, as that of `trimtab`.
fn lateness(latencies: &[Nanos], limit: Nanos, past: usize) -> Vec<f32> {
    let log = |latency: Nanos| (latency.0.max(1) as f64).ln();
    let mut logs: Vec<f64> = latencies[..past].iter().map(|&latency| log(latency)).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let border = (0.25 * (logs[logs.len() * 3 / 4] - logs[logs.len() / 4])).max(1e-3);
    let one = |&latency: &Nanos| 1.0 / (1.0 + (-(log(latency) - log(limit)) / border).exp());
    latencies[..past].iter().map(|latency| one(latency) as f32).collect()
}

struct Samples {
    /// Group and name; those of `trimtab` have no group.
    names: Vec<String>,
    /// By the index of the request.
    rows: Vec<Vec<i32>>,
}

const GROUPS: [&str; 9] =
    ["answers", "gaps", "place", "region", "bucket", "near", "ages", "pieces", "slowness"];

/// What is remembered of a place.
#[derive(Clone, Copy, Default)]
struct Place {
    latency: u64,
    mean: f64,
    count: u32,
    slow: u32,
    sent: u64,
    done: u64,
    written: u64,
    inflight: u32,
    number: u64,
}

/// An exponentially fading sum.
#[derive(Clone, Copy, Default)]
struct Fading {
    value: f64,
    at: u64,
}

impl Fading {
    fn get(&self, now: u64, span: f64) -> f64 {
        self.value * (-(now.saturating_sub(self.at) as f64) / span).exp()
    }

    fn add(&mut self, now: u64, span: f64, amount: f64) {
        *self = Self { value: self.get(now, span) + amount, at: now };
    }
}

const PLACES: [u32; 4] = [12, 16, 20, 26];
const SPANS: [f64; 4] = [1e6, 10e6, 100e6, 1000e6];

struct Columns<'a> {
    names: Option<&'a mut Vec<String>>,
    row: Vec<i32>,
}

impl Columns<'_> {
    fn put(&mut self, group: &str, name: impl std::fmt::Display, value: i64) {
        if let Some(names) = &mut self.names {
            names.push(format!("{group}/{name}"));
        }
        self.row.push(value.clamp(0, i64::from(NONE)) as i32);
    }
}

fn ticks(time: u64) -> i64 {
    (time >> 10) as i64
}

/// The features of `trimtab` and the candidates for each request, from what happened before it.
fn candidates(recorded: &[Recorded], functions: &[UnitFunction], limit: Nanos) -> Samples {
    let mut tracker = DriveTracker::new(functions);
    let mut tickets = vec![Ticket(0); recorded.len()];
    let mut names: Vec<String> =
        FEATURE_NAMES.iter().map(|(group, name)| format!("/{group}{name}")).collect();
    let mut rows = vec![Vec::new(); recorded.len()];
    let mut places: [HashMap<u64, Place>; PLACES.len()] = Default::default();
    // Completed reads, the latest first: when, latency, pages, in flight then. Arrivals likewise.
    let mut done: VecDeque<(u64, u64, u32, u32)> = VecDeque::new();
    let mut arrivals: VecDeque<(u64, u64, u64, bool)> = VecDeque::new();
    let mut inflight: Vec<usize> = Vec::new();
    let mut queue_then = vec![0u32; recorded.len()];
    // By span: reads sent, bytes read, bytes written, requests done, latency of reads, slow reads.
    let mut fading = [[Fading::default(); SPANS.len()]; 8];
    let (mut last_slow, mut slow_run, mut slow_since) = (0u64, 0u32, 0u64);
    let (mut streak, mut number) = (0i64, 0u64);
    let mut write_streams: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut read_page, mut read_pages) = (HashMap::<u64, u64>::new(), 0u64);
    for event in events(recorded) {
        match event {
            Event::Sent(i) => {
                let request = &recorded[i].request;
                let now = request.arrival.0;
                let is_read = request.op == Op::Read;
                number += 1;
                if is_read {
                    let first = rows.iter().all(Vec::is_empty);
                    let mut c = Columns {
                        names: first.then_some(&mut names),
                        row: tracker.features(request.arrival, request).to_vec(),
                    };
                    // Answers: the last four, each with its time and latency, and what they took.
                    let at = |k: usize| done.get(k).copied().unwrap_or_default();
                    for k in 0..4 {
                        let (when, latency, pages, then) = at(k);
                        c.put("answers", format!("latency{k}"), ticks(latency));
                        c.put("answers", format!("ago{k}"), ticks(now - when));
                        c.put("answers", format!("pages{k}"), pages.into());
                        c.put("answers", format!("then{k}"), then.into());
                    }
                    c.put("answers", "span4", ticks(at(0).0 - at(3).0));
                    c.put("answers", "span8", ticks(at(0).0 - at(7).0));
                    c.put("answers", "span16", ticks(at(0).0 - at(15).0));
                    let last16 = || done.iter().take(16).map(|d| d.1);
                    c.put("answers", "max16", ticks(last16().max().unwrap_or(0)));
                    c.put("answers", "min16", ticks(last16().min().unwrap_or(0)));
                    // Gaps between arrivals.
                    let arrived = |k: usize| arrivals.get(k).copied().unwrap_or_default();
                    for k in [0, 1, 3, 7, 15] {
                        c.put("gaps", format!("gap{k}"), ticks(now - arrived(k).0));
                    }
                    c.put("gaps", "last-read", arrived(0).3.into());
                    c.put("gaps", "last-length", (arrived(0).2 >> 10) as i64);
                    let written8: u64 = arrivals.iter().take(8).filter(|a| !a.3).map(|a| a.2).sum();
                    c.put("gaps", "written-by-8", (written8 >> 10) as i64);
                    // Places.
                    for (k, shift) in PLACES.into_iter().enumerate() {
                        let place = places[k].get(&(request.offset >> shift)).copied();
                        let group = if k < 2 { "place" } else { "region" };
                        let known = place.is_some();
                        let place = place.unwrap_or_default();
                        let ago =
                            |then: u64| if then == 0 { NONE.into() } else { ticks(now - then) };
                        c.put(group, format!("{shift}-latency"), ticks(place.latency));
                        c.put(group, format!("{shift}-mean"), place.mean as i64 >> 10);
                        c.put(group, format!("{shift}-count"), place.count.into());
                        let slow = f64::from(place.slow) + 1.0;
                        c.put(
                            group,
                            format!("{shift}-slow"),
                            (slow / (f64::from(place.count) + 2.0) * 1000.0) as i64,
                        );
                        c.put(group, format!("{shift}-sent-ago"), ago(place.sent));
                        c.put(group, format!("{shift}-done-ago"), ago(place.done));
                        c.put(group, format!("{shift}-written-ago"), ago(place.written));
                        c.put(group, format!("{shift}-in-flight"), place.inflight.into());
                        let since = if known { number - place.number } else { NONE as u64 };
                        c.put(group, format!("{shift}-requests-ago"), since as i64);
                    }
                    c.put("region", "offset-mib", (request.offset >> 20) as i64);
                    let page = read_page.get(&(request.offset >> 12)).copied();
                    c.put(
                        "region",
                        "reuse-pages",
                        page.map_or(NONE.into(), |then| (read_pages - then) as i64),
                    );
                    // A bucket of requests and bytes.
                    let kinds = [
                        "reads",
                        "kib-read",
                        "kib-written",
                        "done",
                        "kib-done",
                        "reads-done",
                        "latency",
                        "slow",
                    ];
                    for (k, kind) in kinds.into_iter().enumerate() {
                        for (f, span) in fading[k].iter().zip(SPANS) {
                            let value = f.get(now, span);
                            let group = if k < 5 { "bucket" } else { "slowness" };
                            if k < 6 {
                                c.put(
                                    group,
                                    format!("{kind}-{}ms", span / 1e6),
                                    (value * 16.0) as i64,
                                );
                            }
                        }
                    }
                    for (k, span) in SPANS.into_iter().enumerate() {
                        let count = fading[5][k].get(now, span).max(1e-9);
                        let mean = fading[6][k].get(now, span) / count;
                        let slow = fading[7][k].get(now, span) / count;
                        c.put("slowness", format!("mean-{}ms", span / 1e6), mean as i64);
                        c.put("slowness", format!("slow-{}ms", span / 1e6), (slow * 1000.0) as i64);
                    }
                    c.put("slowness", "since-slow", ticks(now - last_slow));
                    c.put("slowness", "run", slow_run.into());
                    c.put("slowness", "slow-since", ticks(now - slow_since));
                    c.put("slowness", "streak", (streak + 1000).max(0));
                    // What is in flight near it.
                    let end = request.offset + request.length;
                    let distance = |other: &Request| {
                        let other_end = other.offset + other.length;
                        if other.offset >= end {
                            other.offset - end
                        } else {
                            request.offset.saturating_sub(other_end)
                        }
                    };
                    let nearest = inflight
                        .iter()
                        .map(|&j| &recorded[j].request)
                        .min_by_key(|other| distance(other));
                    c.put(
                        "near",
                        "distance",
                        nearest.map_or(NONE.into(), |other| (distance(other) >> 10) as i64),
                    );
                    c.put("near", "age", nearest.map_or(0, |other| ticks(now - other.arrival.0)));
                    c.put("near", "is-read", nearest.map_or(2, |o| (o.op == Op::Read).into()));
                    let overlap: Vec<_> = inflight
                        .iter()
                        .map(|&j| &recorded[j].request)
                        .filter(|o| o.offset < end && request.offset < o.offset + o.length)
                        .collect();
                    c.put("near", "overlapping", overlap.len() as i64);
                    c.put(
                        "near",
                        "overlapping-age",
                        overlap.iter().map(|o| ticks(now - o.arrival.0)).max().unwrap_or(0),
                    );
                    c.put(
                        "near",
                        "overlapping-written",
                        overlap.iter().filter(|o| o.op == Op::Write).count() as i64,
                    );
                    let seq = arrivals.iter().take(32).position(|a| a.1 + a.2 == request.offset);
                    c.put("near", "follows", seq.map_or(99, |k| k as i64));
                    c.put("near", "jump", (request.offset.abs_diff(arrived(0).1) >> 10) as i64);
                    let stream = write_streams
                        .iter()
                        .map(|&(at, _)| at.abs_diff(request.offset))
                        .min()
                        .unwrap_or(u64::MAX >> 1);
                    c.put("near", "write-stream", (stream >> 10) as i64);
                    // Ages of what is in flight.
                    let mut ages: Vec<u64> = inflight
                        .iter()
                        .map(|&j| &recorded[j])
                        .filter(|r| r.is_read())
                        .map(|r| now - r.request.arrival.0)
                        .collect();
                    ages.sort_unstable_by(|a, b| b.cmp(a));
                    for k in [1, 2, 4, 8] {
                        c.put("ages", format!("age{k}"), ages.get(k).map_or(0, |&age| ticks(age)));
                    }
                    c.put("ages", "youngest", ages.last().map_or(0, |&age| ticks(age)));
                    for times in [0.5, 1.0, 2.0] {
                        let than = (limit.0 as f64 * times) as u64;
                        let count = ages.iter().filter(|&&age| age > than).count();
                        c.put("ages", format!("above-{times}"), count as i64);
                    }
                    let writes: Vec<_> = inflight
                        .iter()
                        .map(|&j| &recorded[j].request)
                        .filter(|r| r.op == Op::Write)
                        .collect();
                    c.put("ages", "writes", writes.len() as i64);
                    c.put(
                        "ages",
                        "oldest-write",
                        writes.iter().map(|w| ticks(now - w.arrival.0)).max().unwrap_or(0),
                    );
                    let large = inflight.iter().filter(|&&j| pages_of(&recorded[j].request) >= 16);
                    c.put("ages", "large", large.count() as i64);
                    // All units of its pieces.
                    for (f, function) in functions.iter().take(3).enumerate() {
                        let all = tracker.units(f);
                        let mine: Vec<_> = function
                            .pieces(request.offset, request.length)
                            .map(|unit| &all[usize::from(unit)])
                            .collect();
                        c.put("pieces", format!("count{f}"), mine.len() as i64);
                        c.put(
                            "pieces",
                            format!("reads{f}"),
                            mine.iter().map(|u| i64::from(u.reads)).sum(),
                        );
                        c.put(
                            "pieces",
                            format!("writes{f}"),
                            mine.iter().map(|u| i64::from(u.writes)).max().unwrap_or(0),
                        );
                        c.put(
                            "pieces",
                            format!("queue{f}"),
                            mine.iter()
                                .map(|u| (i64::from(u.reads) * i64::from(u.service_ns)) >> 10)
                                .max()
                                .unwrap_or(0),
                        );
                        c.put(
                            "pieces",
                            format!("age{f}"),
                            mine.iter()
                                .map(|u| i64::from(u.mean_age(request.arrival)))
                                .max()
                                .unwrap_or(0),
                        );
                        c.put(
                            "pieces",
                            format!("read-pages{f}"),
                            mine.iter().map(|u| i64::from(u.read_pages)).max().unwrap_or(0),
                        );
                        c.put(
                            "pieces",
                            format!("latency{f}"),
                            mine.iter().map(|u| i64::from(u.mean_latency)).max().unwrap_or(0),
                        );
                        c.put(
                            "pieces",
                            format!("done-ago{f}"),
                            mine.iter()
                                .map(|u| ticks(now.saturating_sub(u.last_done.0)))
                                .max()
                                .unwrap_or(0),
                        );
                        c.put(
                            "pieces",
                            format!("written-ago{f}"),
                            mine.iter()
                                .map(|u| i64::from(u.written_ago(tracker.state().written)))
                                .min()
                                .unwrap_or(0),
                        );
                    }
                    rows[i] = c.row;
                }
                queue_then[i] = inflight.len() as u32;
                tickets[i] = tracker.sent(request.arrival, request);
                inflight.push(i);
                arrivals.push_front((now, request.offset, request.length, is_read));
                arrivals.truncate(32);
                let kib = (request.length >> 10) as f64;
                for (k, span) in SPANS.into_iter().enumerate() {
                    fading[if is_read { 1 } else { 2 }][k].add(now, span, kib);
                    if is_read {
                        fading[0][k].add(now, span, 1.0);
                    }
                }
                if is_read {
                    read_pages += u64::from(pages_of(request));
                    read_page.insert(request.offset >> 12, read_pages);
                } else {
                    let end = request.offset + request.length;
                    match write_streams.iter_mut().find(|(at, _)| *at == request.offset) {
                        Some(stream) => *stream = (end, now),
                        None => write_streams.push_front((end, now)),
                    }
                    write_streams.truncate(8);
                }
                for (k, shift) in PLACES.into_iter().enumerate() {
                    let place = places[k].entry(request.offset >> shift).or_default();
                    place.sent = now;
                    place.number = number;
                    place.inflight += 1;
                    if !is_read {
                        place.written = now;
                    }
                }
            }
            Event::Completed(i) => {
                let one = &recorded[i];
                let (now, latency) = (one.complete.0, one.latency().0);
                inflight.retain(|&j| j != i);
                tracker.completed(one.complete, tickets[i], one.data);
                let is_slow = one.latency() > limit;
                let kib = (one.request.length >> 10) as f64;
                for (k, span) in SPANS.into_iter().enumerate() {
                    fading[3][k].add(now, span, 1.0);
                    fading[4][k].add(now, span, kib);
                    if one.is_read() {
                        fading[5][k].add(now, span, 1.0);
                        fading[6][k].add(now, span, (latency >> 10) as f64);
                        fading[7][k].add(now, span, if is_slow { 1.0 } else { 0.0 });
                    }
                }
                for (k, shift) in PLACES.into_iter().enumerate() {
                    let place = places[k].entry(one.request.offset >> shift).or_default();
                    place.inflight = place.inflight.saturating_sub(1);
                    if one.is_read() {
                        place.latency = latency;
                        place.mean += (latency as f64 - place.mean)
                            / if place.count == 0 { 1.0 } else { 4.0 };
                        place.count += 1;
                        place.slow += u32::from(is_slow);
                        place.done = now;
                    }
                }
                if one.is_read() {
                    done.push_front((now, latency, pages_of(&one.request), queue_then[i]));
                    done.truncate(16);
                    if is_slow {
                        if slow_run == 0 {
                            slow_since = now;
                        }
                        slow_run += 1;
                        last_slow = now;
                    } else {
                        slow_run = 0;
                    }
                    streak = (streak + if is_slow { 10 } else { -10 }).clamp(-1000, 1000);
                }
            }
        }
    }
    Samples { names, rows }
}
