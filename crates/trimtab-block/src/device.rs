//! Finding a block device, and the kernel's counters for it.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::DeviceError;
use crate::topology::{self, Topology};

mod identity;

/// A whole disk that can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    sysfs: PathBuf,
    /// The kernel's sequence number, which distinguishes a device from an earlier one of the
    /// same name (Linux 5.15 and newer).
    sequence: Option<u64>,
}

impl BlockDevice {
    /// Finds a device by name (`nvme0n1`) or path (`/dev/nvme0n1`,
    /// `/dev/disk/by-id/…`).
    ///
    /// # Errors
    /// It does not exist, is not a block device, or is one whose requests the block layer does
    /// not see: a partition, or a device built on others.
    pub fn find(given: &str) -> Result<Self, DeviceError> {
        let error = |why: String| DeviceError::new(given, why);
        if !given.contains('/')
            && let Some(hidden) = Self::hidden(given)
        {
            return Ok(hidden);
        }
        let path =
            if given.contains('/') { PathBuf::from(given) } else { Path::new("/dev").join(given) };
        let metadata = fs::metadata(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => error(format!("no such device{}", known_disks())),
            _ => error(format!("cannot look at {}: {e}", path.display())),
        })?;
        if !metadata.file_type().is_block_device() {
            return Err(error(format!("is no block device{}", known_disks())));
        }
        let number = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let link = format!("/sys/dev/block/{}:{}", number.0, number.1);
        let sysfs = fs::canonicalize(&link)
            .map_err(|e| error(format!("the kernel does not list it under {link}: {e}")))?;
        let name = file_name(&sysfs);
        if sysfs.join("partition").exists() {
            let disk = sysfs.parent().map(file_name).unwrap_or_default();
            return Err(error(format!("is a partition, record the whole disk: {disk}")));
        }
        if !sysfs.join("mq").exists() {
            let below = Topology::of(number);
            let below = below.as_ref().map_or(&[][..], Topology::disks);
            let names: Vec<_> = below.iter().map(|disk| &*disk.device.name).collect();
            let hint = match &names[..] {
                [] => String::new(),
                names => format!(", record what it is made of: {}", names.join(" ")),
            };
            return Err(error(format!("has no request queue of its own{hint}")));
        }
        Ok(Self::at(&name, number, &sysfs))
    }

    /// The kernel's sequence number of the disk (Linux 5.15 and newer).
    #[must_use]
    pub const fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Whether its name and number belong to another device by now, or to none: a loop device
    /// that was detached, and perhaps attached to another file, or a drive whose medium was
    /// changed.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.sequence.is_some() && sequence_of(&self.sysfs) != self.sequence
    }

    /// A disk by its name, number and directory in `/sys`.
    pub(crate) fn at(name: &str, number: (u32, u32), sysfs: &Path) -> Self {
        let (name, sysfs) = (name.to_owned(), sysfs.to_owned());
        let sequence = sequence_of(&sysfs);
        Self { name, number, sysfs, sequence }
    }

    /// A disk without a device file, such as a path of an NVMe multipath namespace: requests
    /// use it, but programs cannot open it.
    fn hidden(name: &str) -> Option<Self> {
        let sysfs = fs::canonicalize(Path::new("/sys/block").join(name)).ok()?;
        let is_hidden = sysfs.join("mq").exists() && !sysfs.join("dev").exists();
        let number = is_hidden.then(|| topology::number_of_hidden(&sysfs))??;
        Some(Self::at(name, number, &sysfs))
    }

    /// The number as the BPF programs compare it.
    #[must_use]
    pub const fn kernel_number(&self) -> u32 {
        self.number.0 << 20 | self.number.1
    }

    /// Whether the completion of one of its requests may interrupt that of another on the same
    /// CPU. If a device has one hardware queue, the block layer completes all its requests in
    /// soft interrupts, which do not nest; unless the machine has only one CPU. With several
    /// queues it completes some of them in hard interrupts, and polled ones in the process
    /// (`blk_mq_complete_request_remote` in the kernel's block/blk-mq.c).
    #[must_use]
    pub fn completions_may_nest(&self) -> bool {
        let queues = entries(&self.sysfs.join("mq"));
        let [queue] = &queues[..] else { return true };
        let cpus = entries(queue).iter().filter(|path| path.is_dir()).count();
        cpus < 2
    }

    /// Whether the kernel counts no data request at the driver. (It does not count flush
    /// commands.) False if it keeps no count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let read = |file| fs::read_to_string(self.sysfs.join(file)).unwrap_or_default();
        read("queue/iostats").trim() == "1" && read("inflight").split_whitespace().eq(["0", "0"])
    }

    /// All whole disks that can be recorded and are not empty, by name.
    #[must_use]
    pub fn all() -> Vec<Self> {
        disk_names().iter().filter_map(|name| Self::find(name).ok()).collect()
    }

    /// The number of reads and writes at the driver. (The kernel does not count flush
    /// commands.) `None` while its statistics are switched off.
    ///
    /// # Errors
    /// The device is gone.
    pub fn in_flight(&self) -> io::Result<[u32; 2]> {
        let text = fs::read_to_string(self.sysfs.join("inflight"))?;
        let mut numbers = text.split_whitespace().map(|n| n.parse().unwrap_or(0));
        Ok([numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)])
    }

    /// Its size, in bytes.
    ///
    /// # Errors
    /// The device is gone.
    pub fn size(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.sysfs.join("size"))?;
        // The kernel counts in sectors of 512 bytes, independent of the device's.
        let sectors: u64 = text.trim().parse().map_err(io::Error::other)?;
        Ok(sectors * 512)
    }

    /// Total requests and bytes that the kernel counts for it since boot.
    ///
    /// # Errors
    /// The device is gone, or the kernel's file is not as documented.
    pub fn stat(&self) -> io::Result<DeviceStat> {
        let text = fs::read_to_string(self.sysfs.join("stat"))?;
        DeviceStat::parse(&text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("unexpected block statistics: {text}"),
            )
        })
    }
}

/// The kernel's sequence number of a disk.
fn sequence_of(sysfs: &Path) -> Option<u64> {
    fs::read_to_string(sysfs.join("diskseq")).ok()?.trim().parse().ok()
}

/// The entries of a directory; none if it cannot be read.
fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// "; there are vda nvme0n1", a hint for a mistyped name.
fn known_disks() -> String {
    let names = disk_names();
    if names.is_empty() { String::new() } else { format!("; there are {}", names.join(" ")) }
}

/// The names of all disks that have a request queue and are not empty.
fn disk_names() -> Vec<String> {
    let mut names: Vec<_> = entries(Path::new("/sys/block"))
        .iter()
        .filter(|disk| {
            let size = fs::read_to_string(disk.join("size")).unwrap_or_default();
            disk.join("mq").exists() && size.trim() != "0"
        })
        .map(|disk| file_name(disk))
        .collect();
    names.sort();
    names
}

/// Requests and bytes of one op, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpStat {
    /// Requests completed.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// The part of `/sys/block/DEV/stat` that a recording can be compared with
/// (kernel documentation: block/stat.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStat {
    /// Reads.
    pub reads: OpStat,
    /// Writes; the kernel counts flush requests without data here too.
    pub writes: OpStat,
    /// Discards.
    pub discards: OpStat,
    /// Flush commands.
    pub flushes: u64,
}

impl DeviceStat {
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> =
            text.split_whitespace().map(|f| f.parse().ok()).collect::<Option<_>>()?;
        let op =
            |i: usize| Some(OpStat { requests: *fields.get(i)?, bytes: fields.get(i + 2)? * 512 });
        Some(Self { reads: op(0)?, writes: op(4)?, discards: op(11)?, flushes: *fields.get(15)? })
    }

    /// What was added since `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        const fn difference(a: OpStat, b: OpStat) -> OpStat {
            OpStat {
                requests: a.requests.wrapping_sub(b.requests),
                bytes: a.bytes.wrapping_sub(b.bytes),
            }
        }
        Self {
            reads: difference(self.reads, earlier.reads),
            writes: difference(self.writes, earlier.writes),
            discards: difference(self.discards, earlier.discards),
            flushes: self.flushes.wrapping_sub(earlier.flushes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_counters() {
        let text = " 10 1 80 5 20 2 160 7 0 9 12 3 0 4096 11 6 13\n";
        let stat = DeviceStat::parse(text).unwrap();
        assert_eq!(stat.reads, OpStat { requests: 10, bytes: 80 * 512 });
        assert_eq!(stat.writes, OpStat { requests: 20, bytes: 160 * 512 });
        assert_eq!(stat.discards, OpStat { requests: 3, bytes: 4096 * 512 });
        assert_eq!(stat.flushes, 6);
        assert_eq!(stat.since(&stat), DeviceStat::default());
        assert!(DeviceStat::parse("1 2 x").is_none());
    }

    #[test]
    fn errors_name_the_problem() {
        let why = |name| BlockDevice::find(name).unwrap_err().to_string();
        assert!(why("nosuchdisk").starts_with("nosuchdisk: no such device"));
        assert!(why("/dev/null").starts_with("/dev/null: is no block device"));
    }
}
