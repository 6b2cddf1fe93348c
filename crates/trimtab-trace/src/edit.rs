//! Edits of a trace stream: selecting a part ([`Cut`], [`BusiestWindow`]), and changing its rate
//! ([`Rerate`]).
//!
//! Each takes batches from [`Trace::read`](crate::Trace::read), in arrival order, and preserves
//! that order. All times are integers, so a thousand-hour trace is as exact at its end as at its
//! beginning.

mod busiest;
mod rerate;

use trimtab_io::{DeviceId, Nanos};

use crate::names::Names;
use crate::record::Record;

pub use self::busiest::BusiestWindow;
pub use self::rerate::Rerate;

/// Selects a time range, or one device, or both.
///
/// Times count from the first arrival of the trace, on any device. A request belongs to the range
/// by its arrival, whenever it completes.
#[derive(Clone, Debug)]
pub struct Cut {
    from: Nanos,
    to: Nanos,
    device: Option<DeviceFilter>,
    first: Option<Nanos>,
}

#[derive(Clone, Debug)]
struct DeviceFilter {
    name: String,
    /// Known once the device has appeared.
    id: Option<DeviceId>,
}

impl Cut {
    /// Selects arrivals in [`from`, `to`), on `device` if there is one.
    #[must_use]
    pub fn new(from: Nanos, to: Nanos, device: Option<&str>) -> Self {
        let device = device.map(|name| DeviceFilter { name: name.to_owned(), id: None });
        Self { from, to, device, first: None }
    }

    /// Retains the selected records of `batch`. Returns false when no later record can be selected.
    pub fn apply(&mut self, batch: &mut Vec<Record>, names: &Names) -> bool {
        let Some(last) = batch.last().copied() else { return true };
        let first = *self.first.get_or_insert(batch[0].arrival);
        let (from, to) = (self.from, self.to);
        batch.retain(|r| {
            let at = r.arrival.since(first);
            from <= at && at < to
        });
        if let Some(only) = &mut self.device {
            if only.id.is_none() {
                only.id = names.find_device(&only.name);
            }
            batch.retain(|r| Some(r.device) == only.id);
        }
        last.arrival.since(first) < to
    }

    /// The trace's first arrival, once there was one.
    #[must_use]
    pub const fn first(&self) -> Option<Nanos> {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_io::Op;

    fn records(arrivals: &[(u64, u32)]) -> Vec<Record> {
        let record =
            |&(at, device)| Record::arriving(Nanos(at), DeviceId(device), Op::Read, 0, 512);
        arrivals.iter().map(record).collect()
    }

    /// What remains of two batches, and what `apply` returned for each.
    fn cut(mut cut: Cut, batches: [&[(u64, u32)]; 2]) -> (Vec<(u64, u32)>, [bool; 2]) {
        let mut names = Names::default();
        names.add_device("a").unwrap();
        names.add_device("b").unwrap();
        let mut kept = Vec::new();
        let more = batches.map(|batch| {
            let mut batch = records(batch);
            let more = cut.apply(&mut batch, &names);
            kept.extend(batch.iter().map(|r| (r.arrival.0, r.device.0)));
            more
        });
        (kept, more)
    }

    #[test]
    fn ranges_count_from_the_first_arrival_of_any_device() {
        let batches: [&[_]; 2] = [&[(1000, 0), (1010, 1)], &[(1019, 1), (1020, 0), (1020, 1)]];
        let (kept, more) = cut(Cut::new(Nanos(10), Nanos(20), None), batches);
        assert_eq!((kept, more), (vec![(1010, 1), (1019, 1)], [true, false]));
        let (kept, more) = cut(Cut::new(Nanos(19), Nanos::MAX, Some("b")), batches);
        assert_eq!((kept, more), (vec![(1019, 1), (1020, 1)], [true, true]));
        let (kept, _) = cut(Cut::new(Nanos(0), Nanos::MAX, Some("c")), batches);
        assert!(kept.is_empty());
        let (kept, _) = cut(Cut::new(Nanos(5), Nanos(5), None), batches);
        assert!(kept.is_empty());
    }
}
