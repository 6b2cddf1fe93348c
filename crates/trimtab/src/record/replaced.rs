//! Detection of recorded devices that were detached: a new device of that name is another one.

use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;

use crate::log;

const PERIOD: Duration = Duration::from_millis(500);

/// The devices, and which of them have been detached.
pub(super) struct Replaced {
    devices: Vec<(BlockDevice, bool)>,
    looked: Instant,
}

impl Replaced {
    pub(super) fn new(devices: &[BlockDevice]) -> Self {
        let devices = devices.iter().map(|device| (device.clone(), false)).collect();
        Self { devices, looked: Instant::now() }
    }

    /// Checks now and then, and reports each detached device once. If there is a new one,
    /// returns the names of all detached devices.
    pub(super) fn look(&mut self) -> Option<String> {
        if self.looked.elapsed() < PERIOD {
            return None;
        }
        self.looked = Instant::now();
        let mut news = false;
        for (device, gone) in &mut self.devices {
            if *gone || !device.is_replaced() {
                continue;
            }
            (*gone, news) = (true, true);
            let name = &device.name;
            let what = "was detached: a new device of this name is not recorded";
            // Recording continues even if this cannot be reported.
            log::line(&format!("{name}: {what}"));
        }
        let names = self.devices.iter().filter(|(_, gone)| *gone);
        let names: Vec<_> = names.map(|(device, _)| device.name.as_str()).collect();
        news.then(|| names.join(" "))
    }
}
