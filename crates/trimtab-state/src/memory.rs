//! The memory of all drives that one state tracker updates.

use std::os::fd::AsFd;
use std::path::Path;

use trimtab_block::{BlockDevice, DeviceError};
use trimtab_io::Nanos;
use trimtab_shm::{Mapping, PinnedMap, field};

use crate::abi::{Device, TrackerStatus, VERSION};
use crate::{Error, LiveDrive};

/// The name of the pinned map, which holds all drives.
pub const PIN_NAME: &str = "devices";

/// A tracker without a heartbeat for this long counts as gone. Heartbeats come every 50 ms,
/// later on a busy machine.
const GONE_AFTER: Nanos = Nanos::from_secs(1);

/// The state of several drives, mapped read-only.
#[derive(Debug)]
pub struct StateMemory {
    devices: Mapping<Device>,
    count: usize,
}

impl StateMemory {
    /// Maps the first `count` drives of the map `st_devices`.
    ///
    /// # Errors
    /// The kernel does not map it.
    pub fn map(map: &impl AsFd, count: usize) -> Result<Self, Error> {
        Ok(Self { devices: Mapping::new(map, count)?, count })
    }

    /// Maps the drives of a map that a tracker has pinned.
    ///
    /// # Errors
    /// There is none, the process may not open it, or it is of another version.
    pub fn open(file: &Path) -> Result<Self, Error> {
        let map = PinnedMap::open(file).map_err(|e| match e.source.kind() {
            std::io::ErrorKind::PermissionDenied => Error::Permission,
            _ => Error::Memory(e),
        })?;
        let other = || Error::Version(file.to_owned());
        if map.value_size() != size_of::<Device>() {
            return Err(other());
        }
        let this = Self::map(&map, map.entries())?;
        if (0..this.count).any(|index| this.tracker(index).version != VERSION) {
            return Err(other());
        }
        Ok(this)
    }

    pub(crate) const fn devices(&self) -> &Mapping<Device> {
        &self.devices
    }

    /// The number of drives in the map.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The tracker of a drive.
    ///
    /// # Panics
    /// There is no such drive.
    #[must_use]
    pub fn tracker(&self, index: usize) -> TrackerStatus {
        self.devices.part(index, field!(Device.tracker))
    }

    /// Whether the programs are attached and their tracker runs.
    ///
    /// # Panics
    /// There is no such drive.
    #[must_use]
    pub fn is_tracked(&self, index: usize, now: Nanos) -> bool {
        let tracker = self.tracker(index);
        tracker.attached != 0 && now.since(Nanos(tracker.heartbeat_ns)) < GONE_AFTER
    }

    /// The time of the last event of a drive.
    ///
    /// # Panics
    /// There is no such drive.
    #[must_use]
    pub fn changed(&self, index: usize) -> Nanos {
        Nanos(self.devices.load(index, field!(Device.now_ns)))
    }

    /// The number of requests of a drive in flight.
    ///
    /// # Panics
    /// There is no such drive.
    #[must_use]
    pub fn in_flight(&self, index: usize) -> u32 {
        self.devices.load(index, field!(Device.drive.requests))
    }
}

impl LiveDrive {
    /// Opens the state of a drive that another process tracks and has pinned in a directory.
    ///
    /// Any user with search permission on the path may do so: systemd mounts
    /// `/sys/fs/bpf` for root alone (`chmod 755 /sys/fs/bpf`, or mount a BPF file system
    /// elsewhere: `mount -t bpf -o mode=755 bpf /run/trimtab-bpf`; not at `/run/trimtab`,
    /// where it would hide the emulated drives and the readers). Linux before 5.19 also
    /// requires `CAP_BPF`.
    ///
    /// If `kernel.unprivileged_bpf_disabled` is 0, only root and the file's group may: a
    /// process that has the map open, and may load BPF programs, can load one that writes it.
    ///
    /// # Errors
    /// Nothing is pinned there, this drive is not tracked, or the process lacks permission; or
    /// [`Error::Busy`]: the kernel was writing its state at each attempt. The caller may try again.
    pub fn open(directory: &Path, device: &BlockDevice) -> Result<Self, Error> {
        let memory = StateMemory::open(&directory.join(PIN_NAME))?;
        let is_it = |&index: &usize| memory.tracker(index).number == device.kernel_number();
        let Some(index) = (0..memory.count()).find(is_it) else {
            let why = format!("is not tracked by the state tracker at {}", directory.display());
            return Err(DeviceError::new(&device.name, why).into());
        };
        let mut this = Self::without_functions(memory.into(), index);
        this.refresh()?;
        Ok(this)
    }
}
