//! How often is the check of a model's fit wrong? A model is trained on the first half of each
//! recording, and tested on pieces: those of the second half of its own recording, which it should
//! fit, and those of all others, which it should not. Names are in the output, since recordings of
//! one drive under one load are alike.
//!
//! ```console
//! $ cargo run --release -p trimtab-train --example check_rates 1000,4000 nvme-a.csv disk.parquet
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trimtab_predict::{LabelRule, Model, PredictorKind, Recorded};
use trimtab_trace::{TraceOptions, with_trace};
use trimtab_train::{FitCheck, Read, Recording, TrainingJob, TrainingOptions, reads};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let lengths = arguments.next().ok_or("give lengths of pieces in reads, and recordings")?;
    let lengths = lengths.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let all = arguments.map(|path| drive(Path::new(&path))).collect::<Result<Vec<_>, _>>()?;
    let mut out = io::stdout();
    for length in lengths {
        // (own or other) → (pieces, unfit)
        let mut totals = BTreeMap::<bool, (usize, usize)>::new();
        for trained in &all {
            let mut line = format!("{length} reads, model of {}:", trained.name);
            for tested in &all {
                let own = std::ptr::eq(trained, tested);
                let from = if own { tested.reads.len() / 2 } else { 0 };
                let mut found = (0, 0);
                for piece in tested.reads[from..].chunks_exact(length) {
                    found.0 += 1;
                    found.1 += usize::from(!fits(&trained.model, &tested.recorded, piece)?);
                }
                let total = totals.entry(own).or_default();
                *total = (total.0 + found.0, total.1 + found.1);
                line += &format!(
                    " {}{} {}/{}",
                    if own { "*" } else { "" },
                    tested.name,
                    found.1,
                    found.0
                );
            }
            writeln!(out, "{line} unfit")?;
        }
        for (own, (pieces, unfit)) in totals {
            let (wrong, which) = match own {
                true => (unfit, "own recording, called unfit"),
                false => (pieces - unfit, "other recordings, called fit"),
            };
            let percent = 100.0 * wrong as f64 / pieces.max(1) as f64;
            writeln!(out, "{length} reads, {which}: {wrong} of {pieces} pieces ({percent:.1}%)")?;
        }
    }
    Ok(())
}

struct Drive {
    name: String,
    recorded: Vec<Recorded>,
    reads: Vec<Read>,
    model: Model,
}

fn drive(path: &Path) -> Result<Drive, Box<dyn Error>> {
    let (records, names, meta) =
        with_trace(&[PathBuf::from(path)], &TraceOptions::default(), |trace| {
            let (mut all, mut batch) = (Vec::new(), Vec::new());
            while trace.read(&mut batch)? {
                all.extend_from_slice(&batch);
            }
            Ok((all, trace.names().clone(), trace.meta().clone()))
        })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let recording = Recording::pick(Recording::of_drives(&name, records, &names, &meta)?, None)?;
    let reads = reads(&recording.recorded);
    let job = TrainingJob {
        kind: PredictorKind::Trimtab,
        rule: LabelRule::default(),
        name: &name,
        recorded: &recording.recorded,
        past: &reads[..reads.len() / 2],
        peers: &[],
        timed: &[],
        options: &TrainingOptions::default(),
    };
    let model = job.run(|_, _| {})?.model;
    Ok(Drive { name, recorded: recording.recorded, reads, model })
}

/// Tests a piece as a recording of its own: nothing before it is known.
fn fits(model: &Model, recorded: &[Recorded], piece: &[Read]) -> Result<bool, Box<dyn Error>> {
    let (first, last) = (piece[0].index, piece[piece.len() - 1].index);
    let recorded = &recorded[first..=last];
    let found = FitCheck::of(model, recorded, &reads(recorded)).ok_or("no reference")?;
    Ok(found.fits())
}
