//! Control commands: devices are made, started, stopped and found.
//!
//! Starting and stopping a device waits for its server, so that a helper process does these
//! (helper.rs).

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use super::abi::{self, DevInfo, Params, control, feature, state};
use super::{DEPTH, MAX_BYTES};
use crate::error::Error;
use crate::served::ServedDisk;

const CONTROL: &str = "/dev/ublk-control";
const NEEDED: u64 = feature::USER_RECOVERY
    | feature::USER_RECOVERY_REISSUE
    | feature::CMD_IOCTL_ENCODE
    | feature::USER_COPY;
/// A killed server's device waits for the next one within this. It takes milliseconds, unless the server
/// had as many requests of a queue as that can have: then the kernel notices with their timeout, 30 s.
const QUIESCE_TIMEOUT: Duration = Duration::from_secs(45);

/// The driver's control device.
pub(crate) struct Control {
    ring: IoUring<squeue::Entry128>,
    file: File,
}

/// A device of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UblkDevice {
    /// The number in `/dev/ublkbN`.
    pub(crate) id: u32,
    /// Hardware queues, and requests of each.
    pub(super) queues: u16,
    pub(super) depth: u16,
    state: u16,
}

impl UblkDevice {
    pub(crate) fn path(&self) -> PathBuf {
        block_device(self.id)
    }

    /// Whether its server was killed, and requests wait for another one.
    pub(crate) const fn waits(&self) -> bool {
        self.state == state::QUIESCED
    }

    /// Whether it is served, or being started; or else its server was killed, and the kernel is still
    /// taking requests back from it.
    pub(crate) const fn is_live(&self) -> bool {
        self.state == state::LIVE
    }

    const fn of(info: &DevInfo) -> Self {
        Self { id: info.id, queues: info.queues, depth: info.depth, state: info.state }
    }
}

/// The block device of this number.
pub(crate) fn block_device(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

impl Control {
    /// Opens it, and checks that the driver has what is needed.
    pub(crate) fn open() -> Result<Self, Error> {
        let file = File::options().read(true).write(true).open(CONTROL);
        let file = file.map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::Failed(format!(
                "this kernel has no ublk ({CONTROL}): load the module ublk_drv, or take \
                 --backend fuse"
            )),
            std::io::ErrorKind::PermissionDenied => Error::Privilege,
            _ => Error::system(format!("open {CONTROL}"))(e),
        })?;
        let ring = IoUring::<squeue::Entry128>::builder().build(4);
        let ring = ring.map_err(Error::system("set up an io_uring for ublk"))?;
        let mut control = Self { ring, file };
        let mut features = 0_u64;
        let address = (&raw mut features) as u64;
        // SAFETY: the kernel writes 8 bytes to a number of that size.
        let got = unsafe { control.run(control::GET_FEATURES, 0, 8, address, 0) };
        if got.is_err() || features & NEEDED != NEEDED {
            let why = "this kernel's ublk is too old: Linux 6.5 has what is needed; take \
                       --backend fuse";
            return Err(Error::Failed(why.to_owned()));
        }
        Ok(control)
    }

    /// Runs a command, and waits until it is done.
    ///
    /// # Safety
    /// `address` is that of `bytes` bytes that the command may read and write, or 0.
    unsafe fn run(
        &mut self,
        command: u32,
        id: u32,
        bytes: usize,
        address: u64,
        data: u64,
    ) -> rustix::io::Result<()> {
        use std::os::fd::AsRawFd as _;
        let arguments = abi::control_command(id, abi::NO_QUEUE, bytes as u16, address, data);
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), command);
        let entry = entry.cmd(arguments).build();
        // SAFETY: the memory that the command uses stays until it is done, which is waited for.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring is empty between commands");
        loop {
            match self.ring.submit_and_wait(1) {
                Err(e) if e.raw_os_error() != Some(Errno::INTR.raw_os_error()) => {
                    return Err(Errno::from_io_error(&e).unwrap_or(Errno::IO));
                }
                _ => {}
            }
            if let Some(done) = self.ring.completion().next() {
                return match done.result() {
                    error if error < 0 => Err(Errno::from_raw_os_error(-error)),
                    _ => Ok(()),
                };
            }
        }
    }

    /// Runs a command about a device that takes no memory.
    fn tell(&mut self, command: u32, id: u32, data: u64) -> rustix::io::Result<()> {
        // SAFETY: no memory is given.
        unsafe { self.run(command, id, 0, 0, data) }
    }

    /// Makes a device, that is found by this cookie, without a block device yet.
    pub(crate) fn add(&mut self, cookie: u64, disk: &ServedDisk) -> Result<UblkDevice, Error> {
        let mut info = DevInfo {
            queues: queues(),
            depth: DEPTH,
            max_io_bytes: MAX_BYTES,
            id: abi::ANY,
            flags: NEEDED,
            server_flags: cookie,
            ..DevInfo::default()
        };
        let address = (&raw mut info) as u64;
        // SAFETY: the kernel reads and writes a `struct ublksrv_ctrl_dev_info`, which this is.
        let added =
            unsafe { self.run(control::ADD_DEV, abi::ANY, size_of::<DevInfo>(), address, 0) };
        added.map_err(Error::system("make a ublk device"))?;
        let device = UblkDevice::of(&info);
        if let Err(error) = self.describe(device.id, disk) {
            _ = self.delete(device.id);
            return Err(error);
        }
        Ok(device)
    }

    fn describe(&mut self, id: u32, disk: &ServedDisk) -> Result<(), Error> {
        let mut params = params(disk);
        let address = (&raw mut params) as u64;
        // SAFETY: the kernel reads a `struct ublk_params` of the length that it has.
        let set = unsafe { self.run(control::SET_PARAMS, id, size_of::<Params>(), address, 0) };
        set.map_err(Error::system("describe a ublk device"))
    }

    /// Makes the block device, which is read from at once: its server must serve it already.
    pub(crate) fn start(&mut self, id: u32, server: u32) -> rustix::io::Result<()> {
        self.tell(control::START_DEV, id, server.into())
    }

    /// Removes the block device. Waits for the requests that its server has; others fail.
    pub(crate) fn stop(&mut self, id: u32) -> rustix::io::Result<()> {
        self.tell(control::STOP_DEV, id, 0)
    }

    /// Deletes the device. Its server may still have it open.
    pub(crate) fn delete(&mut self, id: u32) -> rustix::io::Result<()> {
        match self.tell(control::DEL_DEV_ASYNC, id, 0) {
            Err(Errno::OPNOTSUPP) => self.tell(control::DEL_DEV, id, 0),
            deleted => deleted,
        }
    }

    /// Begins to take over the device of a killed server. The new server serves it after that, and
    /// [`end_recovery`](Self::end_recovery) hands it what waits.
    pub(crate) fn begin_recovery(&mut self, id: u32) -> rustix::io::Result<()> {
        let begun = Instant::now();
        loop {
            // Busy: the kernel still takes requests back from the killed server.
            match self.tell(control::START_USER_RECOVERY, id, 0) {
                Err(Errno::BUSY) if begun.elapsed() < QUIESCE_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                begun => return begun,
            }
        }
    }

    pub(crate) fn end_recovery(&mut self, id: u32, server: u32) -> rustix::io::Result<()> {
        self.tell(control::END_USER_RECOVERY, id, server.into())
    }

    /// The devices with this cookie: one, if any.
    pub(crate) fn found(&mut self, cookie: u64) -> Vec<UblkDevice> {
        let Ok(all) = fs::read_dir("/sys/class/ublk-char") else { return Vec::new() };
        let names = all.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let ids = names.filter_map(|name| name.strip_prefix("ublkc")?.parse().ok());
        let infos = ids.filter_map(|id| self.info(id).ok());
        infos.filter(|info| info.server_flags == cookie).map(|info| UblkDevice::of(&info)).collect()
    }

    fn info(&mut self, id: u32) -> rustix::io::Result<DevInfo> {
        let mut info = DevInfo::default();
        let address = (&raw mut info) as u64;
        // SAFETY: the kernel writes a `struct ublksrv_ctrl_dev_info`, which this is.
        unsafe { self.run(control::GET_DEV_INFO, id, size_of::<DevInfo>(), address, 0) }?;
        Ok(info)
    }

    /// Whether a device's requests are served.
    pub(crate) fn is_live(&mut self, id: u32) -> bool {
        self.info(id).is_ok_and(|info| info.state == state::LIVE)
    }

    /// A device's size and the bytes of its block.
    pub(crate) fn size(&mut self, id: u32) -> rustix::io::Result<(u64, u32)> {
        let mut params = Params { bytes: size_of::<Params>() as u32, ..Params::default() };
        let address = (&raw mut params) as u64;
        // SAFETY: the kernel writes as much of a `struct ublk_params` as it says.
        unsafe { self.run(control::GET_PARAMS, id, size_of::<Params>(), address, 0) }?;
        Ok((params.sectors << 9, 1 << params.logical_shift))
    }

    /// Waits until a device whose server was killed waits for another one, or is gone. A device that
    /// is live after that never will.
    pub(crate) fn settled(&mut self, cookie: u64) -> Option<UblkDevice> {
        self.settled_within(cookie, QUIESCE_TIMEOUT)
    }

    /// The same, but no longer than this.
    pub(crate) fn settled_within(&mut self, cookie: u64, limit: Duration) -> Option<UblkDevice> {
        let begun = Instant::now();
        loop {
            let device = *self.found(cookie).first()?;
            if !device.is_live() || begun.elapsed() > limit {
                return Some(device);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Hardware queues: so that programs on different processors do not wait for each other in the
/// kernel. One thread serves all.
fn queues() -> u16 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.clamp(1, 4) as u16
}

fn params(disk: &ServedDisk) -> Params {
    let shift = disk.block_bytes.trailing_zeros() as u8;
    // What is written may be volatile until a flush; the kernel makes FUA of flushes.
    let rotational = if disk.rotational { Params::ROTATIONAL } else { 0 };
    let basic = Params {
        bytes: size_of::<Params>() as u32,
        types: Params::BASIC,
        attributes: Params::VOLATILE_CACHE | rotational,
        logical_shift: shift,
        physical_shift: shift,
        io_opt_shift: shift,
        io_min_shift: shift,
        max_sectors: MAX_BYTES >> 9,
        sectors: disk.capacity >> 9,
        ..Params::default()
    };
    if !disk.makes_zeroes {
        return basic;
    }
    Params {
        types: Params::BASIC | Params::DISCARD,
        discard_granularity: disk.discard_bytes,
        max_discard_sectors: u32::MAX >> 9,
        max_write_zeroes_sectors: u32::MAX >> 9,
        max_discard_segments: 1,
        ..basic
    }
}
