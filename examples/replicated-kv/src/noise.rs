//! Other writes to the drives: what makes a flash drive clean blocks, and reads wait.
//!
//! Each drive has its own bursts, at times that follow from the seed. Direct I/O, so
//! that the drive has the writes when they are made.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::value::mix;

/// Bytes of a write.
const WRITE: usize = 64 << 10;

/// How long bursts are, and what is between them; means of exponential times.
const BURST: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(800);

/// Memory that direct I/O accepts.
#[repr(align(4096))]
struct Aligned([u8; WRITE]);

/// The writers. Dropping it ends them.
pub(crate) struct Noise {
    end: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    writers: Vec<JoinHandle<io::Result<()>>>,
}

fn open(directory: &Path) -> Result<File> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let path = directory.join("other");
    let mut options = File::options();
    let file = options.create(true).write(true).truncate(false).custom_flags(O_DIRECT).open(&path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

/// Lays out the file that is written to, so that later writes are to its data alone.
///
/// # Errors
/// It cannot be written; or `go_on` says so.
pub(crate) fn lay_out(directory: &Path, bytes: u64, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
    let (file, block) = (open(directory)?, boxed());
    for number in 0..bytes / WRITE as u64 {
        go_on()?;
        let done = file.write_all_at(&block.0, number * WRITE as u64);
        done.with_context(|| format!("cannot write to {}", directory.display()))?;
    }
    Ok(file.sync_all()?)
}

fn boxed() -> Box<Aligned> {
    Box::new(Aligned([0x5a; WRITE]))
}

impl Noise {
    /// Begins to write to these drives, in bursts of so many bytes a second.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub(crate) fn begin<'a>(
        directories: impl Iterator<Item = &'a Path>,
        bytes_per_second: u64,
        seed: u64,
    ) -> Result<Self> {
        let (end, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut noise = Self { end, written, writers: Vec::new() };
        if bytes_per_second == 0 {
            return Ok(noise);
        }
        let gap = Duration::from_secs_f64(WRITE as f64 / bytes_per_second as f64);
        for (directory, number) in directories.zip(1..) {
            let file = open(directory)?;
            let blocks = file.metadata()?.len() / WRITE as u64;
            let random = Pcg64::seed_from_u64(mix(seed) ^ number);
            let (end, written) = (Arc::clone(&noise.end), Arc::clone(&noise.written));
            let write = move || write(&file, blocks, gap, random, &end, &written);
            let writer = std::thread::Builder::new().name("other".to_owned()).spawn(write)?;
            noise.writers.push(writer);
        }
        Ok(noise)
    }

    /// Ends it; how many bytes were written.
    ///
    /// # Errors
    /// A write failed.
    pub(crate) fn end(mut self) -> Result<u64> {
        self.end.store(true, Relaxed);
        for writer in self.writers.drain(..) {
            let done = writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?;
            done.context("cannot write beside the stores")?;
        }
        Ok(self.written.load(Relaxed))
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.end.store(true, Relaxed);
        for writer in self.writers.drain(..) {
            _ = writer.join();
        }
    }
}

fn write(
    file: &File,
    blocks: u64,
    gap: Duration,
    mut random: Pcg64,
    end: &AtomicBool,
    written: &AtomicU64,
) -> io::Result<()> {
    let block = boxed();
    let mut next = Instant::now() + about(PAUSE, &mut random);
    while !end.load(Relaxed) {
        let burst_ends = next + about(BURST, &mut random);
        while next < burst_ends && !end.load(Relaxed) {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let place = random.random_range(0..blocks) * WRITE as u64;
            file.write_all_at(&block.0, place)?;
            written.fetch_add(WRITE as u64, Relaxed);
            next += gap;
        }
        next = burst_ends + about(PAUSE, &mut random);
        while Instant::now() < next && !end.load(Relaxed) {
            let left = next.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
    Ok(())
}

/// An exponential time with this mean.
fn about(mean: Duration, random: &mut Pcg64) -> Duration {
    mean.mul_f64(-(1.0 - random.random::<f64>()).ln())
}
