//! `trimtab evaluate`.

mod page;
mod predictions;
mod queue_model;
mod summary;
mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use trimtab_device::DiskProfile;
use trimtab_io::Nanos;
use trimtab_learn::Simd;
use trimtab_predict::{Label, LabelRule, card_path, fingerprint};
use trimtab_report::machine;
use trimtab_train::{
    Evaluation, EvaluationStep, PretrainedModel, Protocol, Recording, TrainingOptions,
};

use self::predictions::Predictions;
use self::summary::{LabelSummary, PredictorSummary, Summary};
use crate::input::{ReadArgs, Skipped};
use crate::json::Json;
use crate::models;
use crate::output::Report;
use crate::progress::{Stage, during, in_stages};
use crate::recordings;
use crate::{console, duration};

const HELP: &str = "\
Examples:
  trimtab evaluate --trace disk.parquet
  trimtab evaluate --trace disk.parquet --report scores.html
  trimtab evaluate --trace disk.parquet --label relative --json scores.json
  trimtab evaluate --trace a.csv --trace b.csv --protocol leave-one-out
  trimtab evaluate --trace today.parquet --model disk.safetensors
  trimtab evaluate --trace disk.parquet --predictions forecasts.parquet
  trimtab evaluate --trace disk.parquet --disk disk-7200

Protocols:
  time-forward   trained on the first half of the reads, evaluated on the second
  leave-one-out  evaluated on each recording in turn, trained on all the others
  leaky          trained on a random half of the reads: neighbours in time are on
                 both sides, which overestimates every predictor; to compare with
                 publications that do so

Nothing is filtered out, and no predictor sees a latency before its read has
completed. The label `knee` is found in the whole recording, reads and writes
together. All other labels come from the reads trained on.

A model is evaluated on all reads of a recording; if it was trained on the same
recording, on those sent after the last read that it was trained on. Models of
different labels are each evaluated by their own; `--label knee` compares them.

--predictions writes a row for each read evaluated on and each predictor, so that
other tools can compute the same figures; docs/predictors.md has the columns.";

/// The recordings and the predictors.
///
/// Without models, every predictor is trained on the recording itself.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A recording, with latencies. Several are evaluated in turn.
    #[arg(long = "trace", value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// The drive to use, of a recording of several.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// A model to evaluate, instead of training any; several are evaluated on the
    /// same reads.
    #[arg(long = "model", value_name = "MODEL", conflicts_with_all = ["protocol", "peers", "seed"])]
    models: Vec<PathBuf>,
    /// What is slow: cost, knee, inflection, relative, p95, p99 [default: cost; for each model
    /// what it was trained on].
    #[arg(long, value_name = "LABEL")]
    label: Option<LabelRule>,
    /// The time that going to another replica takes, for the label `cost` [default: 9us, which
    /// LinnOS (OSDI'20, §5.1) states].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "models")]
    failover: Option<Nanos>,
    /// Which reads are trained on, and which are evaluated on: time-forward, leave-one-out,
    /// leaky.
    #[arg(long, value_name = "PROTOCOL", default_value = "time-forward")]
    protocol: Protocol,
    /// The disk that was recorded, by a profile's name or file (`trimtab profile list`, `trimtab
    /// profile fit --disk`): evaluates the queue model `mitt-noop` too, which needs no training.
    #[arg(long, value_name = "PROFILE")]
    disk: Option<String>,
    /// Recordings of the other drives, for the labels `cost` and `inflection`; without them
    /// the recording is its own peer.
    #[arg(long = "peer", value_name = "TRACE")]
    peers: Vec<PathBuf>,
    /// The seed of training's random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Decide with these vector instructions only, to measure how long it takes on another
    /// processor: scalar, avx2, avx512, avx512-vnni [default: the best that this one has].
    #[arg(long, value_name = "LEVEL", value_parser = simd)]
    simd: Option<Simd>,
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
    /// Write every forecast and its outcome as Parquet: a row for each read and
    /// predictor.
    #[arg(long, value_name = "OUT")]
    predictions: Option<PathBuf>,
}

/// Vector instructions that the processor has, by name.
fn simd(name: &str) -> Result<Simd, String> {
    let known: Vec<&str> = Simd::all().map(Simd::name).collect();
    let unknown = || format!("this processor has {}", known.join(", "));
    Simd::all().find(|simd| simd.name() == name).ok_or_else(unknown)
}

pub(crate) fn run(args: Args) -> Result<()> {
    if let Some(simd) = args.simd {
        // Nothing has been decided before.
        simd.limit();
    }
    let cards: Vec<PathBuf> = args.models.iter().map(|model| card_path(model)).collect();
    let inputs: Vec<&Path> = [&args.traces, &args.peers, &args.models, &cards]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let json = args.json.as_deref().map(|out| Json::create(out, &inputs)).transpose()?;
    let report = args.report.as_deref().map(|out| Report::create(out, &inputs)).transpose()?;
    let predictions = args.predictions.as_deref();
    let mut predictions = predictions.map(|out| Predictions::create(out, &inputs)).transpose()?;
    let (input, skipped) = args.load()?;
    let summaries = (0..input.recordings.len())
        .map(|index| args.evaluate(&input, index, predictions.as_mut()))
        .collect::<Result<Vec<Summary>>>()?;
    if let Some(report) = report {
        report.write(&page::page(&summaries))?;
    }
    if let Some(predictions) = predictions {
        predictions.finish()?;
    }
    let on_standard_output = matches!(json, Some(Json::StandardOutput));
    match (json, &summaries[..]) {
        (None, _) => {}
        (Some(json), [only]) => json.write(only)?,
        (Some(json), several) => json.write(&several)?,
    }
    if !on_standard_output {
        let mut out = console::out(false);
        for summary in &summaries {
            out.write_all(table::text(summary).as_bytes())?;
        }
        out.flush()?;
    }
    skipped.into_result()
}

/// The inputs of an evaluation.
struct Input {
    models: Vec<PretrainedModel>,
    disk: Option<DiskProfile>,
    recordings: Vec<Recording>,
    peers: Vec<Recording>,
}

impl Args {
    fn load(&self) -> Result<(Input, Skipped)> {
        let model = |path: &PathBuf| -> Result<PretrainedModel> {
            Ok(PretrainedModel { file: path.display().to_string(), model: models::load(path)? })
        };
        let models = self.models.iter().map(model).collect::<Result<_>>()?;
        let mut skipped = Skipped::default();
        let device = self.device.as_deref();
        let disk = self.disk.as_deref().map(queue_model::disk).transpose()?;
        let mut input = Input { models, disk, recordings: Vec::new(), peers: Vec::new() };
        for path in &self.traces {
            let (recording, bad) = recordings::read(path, device, &self.read)?;
            skipped.add(bad);
            if let Some(disk) = &input.disk {
                queue_model::must_hold(disk, &recording)?;
            }
            input.recordings.push(recording);
        }
        for path in &self.peers {
            let (others, bad) = recordings::read_peers(path, &self.traces[0], device, &self.read)?;
            skipped.add(bad);
            input.peers.extend(others);
        }
        Ok((input, skipped))
    }

    /// Evaluates on the recording of this index.
    fn evaluate(
        &self,
        input: &Input,
        index: usize,
        predictions: Option<&mut Predictions>,
    ) -> Result<Summary> {
        let Input { models, disk, recordings, peers } = input;
        let recording = &recordings[index];
        let failover = self.failover.unwrap_or(TrainingOptions::default().failover);
        let (protocol, evaluation) = if models.is_empty() {
            let rule = self.label.unwrap_or_default();
            let evaluation = during("finding the label", || {
                Evaluation::by_protocol(self.protocol, rule, recordings, index, peers, failover)
            })?;
            (self.protocol, evaluation)
        } else {
            (Protocol::Models, Evaluation::of_models(models, self.label, recording)?)
        };
        let mut evaluated =
            in_stages("evaluating", |stage| evaluation.run(self.seed, |step| show(stage, step)))?;
        if let Some(disk) = disk {
            let model = queue_model::mitt_noop(disk, evaluation.label_of(0));
            evaluated.push(evaluation.of_predictor(model));
        }
        let print = fingerprint(&recording.recorded);
        let origins = models.iter().map(|model| Some(model.origin(&print)));
        let origins = origins.chain(std::iter::repeat_with(|| None));
        if let Some(predictions) = predictions {
            predictions.write(recording, &evaluation, &evaluated, models)?;
        }
        // By the rule that was asked for, or that of the model of this number.
        let summary = |number: usize, label: &Label| {
            let of_model = models.get(number).map(|one| one.model.card.rule);
            let rule = self.label.or(of_model).unwrap_or_default();
            LabelSummary {
                rule,
                slow_share: evaluation.slow_share(label),
                own_peer: models.is_empty()
                    && matches!(rule, LabelRule::Cost | LabelRule::Inflection)
                    && peers.is_empty(),
                label: label.clone(),
            }
        };
        Ok(Summary {
            trimtab: env!("CARGO_PKG_VERSION"),
            machine: machine(),
            trace: recording.name.clone(),
            protocol,
            leaky: protocol == Protocol::Leaky,
            seed: models.is_empty().then_some(self.seed),
            label: evaluation.label().map(|label| summary(0, label)),
            reads_trained_on: evaluation.trained_on(),
            reads_scored: evaluation.reads().len(),
            requests_without_latency: recording.unanswered,
            predictors: evaluated
                .into_iter()
                .zip(origins)
                .enumerate()
                .map(|(number, (evaluated, model))| PredictorSummary {
                    score: evaluated.score,
                    model,
                    label: evaluation
                        .label()
                        .is_none()
                        .then(|| summary(number, evaluation.label_of(number))),
                    importance: evaluated.importance,
                })
                .collect(),
        })
    }
}

/// Shows the current step of an evaluation.
fn show(stage: &Stage, step: EvaluationStep<'_>) {
    stage.set(match step {
        EvaluationStep::Training { kind, step: 0, .. } => format!("training {}", kind.name()),
        EvaluationStep::Training { kind, step, steps } => {
            format!("training {}: {step} of {steps}", kind.name())
        }
        EvaluationStep::Scoring(name) => format!("scoring {name}"),
    });
}
