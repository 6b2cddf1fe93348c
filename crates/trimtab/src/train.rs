//! `trimtab train`.

mod check;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use trimtab_io::Nanos;
use trimtab_predict::{LabelRule, PredictorKind, card_path};
use trimtab_report::{Facts, count};
use trimtab_train::label::{TimedReads, percentile_of};
use trimtab_train::{
    ModelFiles, Read, Recording, TrainingJob, TrainingOptions, TrainingResult, reads,
};

use crate::console;
use crate::exit::BadInput;
use crate::input::ReadArgs;
use crate::output::{must_be_a_file, must_not_replace};
use crate::progress::{Progress, during};
use crate::{duration, recordings, units};

const HELP: &str = "\
Examples:
  trimtab train --trace disk.parquet --predictor trimtab -o disk.safetensors
  trimtab train --trace disk.parquet --failover 80us -o disk.safetensors
  trimtab train --trace disk.parquet --predictor linnos --label inflection -o l.safetensors
  trimtab train --trace today.parquet --check disk.safetensors

The model's card, a JSON file, is written beside it: what it was trained on, and for what.
Where no read is slow by the label, the model never refuses, and the card has the reason.

--check compares the model's forecasts with what came of them, in blocks of 50 reads, and
these with the blocks of its training. It needs 1,000 reads; of the recording's drive it knows
no more than the recording tells, so drives of one type under a like load are alike to it.";

/// The predictor, and the recording to train it on.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A recording of the drive, with latencies.
    #[arg(long, value_name = "TRACE")]
    trace: PathBuf,
    /// The drive to use, of a recording of several.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// What to train: trimtab, linnos, heur-sim, heur-adv.
    #[arg(long, value_name = "PREDICTOR", default_value = "trimtab")]
    predictor: PredictorKind,
    /// What is slow: cost, knee, inflection, relative, p95, p99. By `cost` it is what refusing
    /// gains from: what another replica would serve sooner, the failover included, as far as it
    /// can be predicted.
    #[arg(long, value_name = "LABEL", default_value = "cost")]
    label: LabelRule,
    /// The time that your application takes to go to another replica after a refusal, for the
    /// label `cost` [default: 9us, which LinnOS (OSDI'20, §5.1) states; over a network it is a
    /// round trip more].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "check")]
    failover: Option<Nanos>,
    /// Recordings of the other drives, for the labels `cost` and `inflection`. All their drives
    /// are used but the one being trained for. Without them the recording is its own peer.
    #[arg(long = "peer", value_name = "TRACE")]
    peers: Vec<PathBuf>,
    /// Train on the first part of the reads only, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    first: f64,
    /// The most reads to train on; earlier ones are left out.
    #[arg(long, value_name = "N", default_value_t = TrainingOptions::default().samples)]
    samples: usize,
    /// Additional samples for trimtab, as a share of the reads, from histories in which other
    /// reads went to other drives. They help when reads are steered by the model; with 0 it
    /// fits the recording best.
    #[arg(long, value_name = "SHARE", default_value_t = TrainingOptions::default().steered)]
    steered: f64,
    /// The seed of random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Let the model apply to any drive: its card omits the identity of the recorded one.
    /// Otherwise a drive with another identity is read without a forecast.
    #[arg(long, conflicts_with = "check")]
    any_drive: bool,
    /// The model to write; its card is written beside it, ending in .json.
    #[arg(short = 'o', long = "out", value_name = "MODEL", required_unless_present = "check")]
    out: Option<PathBuf>,
    /// Train nothing: test whether this model fits the recording, or should be trained again.
    /// The exit code is 0 if it fits, 1 if not.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["out", "predictor", "label"])]
    check: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    /// Print JSON: the model's card, or with --check the result of the check.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    args.check_options()?;
    // Before minutes of reading: the output may be unwritable.
    let files = args.out.as_deref().map(|out| args.create(out)).transpose()?;
    let device = args.device.as_deref();
    let (recording, mut skipped) = recordings::read(&args.trace, device, &args.read)?;
    let mut peers = Vec::new();
    for path in &args.peers {
        let (others, bad) = recordings::read_peers(path, &args.trace, device, &args.read)?;
        skipped.add(bad);
        peers.extend(others);
    }
    let timed = recording.on_its_clock(&peers);
    let peers: Vec<_> = peers.iter().map(Recording::read_latencies).collect();
    let peers: Vec<&[Nanos]> = peers.iter().map(Vec::as_slice).collect();
    let all = reads(&recording.recorded);
    let past = &all[..(all.len() as f64 * args.first) as usize];
    match (&args.check, args.out.as_deref().zip(files)) {
        (Some(model), _) => {
            let unfit = check::run(model, &recording, past, &peers, args.json)?;
            // Records that were skipped are the lesser complaint.
            unfit.map_or(Ok(()), |unfit| Err(anyhow::anyhow!(unfit)))?;
        }
        (None, Some((out, files))) => args.train(out, files, &recording, past, &peers, &timed)?,
        (None, None) => unreachable!("the parser requires one of them"),
    }
    skipped.into_result()
}

impl Args {
    fn check_options(&self) -> Result<(), BadInput> {
        let (first, steered) = (self.first, self.steered);
        if !(first > 0.0 && first <= 1.0) {
            return Err(BadInput(format!("--first {first}: expected a share above 0, up to 1")));
        }
        if !(0.0..=1.0).contains(&steered) {
            return Err(BadInput(format!("--steered must be from 0 to 1, not {steered}")));
        }
        if self.failover.is_some() && self.label != LabelRule::Cost {
            let label = self.label.name();
            let why = format!("--failover is for the label `cost`; `{label}` does not ask for it");
            return Err(BadInput(why));
        }
        Ok(())
    }

    /// Creates the model's files.
    fn create(&self, out: &Path) -> Result<ModelFiles> {
        must_be_a_file(out)?;
        if card_path(out) == out {
            let text =
                format!("{}: .json is the card's ending, give the model another", out.display());
            return Err(BadInput(text).into());
        }
        let inputs: Vec<&Path> =
            self.peers.iter().chain([&self.trace]).map(PathBuf::as_path).collect();
        must_not_replace(out, &inputs)?;
        must_not_replace(&card_path(out), &inputs)?;
        Ok(ModelFiles::create(out)?)
    }

    fn train(
        &self,
        out: &Path,
        files: ModelFiles,
        recording: &Recording,
        past: &[Read],
        peers: &[&[Nanos]],
        timed: &[TimedReads],
    ) -> Result<()> {
        let (samples, seed, steered) = (self.samples, self.seed, self.steered);
        let plain = TrainingOptions::default();
        let failover = self.failover.unwrap_or(plain.failover);
        let name = self.predictor.name();
        let job = TrainingJob {
            kind: self.predictor,
            rule: self.label,
            name: &recording.name,
            recorded: &recording.recorded,
            past,
            peers,
            timed,
            options: &TrainingOptions { samples, seed, steered, failover, ..plain },
        };
        let mut progress = Progress::new();
        let result = during(&format!("training {name}"), || {
            job.run(|step, steps| {
                progress.show(|_| format!("training {name}: {step} of {steps}"));
            })
        });
        drop(progress);
        let TrainingResult { mut model, latencies } = result?;
        model.card.drive = recording.drive.clone().filter(|_| !self.any_drive);
        let card = files.commit(&model)?;
        if self.json {
            return Ok(write!(console::out(true), "{card}")?);
        }
        let mut facts = Facts::new();
        let rule = self.label.name();
        facts.add("model", out.display().to_string());
        facts.add("predictor", name);
        let training = &model.card.training;
        let reads = count(training.reads as u64);
        facts.add("trained on", format!("{reads} reads of {}", recording.name));
        let slow = match model.card.label.threshold() {
            Some(threshold) => format!(
                "{:.1}% of them, by {rule}: beyond {} (p{:.1})",
                100.0 * training.slow as f64 / past.len() as f64,
                units::long(threshold),
                percentile_of(&latencies, threshold),
            ),
            None => {
                let reason = model.card.label.never().unwrap_or_default();
                format!("none of them, by {rule}; the model never refuses: {reason}")
            }
        };
        facts.add("slow", slow);
        if let Some(cost) = training.cost {
            let time = |ns: f64| Nanos(ns.max(0.0) as u64).to_string();
            facts.add(
                "refusing gains",
                format!(
                    "{} a read of {} at most, if another replica has the data after {}",
                    time(cost.gain),
                    time(cost.most),
                    cost.break_even,
                ),
            );
        }
        writeln!(console::out(false), "{facts}")?;
        Ok(())
    }
}
