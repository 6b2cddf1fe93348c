//! From what drives do to models of them: recorded by the kernel, learnt here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_predict::{LabelRule, Model, PredictorKind, Recorded};
use trimtab_record::{Error, Recorder, RecorderOptions};
use trimtab_train::label::TimedReads;
use trimtab_train::{Read, TrainingJob, TrainingOptions, latencies, reads, recorded};

/// How long the recorder waits for the last answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the ring of events is emptied.
const POLL: Duration = Duration::from_millis(20);

/// Records what the drives are asked while `work` is done, and what comes of that.
///
/// # Errors
/// The kernel cannot record.
pub(crate) fn record<T: Send>(
    devices: &[BlockDevice],
    work: impl FnOnce() -> T + Send,
) -> Result<(Vec<Vec<Recorded>>, T)> {
    let mut recording = Recorder::load(devices, &RecorderOptions::default())?.start();
    let mut records = Vec::new();
    let done = std::thread::scope(|scope| {
        let works = scope.spawn(work);
        while !works.is_finished() {
            recording.poll(&mut records)?;
            std::thread::sleep(POLL);
        }
        Ok::<_, Error>(works.join())
    })?;
    let done = done.map_err(|_| anyhow::anyhow!("what was recorded panicked"))?;
    let outcome = recording.stop(PATIENCE, |rest, _| {
        records.extend_from_slice(rest);
        Ok::<_, Error>(())
    })?;
    let of = |device: &BlockDevice| {
        let id = outcome.names.find_device(&device.name);
        let own = records.iter().filter(|record| Some(record.device) == id);
        own.enumerate().filter_map(|(index, record)| recorded(record, index)).collect()
    };
    Ok((devices.iter().map(of).collect(), done))
}

/// Trains a model for each drive. Late is what another drive would answer sooner; where nothing
/// is, the model never refuses.
///
/// # Errors
/// There is too little to learn from.
pub(crate) fn models(recordings: &[Vec<Recorded>], seed: u64) -> Result<Vec<Arc<Model>>> {
    let all: Vec<Vec<Read>> = recordings.iter().map(|recorded| reads(recorded)).collect();
    let latencies: Vec<Vec<Nanos>> = all.iter().map(|reads| latencies(reads)).collect();
    let options = TrainingOptions { seed, ..TrainingOptions::default() };
    let model = |(drive, recorded): (usize, &Vec<Recorded>)| {
        let peers = latencies.iter().enumerate().filter(|(peer, _)| *peer != drive);
        let peers: Vec<&[Nanos]> = peers.map(|(_, latencies)| &**latencies).collect();
        // They were recorded at the same time.
        let others = recordings.iter().enumerate().filter(|(peer, _)| *peer != drive);
        let timed: Vec<_> = others.map(|(_, recorded)| TimedReads::of(recorded)).collect();
        let job = TrainingJob {
            kind: PredictorKind::Trimtab,
            rule: LabelRule::Cost,
            name: "replicated-kv",
            recorded,
            past: &all[drive],
            peers: &peers,
            timed: &timed,
            options: &options,
        };
        let result = job.run(|_, _| {});
        Ok(Arc::new(result.with_context(|| format!("cannot train on drive {drive}"))?.model))
    };
    recordings.iter().enumerate().map(model).collect()
}
