//! Files or devices of the user.

use std::fmt::Display;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use trimtab_block::claim::{Claim, Identity};
use trimtab_io::{DeviceId, Op};
use trimtab_steer::driver::{ArrayIo, RunOptions};
use trimtab_steer::strategies;
use trimtab_trace::Record;
use trimtab_uring::{Disk, UringOptions};

use super::ShouldStop;
use super::error::Error;
use super::notes::{Notes, PHASE_ONE};
use super::serve::{Meter, measure_row, open_direct, serve};
use crate::error::TestbedError;
use crate::recording::recording;
use crate::spec::Comparison;
use crate::testbed::{Row, Served, Testbed};

/// Files or devices, one for each drive of the scenario.
pub struct Files {
    disks: Vec<Disk>,
    /// Exclusive claims on them while they are written to.
    _claims: Vec<Claim>,
    /// Whether writes are served too.
    writes: bool,
    notes: Notes,
    should_stop: ShouldStop,
}

impl Files {
    /// Opens them, and limits the workloads to the smallest of them. Without `destroys`
    /// nothing is written to them; with it their content may be lost, and they must not be in
    /// use.
    ///
    /// # Errors
    /// There are not as many as the scenario has devices, or one cannot be used.
    pub fn new(
        paths: &[PathBuf],
        destroys: bool,
        comparison: &mut Comparison,
        should_stop: ShouldStop,
    ) -> Result<Self, Error> {
        let depths: Vec<u32> =
            comparison.wanted_drives().map(|wanted| wanted.queue_depth).collect();
        if depths.len() != paths.len() {
            return Err(Error::Count { files: paths.len(), devices: depths.len() });
        }
        let (mut disks, mut claims) = (Vec::new(), Vec::new());
        let mut found: Vec<(&Path, Identity)> = Vec::new();
        let mut shortest = u64::MAX;
        for (path, depth) in paths.iter().zip(depths) {
            // Opening anything else may block.
            check_kind(path)?;
            let file = open_direct(path)?;
            let bytes = length(path, &file)?;
            let identity = identity(path, &file, &found)?;
            found.push((path, identity));
            shortest = shortest.min(bytes);
            let file = if destroys {
                let claim = claim(path, identity)?;
                let file = claim.file().try_clone();
                claims.push(claim);
                file.map_err(|source| Error::Reopen { path: path.clone(), source })?
            } else {
                file
            };
            disks.push(Disk { path: path.clone(), file, depth });
        }
        comparison.set_reach(shortest);
        Ok(Self { disks, _claims: claims, writes: destroys, notes: Notes::default(), should_stop })
    }

    /// How the comparison was measured.
    #[must_use]
    pub fn into_notes(self) -> Notes {
        self.notes
    }

    /// The requests that are served.
    fn served(&self, requests: &[ArrayIo]) -> Vec<ArrayIo> {
        let is_served = |io: &&ArrayIo| self.writes || io.op == Op::Read;
        requests.iter().filter(is_served).copied().collect()
    }
}

/// The identity of a path's file, which must differ from those before it.
fn identity(path: &Path, file: &File, before: &[(&Path, Identity)]) -> Result<Identity, Error> {
    let identity = Identity::of(file).map_err(|e| unusable(path, e))?;
    let identity = identity.ok_or_else(|| unusable(path, "is not storage"))?;
    let Some((other, same)) = before.iter().find(|(_, other)| identity.overlaps(other)) else {
        return Ok(identity);
    };
    let is = if identity == *same { "is the same as" } else { "is on the same disk as" };
    let what = format!("{is} {}; name one for each of the scenario's devices", other.display());
    Err(unusable(path, what))
}

/// Makes sure that nothing else uses a file while the claim is kept.
fn claim(path: &Path, opened: Identity) -> Result<Claim, Error> {
    match Claim::exclusive(path) {
        Ok(claim) if claim.identity() == opened => Ok(claim),
        Ok(_) => {
            let what = "was replaced a moment ago: do not change it during the comparison";
            Err(unusable(path, what))
        }
        Err(error) => Err(error.into()),
    }
}

/// Only files and block devices can be read from at random.
fn check_kind(path: &Path) -> Result<(), Error> {
    let what = "cannot look at it";
    let failed = |source| Error::Io { path: path.to_owned(), what, source };
    let kind = fs::metadata(path).map_err(failed)?;
    match kind.file_type() {
        kind if kind.is_file() || kind.is_block_device() => Ok(()),
        _ => Err(unusable(path, "is neither a file nor a block device")),
    }
}

/// The bytes of a file or block device.
fn length(path: &Path, file: &File) -> Result<u64, Error> {
    use std::io::{Seek as _, SeekFrom};
    let mut file = file;
    let bytes = file.seek(SeekFrom::End(0)).map_err(|e| unusable(path, e))?;
    const LEAST: u64 = 1 << 20;
    if bytes < LEAST {
        return Err(unusable(path, format!("has {bytes} bytes, at least {LEAST} are needed")));
    }
    Ok(bytes)
}

fn unusable(path: &Path, what: impl Display) -> Error {
    Error::File { path: path.to_owned(), what: what.to_string() }
}

impl Testbed for Files {
    fn prepare(&mut self, seed: u64) -> Result<(), TestbedError> {
        self.notes.begin(seed);
        Ok(())
    }

    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, TestbedError> {
        let base = Box::new(strategies::Base::new("base"));
        let log = RunOptions { log: true, ..RunOptions::default() };
        let options = UringOptions { run: log, ..UringOptions::default() };
        let requests = self.served(requests);
        let meter = Meter::begin(&[]);
        let run =
            serve(&self.disks, base, &requests, &options, &*self.should_stop, &mut || Ok(()))?;
        self.notes.add_phase_one(meter.note(PHASE_ONE, &run));
        let recordings = run.log.into_iter().zip(0..);
        Ok(recordings.map(|(log, number)| recording(DeviceId(number), log)).collect())
    }

    fn serve(&mut self, row: Row<'_>) -> Result<Served, TestbedError> {
        let requests = self.served(row.requests);
        let (served, note) = measure_row(&self.disks, &row, &requests, &[], &*self.should_stop)?;
        self.notes.add(note);
        Ok(served)
    }

    fn has_ideal(&self) -> bool {
        false
    }

    fn has_faults(&self) -> bool {
        false
    }
}
