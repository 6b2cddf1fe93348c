//! The buffer's read segments.
//!
//! A segment holds consecutive sectors. The one that the arm is filling grows with time: what it
//! holds is computed when it is asked for, so reading ahead takes no events.

use trimtab_io::Nanos;

use super::profile;

/// Consecutive sectors in the buffer.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u64,
    end: u64,
    used: u64,
}

/// The segment that the arm is filling.
#[derive(Clone, Copy, Debug)]
struct Filling {
    /// When the arm was at `from`.
    start: Nanos,
    from: u64,
    /// Where the segment is full.
    until: u64,
    /// Mean time of a sector, ns.
    sector_time: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// The one that is being filled is first.
    segments: Vec<Segment>,
    most: usize,
    /// Sectors of a segment.
    size: u64,
    /// Sectors of the disk.
    sectors: u64,
    keep_sent: bool,
    filling: Option<Filling>,
    clock: u64,
}

impl Cache {
    pub(super) fn new(of: &profile::Cache, sector_bytes: u64, sectors: u64) -> Self {
        Self {
            segments: Vec::with_capacity(of.segments as usize + 1),
            most: of.segments as usize,
            size: (u64::from(of.segment_kib) * 1024 / sector_bytes).max(1),
            sectors,
            keep_sent: of.keep_sent,
            filling: None,
            clock: 0,
        }
    }

    /// Sectors of a segment.
    pub(super) const fn segment(&self) -> u64 {
        self.size
    }

    /// When a read may be sent from the buffer, at the earliest `now`; `None` if it misses.
    pub(super) fn read(&mut self, first: u64, end: u64, now: Nanos) -> Option<Nanos> {
        let filling = self.filling;
        let found = (0..self.segments.len()).find_map(|i| {
            let segment = &self.segments[i];
            let growing = filling.filter(|_| i == 0);
            let reach = growing.map_or(segment.end, |filling| filling.until);
            (segment.first <= first && end <= reach).then_some((i, growing))
        });
        let (i, growing) = found?;
        self.clock += 1;
        self.segments[i].used = self.clock;
        if !self.keep_sent {
            self.segments[i].first = end;
        }
        let Some(growing) = growing else { return Some(now) };
        let missing = end.saturating_sub(growing.from);
        let ready = growing.start + Nanos(missing * growing.sector_time);
        let complete = growing.start + Nanos((growing.until - growing.from) * growing.sector_time);
        if let Some(filling) = self.filling.as_mut().filter(|_| complete > now) {
            // A program that reads on keeps the arm reading.
            filling.until = filling.until.max(end + self.size).min(self.sectors);
            // The oldest data gives way.
            let oldest = end.saturating_sub(self.size);
            self.segments[0].first = self.segments[0].first.max(oldest);
        }
        Some(ready.max(now))
    }

    /// Whether a read at `now` would be sent from the buffer, data included that the arm brings
    /// without being moved.
    pub(super) fn holds(&self, first: u64, end: u64) -> bool {
        self.segments.iter().enumerate().any(|(i, segment)| {
            let growing = self.filling.filter(|_| i == 0);
            let reach = growing.map_or(segment.end, |filling| filling.until);
            segment.first <= first && end <= reach
        })
    }

    /// Begins to fill a segment, of which the arm has read up to `end` at time `at`. `first` is the
    /// first sector that it holds.
    pub(super) fn fill(
        &mut self,
        (first, sent, end): (u64, u64, u64),
        at: Nanos,
        sector_time: u64,
    ) {
        if self.most == 0 {
            return;
        }
        let until = (sent + self.size).min(self.sectors).max(end);
        self.drop_range(first, end);
        self.insert(first, end);
        if !self.keep_sent {
            self.segments[0].first = end;
        }
        self.filling = Some(Filling { start: at, from: end, until, sector_time });
    }

    /// The sector where the arm is at time `now`, if it is reading ahead or has come to an end of
    /// that.
    pub(super) fn reading(&self, now: Nanos) -> Option<u64> {
        let filling = self.filling.as_ref()?;
        let read = now.since(filling.start).0 / filling.sector_time.max(1);
        Some((filling.from + read).min(filling.until))
    }

    /// Ends filling at time `now`; returns the sector where the arm is, if it was reading.
    pub(super) fn stop(&mut self, now: Nanos) -> Option<u64> {
        let end = self.reading(now)?;
        self.filling = None;
        let segment = &mut self.segments[0];
        segment.end = segment.end.max(end);
        Some(end)
    }

    /// Buffers written data; what is held of that range is obsolete.
    pub(super) fn write(&mut self, first: u64, end: u64, now: Nanos) {
        if self.most == 0 {
            return;
        }
        // Written data may be part of what the arm is reading.
        let held = self.segments.iter().any(|s| s.first < end && first < s.end + self.size);
        if held {
            _ = self.stop(now);
            self.drop_range(first, end);
        }
        let continued = self.segments.iter_mut().skip(usize::from(self.filling.is_some()));
        self.clock += 1;
        for segment in continued {
            if segment.end == first && end - segment.first <= self.size {
                (segment.end, segment.used) = (end, self.clock);
                return;
            }
        }
        _ = self.stop(now);
        self.insert(first, end);
    }

    /// Adds a segment as the first, in place of the least recently used.
    fn insert(&mut self, first: u64, end: u64) {
        self.filling = None;
        self.clock += 1;
        let segment = Segment { first, end, used: self.clock };
        if self.segments.len() < self.most {
            self.segments.push(segment);
            let last = self.segments.len() - 1;
            self.segments.swap(0, last);
            return;
        }
        let oldest = (0..self.segments.len()).min_by_key(|&i| self.segments[i].used);
        let oldest = oldest.expect("there are segments");
        self.segments[oldest] = segment;
        self.segments.swap(0, oldest);
    }

    /// Forgets this range, and of a segment that holds a part of it all.
    pub(super) fn drop_range(&mut self, first: u64, end: u64) {
        let mut i = 0;
        while i < self.segments.len() {
            let segment = self.segments[i];
            if segment.first < end && first < segment.end {
                if i == 0 {
                    self.filling = None;
                }
                self.segments.swap_remove(i);
            } else {
                i += 1;
            }
        }
    }
}
