//! What a reader should know before the figures.

use trimtab_device::{ArrayPosition, WindowFormula};
use trimtab_io::Nanos;

use super::entry::ArrayEntry;
use super::spec::ArrayComparison;

/// Drives of a row whose windows are shorter than one cleaning, or longer than the formula allows.
/// They run nevertheless: what that cost is in the row's figures
/// ([`ArrayFigures::forced_outside_window`](super::ArrayFigures::forced_outside_window) and
/// [`window_overruns`](super::ArrayFigures::window_overruns)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowWarning {
    /// The row.
    pub row: String,
    /// Both lengths, and what follows, on one line.
    pub what: String,
}

impl ArrayComparison {
    /// One line for each thing about the array that a reader should know.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let capacities = self.drives.iter().map(|drive| drive.profile.capacity_bytes());
        let (least, most) = (capacities.clone().min(), capacities.max());
        if least != most {
            let bytes = least.unwrap_or_default();
            warnings.push(format!("members differ in size: {bytes} bytes of each are used"));
        }
        if !self.lost.is_empty() {
            let lost: Vec<_> = self.lost.iter().map(usize::to_string).collect();
            warnings.push(format!("lost members: {}", lost.join(", ")));
        }
        warnings
    }

    /// The rows whose windows do not fit their drives.
    #[must_use]
    pub fn window_warnings(&self) -> Vec<WindowWarning> {
        self.strategies.iter().filter_map(|entry| self.window_warning(entry)).collect()
    }

    fn window_warning(&self, entry: &ArrayEntry) -> Option<WindowWarning> {
        // Other lengths the host finds itself, or are those of Rails' roles, outside of which a drive
        // is not written to.
        if !entry.strategy.has_windows() {
            return None;
        }
        let drives = self.drives.len() as u32;
        let warnings = (0..drives).zip(&self.drives).filter_map(|(position, drive)| {
            let profile = entry.firmware.profile(&entry.drive(position as usize, drive).profile);
            let profile = profile.ok()?;
            let at = ArrayPosition { position, drives };
            let firmware = entry.firmware.firmware(&profile, at).ok()?;
            let length = firmware.windows(Nanos::ZERO)?.length;
            let values = WindowFormula::new(drives).of(&profile);
            let clean_time = values.clean_time;
            if length < clean_time {
                return Some(format!(
                    "windows of {length} are shorter than one cleaning, {clean_time}: cleanings \
                     end in another drive's turn"
                ));
            }
            // The values of Table 2 are rounded, and those that follow it are not to be warned of.
            let fits = |longest: &Nanos| length.0 <= longest.0 + longest.0 / 50;
            let longest = values.burst.filter(|longest| !fits(longest))?;
            Some(format!(
                "windows of {length} are longer than the formula allows under any load, {longest} \
                 (TW_burst): drives that run out of space clean out of turn"
            ))
        });
        let what = { warnings }.next()?;
        Some(WindowWarning { row: entry.name.clone(), what })
    }
}
