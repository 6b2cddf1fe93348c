//! Changes of the firmware of a running drive.

use super::Ssd;
use super::clean::Cleaning;
use crate::error::Error;
use crate::firmware::Standard;
use crate::profile::Profile;

impl Ssd {
    /// Takes over from a profile what the firmware reads anew each time: victim selection
    /// (`gc.victim`, `gc.choices`), watermarks (`gc.high_watermark`, `gc.low_watermark`,
    /// `gc.watermarks_of`), and preemption (`gc.preemptive`, `gc.suspend`, `gc.suspend_us`).
    /// Cleanings queued or in progress continue. A custom firmware is replaced by the ordinary one.
    ///
    /// # Errors
    /// The profile is of another drive: it differs in something else.
    pub fn retune(&mut self, profile: &Profile, before: &Profile) -> Result<(), Error> {
        let mut like_before = profile.clone();
        let (new, old) = (&mut like_before.gc, &before.gc);
        (new.victim, new.choices) = (old.victim, old.choices);
        (new.high_watermark, new.low_watermark) = (old.high_watermark, old.low_watermark);
        new.watermarks_of = old.watermarks_of;
        (new.preemptive, new.suspend, new.suspend_us) =
            (old.preemptive, old.suspend, old.suspend_us);
        if like_before != *before {
            return Error::profile(
                "only gc.* keys without a bearing on the layout can change live",
            );
        }
        self.take_firmware(Box::new(Standard::new(profile)));
        self.rules.preemptive = profile.gc.preemptive;
        self.rules.suspend = profile.gc.suspend;
        self.times.resume = crate::layout::Times::new(profile).resume;
        self.cleaning.take_marks(&Cleaning::new(profile, &self.layout));
        self.cleaning.target = self.cleaning_target();
        // A higher watermark may need cleaning now.
        for plane in 0..self.layout.planes {
            self.check_free_blocks(plane);
        }
        Ok(())
    }
}
