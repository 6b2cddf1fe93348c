//! `trimtab evaluate`.

mod models;
mod page;
mod protocol;
mod table;

pub(crate) use table::drift;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use trimtab_predict::{Importance, Label, Rule, Score, card_path, fingerprint};
use trimtab_report::machine;

use crate::console;
use crate::input::{ReadArgs, Skipped};
use crate::json::Json;
use crate::learning::Recording;
use crate::output::Report;
use crate::progress::during;
use models::{Judge, ToldModel};
use protocol::{Judged, Protocol};

const HELP: &str = "\
Examples:
  trimtab evaluate --trace disk.parquet
  trimtab evaluate --trace disk.parquet --report scores.html
  trimtab evaluate --trace disk.parquet --label relative --json scores.json
  trimtab evaluate --trace a.csv --trace b.csv --protocol leave-one-out
  trimtab evaluate --trace today.parquet --model disk.safetensors

Protocols:
  time-forward   trained on the first half of the reads, judged by the second
  leave-one-out  judged by each recording in turn, trained on all the others
  leaky          trained on half of the reads at random: neighbours in time stand
                 on both sides, which flatters every predictor; to compare with
                 publications that do so

Nothing is filtered out, and no predictor sees a latency before its read was
answered. The label `knee` is the judge's: it is found in the whole recording,
reads and writes together. All other labels come from the reads trained on.

A model is judged by all reads of a recording; if it was trained on that very
recording, by what was sent after the last read that it was trained on.";

/// What to judge.
///
/// Without models every predictor is trained on the recording itself.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A recording, with latencies. Several are judged one after the other.
    #[arg(long = "trace", value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Which drive of a recording that is of several.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// A model to judge, instead of training any; of several, all are judged by
    /// the same reads.
    #[arg(long = "model", value_name = "MODEL", conflicts_with_all = ["protocol", "peers", "seed"])]
    models: Vec<PathBuf>,
    /// What is slow: knee, inflection, relative, p95, p99.
    #[arg(long, value_name = "LABEL", default_value = "knee")]
    label: Rule,
    /// What is trained on, and what is judged by: time-forward, leave-one-out,
    /// leaky.
    #[arg(long, value_name = "PROTOCOL", default_value = "time-forward")]
    protocol: Protocol,
    /// Recordings of the other drives, for the label `inflection`; without them
    /// the recording is its own peer.
    #[arg(long = "peer", value_name = "TRACE")]
    peers: Vec<PathBuf>,
    /// From which training's random numbers come.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    read: ReadArgs,
    /// Write the scores as JSON; without a name to standard output, in place of
    /// the table.
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write a page with the table and plots: a single HTML file that needs no
    /// network.
    #[arg(long, value_name = "OUT")]
    report: Option<PathBuf>,
}

/// All that is reported of a recording.
#[derive(Debug, Serialize)]
struct Told {
    trimtab: &'static str,
    machine: String,
    trace: String,
    protocol: Protocol,
    /// The protocol lets the past know of the future.
    leaky: bool,
    /// Of the training; a model's is in its card.
    seed: Option<u64>,
    label: ToldLabel,
    /// `null` if models were given, each of which knows its own.
    reads_trained_on: Option<usize>,
    reads_judged: usize,
    requests_without_latency: u64,
    predictors: Vec<ToldScore>,
}

#[derive(Debug, Serialize)]
struct ToldScore {
    #[serde(flatten)]
    score: Score,
    /// The model it is of, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ToldModel>,
    /// What each number is worth to it, if it is ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    importance: Vec<Importance>,
}

impl ToldScore {
    /// What tables and legends call it.
    fn name(&self) -> String {
        let name = self.score.predictor;
        self.model.as_ref().map_or_else(|| name.into(), |m| format!("{name} ({})", m.name()))
    }
}

#[derive(Debug, Serialize)]
struct ToldLabel {
    rule: Rule,
    #[serde(flatten)]
    label: Label,
    /// The share of the reads judged by that was slow.
    slow_share: f64,
    /// Whether the recording stood in for its peers.
    own_peer: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let cards: Vec<PathBuf> = args.models.iter().map(|model| card_path(model)).collect();
    let inputs: Vec<&Path> = [&args.traces, &args.peers, &args.models, &cards]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let json = args.json.as_deref().map(|out| Json::create(out, &inputs)).transpose()?;
    let report = args.report.as_deref().map(|out| Report::create(out, &inputs)).transpose()?;
    let models = Judge::load(&args.models)?;
    let mut skipped = Skipped::default();
    let mut load = |paths: &[PathBuf]| -> Result<Vec<Recording>> {
        let one = |path: &PathBuf| {
            let (recording, bad) = Recording::read(path, args.device.as_deref(), &args.read)?;
            skipped.add(bad);
            Ok(recording)
        };
        paths.iter().map(one).collect()
    };
    let recordings = load(&args.traces)?;
    let mut peers = Vec::new();
    for path in &args.peers {
        let of = &args.traces[0];
        let (others, bad) = Recording::read_peers(path, of, args.device.as_deref(), &args.read)?;
        skipped.add(bad);
        peers.extend(others);
    }
    let told = (0..recordings.len())
        .map(|number| args.judge(&recordings, number, &peers, &models))
        .collect::<Result<Vec<Told>>>()?;
    if let Some(report) = report {
        report.write(&page::page(&told))?;
    }
    let on_standard_output = matches!(json, Some(Json::StandardOutput));
    match (json, &told[..]) {
        (None, _) => {}
        (Some(json), [only]) => json.write(only)?,
        (Some(json), several) => json.write(&several)?,
    }
    if !on_standard_output {
        let mut out = console::out(false);
        for told in &told {
            out.write_all(table::text(told).as_bytes())?;
        }
        out.flush()?;
    }
    skipped.into_result()
}

impl Args {
    /// Judges by the recording with this number.
    fn judge(
        &self,
        recordings: &[Recording],
        number: usize,
        peers: &[Recording],
        models: &[Judge],
    ) -> Result<Told> {
        let recording = &recordings[number];
        let (protocol, judged) = if models.is_empty() {
            let judged = during("finding what is slow", || {
                Judged::new(self.protocol, self.label, recordings, number, peers)
            })?;
            (self.protocol, judged)
        } else {
            (Protocol::Models, Judged::by_models(models, self.label, recording)?)
        };
        let print = fingerprint(&recording.recorded);
        let told = models.iter().map(|judge| Some(judge.told(&print)));
        let told = told.chain(std::iter::repeat_with(|| None));
        let scores = judged.scores(self.seed)?.into_iter().zip(told);
        Ok(Told {
            trimtab: env!("CARGO_PKG_VERSION"),
            machine: machine(),
            trace: recording.file.clone(),
            protocol,
            leaky: protocol == Protocol::Leaky,
            seed: models.is_empty().then_some(self.seed),
            label: ToldLabel {
                rule: self.label,
                slow_share: judged.slow_share(),
                own_peer: models.is_empty() && self.label == Rule::Inflection && peers.is_empty(),
                label: judged.label().clone(),
            },
            reads_trained_on: judged.trained_on(),
            reads_judged: judged.reads().len(),
            requests_without_latency: recording.unanswered,
            predictors: scores
                .map(|((score, importance), model)| ToldScore { score, model, importance })
                .collect(),
        })
    }
}
