//! What the firmware does for an array while that has a lease (IODA): cleaning in windows, and
//! refusing flagged reads.

use serde::{Deserialize, Serialize};
use trimtab_device::{
    ArrayPosition, Drive, DriveProfile, Firmware, FirmwareKind, Ideal, Profile, Standard,
    WindowOptions,
};
use trimtab_io::Nanos;
use trimtab_serve::{Error, Lease, PredictableCommand, PredictableReply};

use super::state::State;

/// The longest lease.
const MAX_LEASE_MS: u64 = 60_000;
/// The longest window.
const MAX_WINDOW: Nanos = Nanos::from_secs(100);

/// A lease that an array has.
#[derive(Clone, Debug)]
pub(super) struct Leased {
    lease: Lease,
    until: Nanos,
}

/// The part of a drive's work that is for an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictableStat {
    /// The array, and its process.
    pub owner: String,
    /// The drive's place among its drives, from 0.
    pub position: u32,
    /// How many they are.
    pub drives: u32,
    /// Length of a window, ms.
    pub window_ms: f64,
}

fn flash<'a>(
    model: &'a mut Drive,
    profile: &'a DriveProfile,
) -> Result<(&'a mut trimtab_device::Ssd, &'a Profile), Error> {
    match (model, profile) {
        (Drive::Flash(ssd), DriveProfile::Flash(profile)) => Ok((ssd, profile)),
        _ => Err(Error::BadInput("a disk has no firmware that could help an array".to_owned())),
    }
}

impl<T> State<T> {
    /// Handles an array's command.
    pub(super) fn predictable(
        &mut self,
        command: PredictableCommand,
        now: Nanos,
    ) -> Result<PredictableReply, Error> {
        self.pass_time(now);
        match command {
            PredictableCommand::Window { drives } => {
                let (_, profile) = flash(&mut self.model, &self.profile)?;
                let at = ArrayPosition { position: 0, drives };
                let kind = FirmwareKind::Ioda(WindowOptions::default());
                let firmware = kind.firmware(profile, at).map_err(bad)?;
                let windows = firmware.windows(Nanos::ZERO);
                let length_ns = windows.map_or(0, |windows| windows.length.0);
                Ok(PredictableReply::Window { length_ns })
            }
            PredictableCommand::Lease(lease) => {
                self.grant(lease, now)?;
                Ok(PredictableReply::Leased)
            }
            PredictableCommand::End { owner } => {
                if self.leased.as_ref().is_some_and(|leased| leased.lease.owner == owner) {
                    self.end_lease();
                }
                Ok(PredictableReply::Ended)
            }
        }
    }

    fn grant(&mut self, lease: Lease, now: Nanos) -> Result<(), Error> {
        let length = Nanos(lease.length_ns);
        if !(Nanos(1_000)..=MAX_WINDOW).contains(&length) || lease.for_ms > MAX_LEASE_MS {
            return Err(Error::BadInput("a lease or window of that length is not possible".into()));
        }
        if lease.position >= lease.drives || lease.drives > 1_000 {
            return Err(Error::BadInput(format!(
                "drive {} of {}: no such place in an array",
                lease.position, lease.drives
            )));
        }
        flash(&mut self.model, &self.profile)?;
        let until = now + Nanos::from_millis(lease.for_ms);
        let owner = self.leased.as_ref().map(|leased| &leased.lease.owner);
        if let Some(owner) = owner.filter(|&owner| *owner != lease.owner) {
            return Err(Error::Failed(format!("its firmware works for {owner}")));
        }
        let is_same = self.leased.as_ref().is_some_and(|leased| leased.lease == lease);
        let before = self.leased.replace(Leased { lease, until });
        if is_same {
            return Ok(());
        }
        let installed = self.install_firmware(now);
        if installed.is_err() {
            self.leased = before;
        }
        installed
    }

    /// Ends a lease that has not been renewed.
    pub(super) fn expire_lease(&mut self, now: Nanos) {
        if self.leased.as_ref().is_some_and(|leased| leased.until < now) {
            self.end_lease();
        }
    }

    fn end_lease(&mut self) {
        self.leased = None;
        // Without a lease it cannot fail.
        _ = self.install_firmware(self.wall_time(self.model.now()));
    }

    /// Gives the model the firmware that it should have: after a lease has begun or ended, and
    /// after what replaces the firmware.
    pub(super) fn install_firmware(&mut self, now: Nanos) -> Result<(), Error> {
        let lease = self.leased.as_ref().map(|leased| leased.lease.clone());
        let start = lease.as_ref().map(|lease| self.model_time(next_cycle(lease, now)));
        let is_ideal = self.is_ideal;
        let Ok((ssd, profile)) = flash(&mut self.model, &self.profile) else { return Ok(()) };
        let firmware: Box<dyn Firmware> = match lease.zip(start) {
            _ if is_ideal => Box::new(Ideal::new(profile)),
            None => Box::new(Standard::new(profile)),
            Some((lease, start)) => {
                let options = WindowOptions {
                    window_ms: Some(lease.length_ns as f64 / 1e6),
                    start_ms: start.0 as f64 / 1e6,
                    ..WindowOptions::default()
                };
                let at = ArrayPosition { position: lease.position, drives: lease.drives };
                FirmwareKind::Ioda(options).firmware(profile, at).map_err(bad)?
            }
        };
        ssd.replace_firmware(firmware);
        Ok(())
    }

    /// For whom it works.
    pub(super) fn predictable_stat(&self) -> Option<PredictableStat> {
        self.leased.as_ref().map(|Leased { lease, .. }| PredictableStat {
            owner: lease.owner.clone(),
            position: lease.position,
            drives: lease.drives,
            window_ms: lease.length_ns as f64 / 1e6,
        })
    }
}

/// When the first drive's next window begins. A start that is long past may lie before the model's
/// own time.
fn next_cycle(lease: &Lease, now: Nanos) -> Nanos {
    let cycle = lease.length_ns.saturating_mul(lease.drives.into()).max(1);
    let cycles = now.since(Nanos(lease.start_ns)).0.div_ceil(cycle);
    Nanos(lease.start_ns) + Nanos(cycles.saturating_mul(cycle))
}

fn bad(error: trimtab_device::Error) -> Error {
    Error::BadInput(error.to_string())
}

#[cfg(test)]
mod tests;
