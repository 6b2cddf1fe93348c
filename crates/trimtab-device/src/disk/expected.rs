//! Service times in closed form, for predictors.

use trimtab_io::{Nanos, Op};

use super::layout::{DiskLocation, Layout, nanos};
use super::profile::DiskProfile;

/// Times of the electronics, ns.
#[derive(Clone, Debug)]
pub(super) struct Electronics {
    pub(super) command: Nanos,
    pub(super) hit: Nanos,
    pub(super) sequential_hit: Nanos,
    pub(super) write: Nanos,
    pub(super) distant_write: Nanos,
    pub(super) write_after_read: Nanos,
    pub(super) write_settle: u64,
    /// Of a byte on the bus.
    bus_ns: f64,
}

impl Electronics {
    pub(super) fn new(profile: &DiskProfile) -> Self {
        let of = &profile.interface;
        let time = |us| Nanos(nanos(us));
        Self {
            command: time(of.command_us),
            hit: time(of.hit_us),
            sequential_hit: time(of.sequential_hit_us.unwrap_or(of.hit_us)),
            write: time(of.write_us),
            distant_write: time(of.distant_write_us.unwrap_or(of.write_us)),
            write_after_read: time(of.write_after_read_us.unwrap_or(of.write_us)),
            write_settle: nanos(profile.seek.write_settle_us),
            bus_ns: 1e3 / of.bus_mb_s,
        }
    }

    /// Time of this many bytes on the bus.
    pub(super) fn bus(&self, bytes: u64) -> Nanos {
        Nanos((bytes as f64 * self.bus_ns) as u64)
    }
}

/// The service times of a disk that is idle when a request comes, and has none of its data in the
/// buffer.
///
/// ```
/// use trimtab_device::{DiskProfile, DiskTiming};
/// use trimtab_io::{Nanos, Op};
///
/// let profile = DiskProfile::builtin("disk-7200").unwrap();
/// let timing = DiskTiming::new(&profile);
/// let near = timing.expected_service(1 << 30, Op::Read, 1 << 30, 4096);
/// let far = timing.expected_service(0, Op::Read, profile.capacity_bytes() / 2, 4096);
/// // Half a revolution of 8.33 ms, and a seek.
/// assert!(near > Nanos::from_millis(4) && far > near + Nanos::from_millis(5));
/// ```
#[derive(Clone, Debug)]
pub struct DiskTiming {
    layout: Layout,
    electronics: Electronics,
    buffers_writes: bool,
    /// How far a read is followed by reading ahead, bytes; 0: it is not.
    ahead: u64,
}

impl DiskTiming {
    /// The timing of a disk of this profile.
    #[must_use]
    pub fn new(profile: &DiskProfile) -> Self {
        Self {
            layout: Layout::new(profile),
            electronics: Electronics::new(profile),
            buffers_writes: profile.cache.write_kib > 0,
            ahead: if profile.cache.segments > 0 { profile.cache.segment_kib.into() } else { 0 }
                * 1024,
        }
    }

    /// Whether writes complete in the buffer.
    #[must_use]
    pub const fn buffers_writes(&self) -> bool {
        self.buffers_writes
    }

    /// The time of a read from the buffer.
    #[must_use]
    pub fn buffered(&self, length: u64) -> Nanos {
        self.electronics.hit + self.electronics.bus(length)
    }

    /// The time of a read that goes on where the disk reads ahead, after a request that ended at
    /// byte `previous_end` and has just completed: its data come at the speed of the platters.
    /// `None`: it is elsewhere.
    #[must_use]
    pub fn read_ahead(&self, previous_end: u64, offset: u64, length: u64) -> Option<Nanos> {
        let skipped = offset.checked_sub(previous_end)?;
        if previous_end == 0 || skipped + length > self.ahead {
            return None;
        }
        let bytes = self.layout.sector_bytes;
        let sector_time = self.layout.mean_sector_time(self.locate(offset));
        let media = (skipped + length).div_ceil(bytes) * sector_time;
        let of = &self.electronics;
        Some((of.sequential_hit + of.bus(length)).max(Nanos(media) + of.bus(bytes.min(length))))
    }

    /// One revolution.
    #[must_use]
    pub const fn revolution(&self) -> Nanos {
        Nanos(self.layout.period)
    }

    /// Where the sector of a byte is. Offsets beyond the end are taken for the last sector.
    #[must_use]
    pub fn locate(&self, offset: u64) -> DiskLocation {
        self.layout.locate(self.sector(offset))
    }

    /// Time of a seek over this many cylinders, settling included.
    #[must_use]
    pub fn seek(&self, cylinders: u32) -> Nanos {
        Nanos(self.layout.seek(cylinders))
    }

    /// The mean service time over all angles of the spindle: seek, half a revolution, transfer, and
    /// the electronics. The arm is where a request ended that reached up to byte `previous_end`.
    /// A write into the buffer takes no time of the arm. O(log of zones and seek points), and the
    /// request's tracks; no allocation.
    #[must_use]
    pub fn expected_service(&self, previous_end: u64, op: Op, offset: u64, length: u64) -> Nanos {
        let of = &self.electronics;
        match op {
            Op::Discard | Op::Flush => of.command,
            Op::Write if self.buffers_writes => of.distant_write + of.bus(length),
            Op::Read | Op::Write => {
                let from = self.locate(previous_end.saturating_sub(1));
                let sector = self.sector(offset);
                let to = self.layout.locate(sector);
                let settle = if op == Op::Write { of.write_settle } else { 0 };
                let wait = self.layout.movement(from, to) + settle + self.layout.period / 2;
                self.preparation(op, length) + self.after_wait(op, sector, length, Nanos(wait))
            }
        }
    }

    /// The exact service time of a request that the arm serves, for an arm at `head` and a spindle
    /// that had the angle `phase` at time zero: the disk has the request since `entered`, and the
    /// arm is free at `now`. A request that has waited for the arm pays for no command.
    #[must_use]
    pub fn exact_service(
        &self,
        (head, phase): (DiskLocation, Nanos),
        (entered, now): (Nanos, Nanos),
        op: Op,
        offset: u64,
        length: u64,
    ) -> Nanos {
        let of = &self.electronics;
        let sector = self.sector(offset);
        let to = self.layout.locate(sector);
        let mut wait = self.layout.movement(head, to);
        if op == Op::Write {
            wait += of.write_settle;
        }
        let begun = now.max(entered + self.preparation(op, length));
        wait += self.layout.rotation(to, begun + Nanos(wait), phase.0 % self.layout.period);
        begun.since(now) + self.after_wait(op, sector, length, Nanos(wait))
    }

    /// Before the arm moves: the command, and the data of a write.
    fn preparation(&self, op: Op, length: u64) -> Nanos {
        let of = &self.electronics;
        if op == Op::Write { of.command + of.bus(length) } else { of.command }
    }

    /// The service time of a request, prepared before, whose first sector is at the head after
    /// `wait`.
    fn after_wait(&self, op: Op, sector: u64, length: u64, wait: Nanos) -> Nanos {
        let of = &self.electronics;
        let bytes = self.layout.sector_bytes;
        let count = length.div_ceil(bytes).max(1).min(self.layout.sectors - sector);
        let transfer = Nanos(self.layout.transfer(sector, count));
        if op == Op::Write {
            return wait + transfer;
        }
        let sector_time = Nanos(self.layout.sector_time(self.layout.locate(sector)));
        let media = transfer + of.bus(bytes.min(length));
        wait + media.max(sector_time + of.bus(length))
    }

    fn sector(&self, offset: u64) -> u64 {
        (offset / self.layout.sector_bytes).min(self.layout.sectors - 1)
    }
}
