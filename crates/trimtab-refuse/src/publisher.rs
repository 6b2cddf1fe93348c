//! What the programs in the kernel compare with the deadline: published by user space.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trimtab_block::BlockDevice;
use trimtab_io::{Nanos, monotonic};
use trimtab_predict::Model;
use trimtab_shm::{WritableMapping, field};
use trimtab_state::LiveDrive;
use trimtab_tracker::{StateTracker, TrackerOptions};

use crate::Reason;
use crate::abi::{DRIVES, Drive};
use crate::wait::{self, Expectation};

/// Where expectations come from.
#[derive(Clone, Debug)]
pub enum Expect {
    /// The state of the drives, as the state tracker has pinned it in this directory, or else as
    /// a tracker of this process sees it; and the model, if one is given.
    State {
        /// The directory of the pins.
        pins: PathBuf,
        /// The model; without one, queue and recent latencies are used.
        model: Option<Arc<Model>>,
    },
    /// This wait for every drive, to test how a program fails over.
    Assumed(Nanos),
}

/// How often a drive that has vanished, or a tracker that came, is looked for.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// A drive and what is known of it.
struct Known {
    device: BlockDevice,
    size: u64,
    state: Option<LiveDrive>,
    /// The model is of this drive.
    has_model: bool,
    is_gone: bool,
}

/// Publishes the expected wait of each drive. The publisher must be called at least once every
/// [`Limits::stale`](crate::Limits::stale); otherwise all reads are admitted.
pub(crate) struct Publisher {
    words: WritableMapping<Drive>,
    expect: Expect,
    limit: Nanos,
    drives: Vec<Known>,
    /// Tracks the drives that no other process tracks.
    own: Option<StateTracker>,
    own_devices: Vec<BlockDevice>,
    looked: Nanos,
    notes: Vec<String>,
}

impl Publisher {
    /// A publisher that knows these drives from the beginning.
    pub(crate) fn new(
        words: WritableMapping<Drive>,
        expect: Expect,
        limit: Nanos,
        devices: &[BlockDevice],
    ) -> Self {
        let mut this = Self {
            words,
            expect,
            limit,
            drives: Vec::new(),
            own: None,
            own_devices: Vec::new(),
            looked: Nanos::ZERO,
            notes: Vec::new(),
        };
        this.track(devices);
        for device in devices {
            this.slot(device);
        }
        this
    }

    /// Attaches a tracker for the drives that no other process tracks.
    fn track(&mut self, devices: &[BlockDevice]) {
        let Expect::State { pins, model } = &self.expect else { return };
        // A tracker that was killed leaves its pins behind.
        let is_tracked = |device: &BlockDevice| {
            LiveDrive::open(pins, device).is_ok_and(|state| state.is_tracked(monotonic()))
        };
        let devices: Vec<_> = devices.iter().filter(|d| !is_tracked(d)).cloned().collect();
        if devices.is_empty() {
            return;
        }
        let functions = |device: &BlockDevice| match model {
            Some(model) if model.other_drive(&device.identity()).is_none() => {
                model.trained.functions().to_vec()
            }
            _ => Vec::new(),
        };
        let functions = devices.iter().map(functions).collect();
        let options = TrackerOptions { functions, ..TrackerOptions::default() };
        match StateTracker::load(&devices, &options) {
            Ok(tracker) => (self.own, self.own_devices) = (Some(tracker), devices),
            Err(e) => self.notes.push(format!("no drive is tracked, so nothing is refused: {e}")),
        }
    }

    /// The slot of a drive, which is added if it is new; `None` if all slots are taken.
    pub(crate) fn slot(&mut self, device: &BlockDevice) -> Option<u32> {
        let same = |known: &Known| known.device.number == device.number && !known.is_gone;
        if let Some(slot) = self.drives.iter().position(same) {
            return Some(slot as u32);
        }
        if self.drives.len() == DRIVES {
            return None;
        }
        let mut known = Known {
            device: device.clone(),
            size: device.size().unwrap_or(0),
            state: None,
            has_model: false,
            is_gone: false,
        };
        if let Expect::State { model: Some(model), .. } = &self.expect {
            match model.other_drive(&device.identity()) {
                None => known.has_model = true,
                Some(other) => self.notes.push(format!("{}: no model used: {other}", device.name)),
            }
        }
        known.state = self.state_of(device);
        if known.state.is_none() && matches!(self.expect, Expect::State { .. }) {
            self.notes.push(format!("{}: is not tracked, so its reads are admitted", device.name));
        }
        self.drives.push(known);
        Some(self.drives.len() as u32 - 1)
    }

    fn state_of(&self, device: &BlockDevice) -> Option<LiveDrive> {
        let own = self.own_devices.iter().position(|own| own.number == device.number);
        if let (Some(index), Some(own)) = (own, &self.own) {
            return own.drive(index).ok();
        }
        let Expect::State { pins, .. } = &self.expect else { return None };
        LiveDrive::open(pins, device).ok()
    }

    /// Publishes the expectations of this moment.
    pub(crate) fn publish(&mut self, now: Nanos) {
        if now.since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            self.look(now);
        }
        for (slot, known) in self.drives.iter().enumerate() {
            let (wait, reason) = match self.expectation(known, now) {
                Ok(wait) => (wait, Reason::InTime),
                Err(reason) => (Nanos::ZERO, reason),
            };
            let word = |field| self.words.word(slot, field);
            word(field!(Drive.wait_ns)).store(wait.0, Ordering::Relaxed);
            word(field!(Drive.reason)).store(reason as u64, Ordering::Relaxed);
            // Last: what is fresh is complete.
            word(field!(Drive.published_ns)).store(now.0, Ordering::Release);
        }
    }

    /// Looks for drives that have vanished, and for trackers that have come.
    fn look(&mut self, now: Nanos) {
        for index in 0..self.drives.len() {
            let known = &self.drives[index];
            if !known.is_gone && known.device.is_replaced() {
                self.notes.push(format!("{}: is gone: its reads are admitted", known.device.name));
                self.drives[index].is_gone = true;
            } else if !known.state.as_ref().is_some_and(|state| state.is_tracked(now)) {
                let state = self.state_of(&known.device);
                self.drives[index].state = state;
            } else if let Some(state) = &mut self.drives[index].state
                && !state.has_current_functions()
            {
                // If that fails the state is not fresh, and it is tried again.
                _ = state.refresh();
            }
        }
    }

    fn expectation(&self, known: &Known, now: Nanos) -> Expectation {
        let model = match &self.expect {
            Expect::Assumed(wait) if !known.is_gone => return Ok(*wait),
            Expect::Assumed(_) => return Err(Reason::NotTracked),
            Expect::State { model, .. } => model,
        };
        let state = known.state.as_ref().filter(|_| !known.is_gone).ok_or(Reason::NotTracked)?;
        if !state.is_fresh(now) {
            return Err(Reason::NotTracked);
        }
        let Some(model) = model else {
            let state = state.state().ok_or(Reason::Unsure)?;
            return Ok(wait::without_model(&state, now));
        };
        if !known.has_model || !state.tells_apart_by(model.trained.functions()) {
            return Err(Reason::NoModel);
        }
        wait::by_model(state, model, known.size, now, self.limit)
    }

    /// Adds a line that the user should know.
    pub(crate) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// What the user should know, since the last call.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

#[cfg(test)]
mod tests;
