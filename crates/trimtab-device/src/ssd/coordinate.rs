//! When cleaning may begin: what an array, a drive and its firmware tell each other.

use super::ops::Op;
use super::{Ssd, Timer};
use crate::firmware::{Firmware, WindowSchedule};
use crate::timer_queue::NEVER;

impl Ssd {
    /// The windows that the drive cleans in (IODA, §4.4: what a PLM query returns); `None` if its
    /// firmware has none.
    #[must_use]
    pub fn windows(&self) -> Option<WindowSchedule> {
        self.firmware.windows(self.now)
    }

    /// Sets the drive's windows (IODA, §4.3.7 and §7.2). They apply from their start; if that has
    /// passed, from now. An array gives all of its drives the same start, in the future, so that
    /// no two of them have their turns at once. Returns whether the firmware has windows.
    pub fn set_windows(&mut self, windows: WindowSchedule) -> bool {
        let has = self.firmware.set_windows(self.now, windows);
        if has {
            self.policy_has_changed();
        }
        has
    }

    /// Tells the drive that another one of its array has begun to clean, for a firmware that then
    /// begins too (Harmonia). Returns whether it had something to clean.
    pub fn clean_now(&mut self) -> bool {
        if self.firmware.clean_now(self.now) {
            self.policy_has_changed();
        }
        if self.cleaning.queued == 0 {
            // Nothing will end the round.
            self.cleaning_has_ended();
        }
        self.cleaning.queued > 0
    }

    /// Whether the drive has begun to clean of its own accord since the last call, and its firmware
    /// wants the array's other drives to be told: by [`clean_now`](Self::clean_now).
    pub fn took_cleaning_start(&mut self) -> bool {
        self.firmware.take_cleaning_start()
    }

    /// Puts a firmware in control.
    pub(super) fn take_firmware(&mut self, firmware: Box<dyn Firmware>) {
        self.rules.concerns = firmware.concerns();
        self.firmware = firmware;
        self.cleaning.target = self.cleaning_target();
    }

    /// Asks the firmware again when its decision may change.
    pub(super) fn ask_later(&mut self) {
        let next = self.firmware.next_change(self.now).unwrap_or(NEVER);
        self.set(Timer::Policy, next);
    }

    /// The firmware's decision may have changed.
    pub(super) fn policy_has_changed(&mut self) {
        self.set(Timer::Policy, NEVER);
        self.cleaning.target = self.cleaning_target();
        for plane in 0..self.layout.planes {
            self.want_cleaning(plane);
        }
        self.flush_deferred();
    }

    /// Free blocks per plane at which cleaning stops.
    pub(super) fn cleaning_target(&self) -> usize {
        self.firmware.clean_to(self.now, self.cleaning.high).max(self.cleaning.high)
    }

    /// Offers cleaning to the planes whose cleaning this plane's may have precluded: those of its
    /// channel and of its group, in turn, this one last.
    pub(super) fn ask_neighbours(&mut self, plane: u32) {
        let per_channel = self.layout.dies_per_channel * self.layout.planes_per_die;
        let (channel, position) = (plane / per_channel, plane % per_channel);
        for k in 1..self.layout.channels {
            let other = (channel + k) % self.layout.channels;
            self.want_cleaning(other * per_channel + position);
        }
        for k in 1..=per_channel {
            self.want_cleaning(channel * per_channel + (position + k) % per_channel);
        }
    }

    /// Whether the firmware lets this cleaning begin.
    pub(super) fn may_begin(&mut self, plane: u32, victim: u32) -> bool {
        if self.cleaning.forced || !self.rules.concerns.beginnings {
            return true;
        }
        let planned = self.planned(plane, victim);
        let may = self.firmware.may_begin(self.now, &planned);
        if !may {
            self.ask_later();
        }
        may
    }

    /// Tells the firmware.
    pub(super) fn cleaning_has_ended(&mut self) {
        self.firmware.ended(self.now, self.cleaning.queued);
        self.cleaning.target = self.cleaning_target();
    }

    /// Queues a cleaning again whose turn has come, if reads wait for its plane.
    pub(super) fn put_back(&mut self, plane: u32, op: u32) -> bool {
        let die = self.layout.die_of_plane(plane);
        let waits = |op: &Op| op.kind.is_read() && op.plane == plane;
        // Once: it must begin some time.
        if self.planes[plane as usize].put_back || !self.has(die, waits) {
            return false;
        }
        self.planes[plane as usize].put_back = true;
        self.queue_again(die, op);
        true
    }
}
