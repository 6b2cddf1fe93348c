//! Files or devices that the user has.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use trimtab_io::Op;
use trimtab_live::array::{Disk, LiveOptions};
use trimtab_sim::array::ArrayIo;
use trimtab_sim::compare::{Comparison, Rig, Row, Served};
use trimtab_steer::strategies;
use trimtab_trace::Record;

use super::End;
use super::notes::{Notes, PHASE_ONE};
use super::serve::{Meter, measure_row, open_direct, serve};
use crate::exit::BadInput;

/// Files or devices, one for each drive of the scenario.
pub(super) struct Files {
    disks: Vec<Disk>,
    /// Whether writes are served too.
    writes: bool,
    notes: Notes,
    end: End,
}

impl Files {
    /// Workloads then reach no farther than the shortest of them. Without
    /// `destroys` nothing is written to them.
    pub(super) fn new(
        paths: &[PathBuf],
        destroys: bool,
        comparison: &mut Comparison,
        end: End,
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
        let mut disks: Vec<Disk> = Vec::new();
        let mut shortest = u64::MAX;
        for (path, depth) in paths.iter().zip(depths) {
            if disks.iter().any(|other| other.path == *path) {
                return Err(BadInput(format!("{}: is named twice", path.display())).into());
            }
            let file = open_direct(path, destroys).map_err(BadInput)?;
            let bytes = length(path, &file).map_err(BadInput)?;
            shortest = shortest.min(bytes);
            disks.push(Disk { path: path.clone(), file, depth });
        }
        comparison.set_reach(shortest);
        Ok(Self { disks, writes: destroys, notes: Notes::default(), end })
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

/// The bytes of a file or block device.
fn length(path: &Path, file: &fs::File) -> Result<u64, String> {
    use std::io::{Seek as _, SeekFrom};
    let shown = path.display();
    let kind = file.metadata().map_err(|e| format!("{shown}: {e}"))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(format!("{shown}: is neither a file nor a block device"));
    }
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
