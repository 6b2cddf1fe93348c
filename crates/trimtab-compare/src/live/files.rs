//! Files or devices that the user has.

use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use trimtab_io::Op;
use trimtab_live::array::{Disk, LiveOptions};
use trimtab_live::block::{self, Claim, Identity};
use trimtab_sim::array::ArrayIo;
use trimtab_sim::compare::{Comparison, Rig, Row, Served};
use trimtab_steer::strategies;
use trimtab_trace::Record;

use super::notes::{Notes, PHASE_ONE};
use super::serve::{Meter, measure_row, open_direct, serve};
use crate::exit::BadInput;
use crate::interrupt::Interrupt;

/// Files or devices, one for each drive of the scenario.
pub(super) struct Files {
    disks: Vec<Disk>,
    /// What keeps others off them while they are written to.
    _claims: Vec<Claim>,
    /// Whether writes are served too.
    writes: bool,
    notes: Notes,
    end: Interrupt,
}

impl Files {
    /// Workloads then reach no farther than the shortest of them. Without
    /// `destroys` nothing is written to them; with it, what is in them may be lost, but they
    /// must not be in use.
    pub(super) fn new(
        paths: &[PathBuf],
        destroys: bool,
        comparison: &mut Comparison,
        end: Interrupt,
    ) -> Result<Self> {
        let depths: Vec<u32> = comparison.wanted().map(|wanted| wanted.queue_depth).collect();
        if depths.len() != paths.len() {
            let text = format!(
                "--files names {}, and the scenario has {} devices: name one for each",
                paths.len(),
                depths.len()
            );
            return Err(BadInput(text).into());
        }
        let (mut disks, mut claims) = (Vec::new(), Vec::new());
        let mut found: Vec<(&Path, Identity)> = Vec::new();
        let mut shortest = u64::MAX;
        for (path, depth) in paths.iter().zip(depths) {
            // Opening others may wait for ever.
            check_kind(path).map_err(BadInput)?;
            let file = open_direct(path).map_err(BadInput)?;
            let bytes = length(path, &file).map_err(BadInput)?;
            let identity = identity(path, &file, &found).map_err(BadInput)?;
            found.push((path, identity));
            shortest = shortest.min(bytes);
            let file = if destroys {
                let claim = claim(path, identity)?;
                let file = claim.file().try_clone();
                claims.push(claim);
                file.with_context(|| format!("cannot open {} again", path.display()))?
            } else {
                file
            };
            disks.push(Disk { path: path.clone(), file, depth });
        }
        comparison.set_reach(shortest);
        Ok(Self { disks, _claims: claims, writes: destroys, notes: Notes::default(), end })
    }

    pub(super) fn into_notes(self) -> Notes {
        self.notes
    }

    /// What of the requests is served.
    fn served(&self, requests: &[ArrayIo]) -> Vec<ArrayIo> {
        let is_served = |io: &&ArrayIo| self.writes || io.op == Op::Read;
        requests.iter().filter(is_served).copied().collect()
    }
}

/// What a path has led to: something else than the paths before it.
fn identity(path: &Path, file: &File, before: &[(&Path, Identity)]) -> Result<Identity, String> {
    let shown = path.display();
    let identity = Identity::of(file).map_err(|e| format!("{shown}: {e}"))?;
    let identity = identity.ok_or_else(|| format!("{shown}: is no storage"))?;
    let Some((other, same)) = before.iter().find(|(_, other)| identity.overlaps(other)) else {
        return Ok(identity);
    };
    let is = if identity == *same { "is the same as" } else { "is on the same disk as" };
    Err(format!("{shown}: {is} {}; name one for each of the scenario's devices", other.display()))
}

/// Makes sure that nothing else uses it, for as long as the claim is kept.
fn claim(path: &Path, looked_at: Identity) -> Result<Claim> {
    match Claim::exclusive(path) {
        Ok(claim) if claim.identity() == looked_at => Ok(claim),
        Ok(_) => {
            let what = "leads to something else than a moment ago: leave it alone meanwhile";
            Err(BadInput(format!("{}: {what}", path.display())).into())
        }
        Err(error @ block::Error::Unknown { .. }) => Err(error.into()),
        Err(error) => Err(BadInput(error.to_string()).into()),
    }
}

/// Only files and block devices can be read from at random.
fn check_kind(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let kind = fs::metadata(path).map_err(|e| format!("{shown}: cannot look at it: {e}"))?;
    match kind.file_type() {
        kind if kind.is_file() || kind.is_block_device() => Ok(()),
        _ => Err(format!("{shown}: is neither a file nor a block device")),
    }
}

/// The bytes of a file or block device.
fn length(path: &Path, file: &File) -> Result<u64, String> {
    use std::io::{Seek as _, SeekFrom};
    let shown = path.display();
    let mut file = file;
    let bytes = file.seek(SeekFrom::End(0)).map_err(|e| format!("{shown}: {e}"))?;
    const LEAST: u64 = 1 << 20;
    if bytes < LEAST {
        return Err(format!("{shown}: has {bytes} bytes, at least {LEAST} are needed"));
    }
    Ok(bytes)
}

impl Rig for Files {
    fn prepare(&mut self, seed: u64) -> Result<(), String> {
        self.notes.begin(seed);
        Ok(())
    }

    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, String> {
        let base = Box::new(strategies::Base::new("base"));
        let options = LiveOptions { record: true, ..LiveOptions::default() };
        let requests = self.served(requests);
        let meter = Meter::begin(&[]);
        let run = serve(&self.disks, base, &requests, &options, &self.end, &mut || Ok(()))?;
        self.notes.add_phase_one(meter.note(PHASE_ONE, &run));
        Ok(run.records)
    }

    fn serve(&mut self, row: Row<'_>) -> Result<Served, String> {
        let requests = self.served(row.requests);
        let (served, note) = measure_row(&self.disks, &row, &requests, &[], &self.end)?;
        self.notes.add(note);
        Ok(served)
    }

    fn has_ideal(&self) -> bool {
        false
    }
}
