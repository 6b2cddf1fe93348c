//! Device names in text formats with special characters.

use rustc_hash::{FxHashMap, FxHashSet};
use trimtab_io::DeviceId;

use crate::names::Names;

/// Labels of devices in the output, computed once per device.
#[derive(Default)]
pub(super) struct Labels {
    labels: FxHashMap<DeviceId, Box<str>>,
    taken: FxHashSet<Box<str>>,
}

impl Labels {
    /// The device's label, and whether it is new. `label` makes one of a name and a suffix; the
    /// suffix is not empty if another device has the first choice, so labels are unique.
    pub(super) fn get(
        &mut self,
        device: DeviceId,
        names: &Names,
        label: impl Fn(&str, &str) -> String,
    ) -> (&str, bool) {
        let mut new = false;
        let entry = self.labels.entry(device).or_insert_with(|| {
            new = true;
            let name = names.device(device);
            let mut choice = label(name, "");
            let mut number = 2;
            while !self.taken.insert(choice.as_str().into()) {
                choice = label(name, &format!("_{number}"));
                number += 1;
            }
            choice.into()
        });
        (entry, new)
    }
}

/// A name with blanks, control characters and commas replaced by underscores.
pub(super) fn plain(name: &str) -> String {
    let special = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    name.chars().map(|c| if special(c) { '_' } else { c }).collect()
}
