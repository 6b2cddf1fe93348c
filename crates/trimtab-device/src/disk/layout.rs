//! Where sectors are, and when they pass under the head.
//!
//! Offsets fill a track, then the cylinder's other tracks, then the next cylinder. The angle of a
//! sector is given as time: the spindle turns once in `period` nanoseconds, and at time t the angle
//! t + phase (modulo the period) is under the heads.

use trimtab_io::Nanos;

use super::profile::{DiskProfile, Seek};

/// The place of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLocation {
    /// Its cylinder.
    pub cylinder: u32,
    /// Its track of the cylinder.
    pub head: u32,
    /// Its index in the track.
    pub sector: u32,
    /// Sectors of that track.
    pub sectors_per_track: u32,
}

/// When the sectors of a request pass under the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// The first sector begins.
    pub(super) first: Nanos,
    /// The last one ends.
    pub(super) end: Nanos,
    /// The place of the last one.
    pub(super) last: DiskLocation,
}

#[derive(Clone, Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
}

/// Geometry and seek curve, in sectors and nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    zones: Box<[Zone]>,
    pub(super) heads: u32,
    pub(super) sector_bytes: u64,
    pub(super) sectors: u64,
    /// Of the spindle, ns.
    pub(super) period: u64,
    track_skew: u64,
    /// Skew of a whole cylinder: of its tracks, and of the step to the next.
    cylinder_skew: u64,
    head_switch: u64,
    /// Distance, time in ns.
    curve: Box<[(u32, f64)]>,
}

pub(super) fn nanos(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

impl Layout {
    pub(super) fn new(profile: &DiskProfile) -> Self {
        let disk = &profile.disk;
        let (mut first_sector, mut first_cylinder) = (0, 0);
        let mut zones = Vec::new();
        for (&cylinders, &track) in disk.zone_cylinders.iter().zip(&disk.zone_sectors_per_track) {
            zones.push(Zone { first_sector, first_cylinder, sectors_per_track: track });
            first_sector += u64::from(cylinders) * u64::from(disk.heads) * u64::from(track);
            first_cylinder += cylinders;
        }
        let period = (60e9 / disk.rpm).round() as u64;
        let Seek { head_switch_us, .. } = profile.seek;
        let track_skew = nanos(disk.track_skew_us.unwrap_or(head_switch_us)) % period;
        let step = nanos(disk.cylinder_skew_us.unwrap_or(profile.seek.us[0])) % period;
        let cylinder_skew = (track_skew * u64::from(disk.heads - 1) + step) % period;
        let times = profile.seek.us.iter().map(|us| us * 1e3);
        Self {
            zones: zones.into(),
            heads: disk.heads,
            sector_bytes: disk.sector_bytes.into(),
            sectors: first_sector,
            period,
            track_skew,
            cylinder_skew,
            head_switch: nanos(head_switch_us),
            curve: profile.seek.cylinders.iter().copied().zip(times).collect(),
        }
    }

    /// The place of a sector, which is on the disk.
    #[inline]
    pub(super) fn locate(&self, sector: u64) -> DiskLocation {
        let zone = self.zones.partition_point(|zone| zone.first_sector <= sector) - 1;
        let zone = &self.zones[zone];
        let (within, track) = (sector - zone.first_sector, u64::from(zone.sectors_per_track));
        let (tracks, heads) = (within / track, u64::from(self.heads));
        DiskLocation {
            cylinder: zone.first_cylinder + (tracks / heads) as u32,
            head: (tracks % heads) as u32,
            sector: (within % track) as u32,
            sectors_per_track: zone.sectors_per_track,
        }
    }

    /// The angle at which a sector begins, ns of a revolution.
    #[inline]
    pub(super) fn angle(&self, at: DiskLocation) -> u64 {
        let skew =
            u64::from(at.cylinder) * self.cylinder_skew + u64::from(at.head) * self.track_skew;
        (skew + u64::from(at.sector) * self.period / u64::from(at.sectors_per_track)) % self.period
    }

    /// Time of a seek over this many cylinders, ns.
    #[inline]
    pub(super) fn seek(&self, cylinders: u32) -> u64 {
        if cylinders == 0 {
            return 0;
        }
        let above = self.curve.partition_point(|&(distance, _)| distance < cylinders);
        let Some(&(far, far_time)) = self.curve.get(above) else {
            return self.beyond(cylinders);
        };
        if far == cylinders {
            return far_time as u64;
        }
        let (near, near_time) = self.curve[above - 1];
        let root = |n: u32| f64::from(n).sqrt();
        let share = (root(cylinders) - root(near)) / (root(far) - root(near));
        (near_time + (far_time - near_time) * share) as u64
    }

    /// Beyond the last known distance the arm has its full speed.
    #[cold]
    fn beyond(&self, cylinders: u32) -> u64 {
        let &[.., (near, near_time), (far, far_time)] = &*self.curve else {
            return self.curve[0].1 as u64;
        };
        let slope = (far_time - near_time) / f64::from(far - near);
        (far_time + slope * f64::from(cylinders - far)) as u64
    }

    /// Time to move between two tracks, ns.
    #[inline]
    pub(super) fn movement(&self, from: DiskLocation, to: DiskLocation) -> u64 {
        match from.cylinder.abs_diff(to.cylinder) {
            0 if from.head == to.head => 0,
            0 => self.head_switch,
            cylinders => self.seek(cylinders),
        }
    }

    /// Time from `at` until a sector begins, for a spindle with this phase.
    #[inline]
    pub(super) fn rotation(&self, to: DiskLocation, at: Nanos, phase: u64) -> u64 {
        let under = (at.0 + phase) % self.period;
        let angle = self.angle(to);
        if angle >= under { angle - under } else { angle + self.period - under }
    }

    /// Time of one sector of this track, ns.
    pub(super) fn sector_time(&self, at: DiskLocation) -> u64 {
        self.period / u64::from(at.sectors_per_track)
    }

    /// Mean time of a sector in a long read, with the steps between tracks, ns.
    pub(super) fn mean_sector_time(&self, at: DiskLocation) -> u64 {
        let tracks = u64::from(self.heads);
        let cylinder = tracks * self.period + self.cylinder_skew;
        cylinder / (tracks * u64::from(at.sectors_per_track))
    }

    /// The first sector of a cylinder.
    pub(super) fn first_of(&self, cylinder: u32) -> u64 {
        let zone = self.zones.partition_point(|zone| zone.first_cylinder <= cylinder) - 1;
        let zone = &self.zones[zone];
        let row = u64::from(self.heads) * u64::from(zone.sectors_per_track);
        zone.first_sector + u64::from(cylinder - zone.first_cylinder) * row
    }

    /// When `count` sectors from `sector` on pass, for a head that is on their track at `at`.
    #[inline]
    pub(super) fn passage(&self, sector: u64, count: u64, at: Nanos, phase: u64) -> Passage {
        let mut place = self.locate(sector);
        let mut time = at + Nanos(self.rotation(place, at, phase));
        let first = time;
        let (mut sector, mut left) = (sector, count);
        loop {
            let track = place.sectors_per_track;
            let here = left.min(u64::from(track - place.sector));
            time += Nanos(here * self.period / u64::from(track));
            left -= here;
            sector += here;
            if left == 0 {
                let last = DiskLocation { sector: place.sector + here as u32 - 1, ..place };
                return Passage { first, end: time, last };
            }
            let next = self.locate(sector);
            time += Nanos(self.movement(place, next));
            time += Nanos(self.rotation(next, time, phase));
            place = next;
        }
    }

    /// Mean time of `count` sectors from `sector` on, without the wait for the first, ns.
    pub(super) fn transfer(&self, sector: u64, count: u64) -> u64 {
        // With an angle that begins now there is no wait for the first.
        let phase = self.angle(self.locate(sector));
        let passage = self.passage(sector, count, Nanos::ZERO, phase);
        passage.end.since(passage.first).0
    }
}
