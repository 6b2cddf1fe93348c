//! What an array and its drives tell each other about cleaning.

use super::Ssd;
use crate::firmware::{Firmware, WindowSchedule};

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
}
