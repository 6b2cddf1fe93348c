//! Devices that go while they are recorded: what takes their name is another device.

use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;

use crate::log;

const PERIOD: Duration = Duration::from_millis(500);

/// The devices, and which of them have been found to be gone.
pub(super) struct Replaced {
    devices: Vec<(BlockDevice, bool)>,
    looked: Instant,
}

impl Replaced {
    pub(super) fn new(devices: &[BlockDevice]) -> Self {
        let devices = devices.iter().map(|device| (device.clone(), false)).collect();
        Self { devices, looked: Instant::now() }
    }

    /// Looks now and then, and says of each device that has gone so once. If there is news,
    /// the names of all that have gone.
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
            let what = "was detached: what has this name from now on is another device, and is \
                        not recorded";
            // Recording must not fail because this cannot be said.
            log::line(&format!("{name}: {what}"));
        }
        let names = self.devices.iter().filter(|(_, gone)| *gone);
        let names: Vec<_> = names.map(|(device, _)| device.name.as_str()).collect();
        news.then(|| names.join(" "))
    }
}
