//! The requests of a phase.

use trimtab_device::DriveProfile;
use trimtab_io::{Issuer, Nanos, derived_seed};
use trimtab_sim::array::ArrayIo;
use trimtab_sim::scenario::DeviceSpec;
use trimtab_sim::{Error, NEVER, Source};
use trimtab_steer::Replica;

use crate::spec::groups::Group;

/// The part of the workloads that makes a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slice {
    /// Its start on the workloads' clock; `None`: the end of the previous phase.
    pub(crate) from: Option<Nanos>,
    /// Its duration,
    pub(crate) duration: Option<Nanos>,
    /// or the number of reads, of all drives together, that ends it.
    pub(crate) reads: Option<u64>,
}

/// The most requests per read, in the long run: more would only cost time and memory.
const MOST_PER_READ: u64 = 1000;

/// All the workloads of an array, merged in order of time.
pub(crate) struct Workloads {
    sources: Vec<WorkloadSource>,
    drives: usize,
    /// Reads of a user's request.
    parallel: u32,
}

/// How the workloads of an array are related.
pub(crate) struct WorkloadOptions {
    /// Whether they have their bursts together.
    pub(crate) correlated: bool,
    /// The upper bound of their offsets, bytes.
    pub(crate) reach: Option<u64>,
    /// Reads of a user's request.
    pub(crate) parallel: u32,
}

/// One workload.
struct WorkloadSource {
    source: Source,
    drive: Replica,
    issuer: Issuer,
    is_noise: bool,
}

impl Workloads {
    /// The workloads of these devices. Offsets are limited to the smallest device of the group,
    /// because every block is on all of them, and to `reach`.
    pub(crate) fn new(
        devices: &[DeviceSpec<DriveProfile>],
        groups: &[Group],
        seed: u64,
        options: &WorkloadOptions,
    ) -> Result<Self, Error> {
        let capacity_of = |number: usize| {
            let group = groups.iter().find(|group| group.drives.contains(&number));
            let drives = group.iter().flat_map(|group| &group.drives);
            let capacities = drives.map(|&drive| devices[drive].profile.capacity_bytes());
            capacities.chain(options.reach).min().unwrap_or_default()
        };
        let bursts = options.correlated.then(|| derived_seed(seed, u64::MAX - 1));
        let mut sources = Vec::new();
        for (number, device) in (0..).zip(devices) {
            let capacity = capacity_of(number as usize);
            for workload in &device.workloads {
                let seed = derived_seed(seed, number);
                // Neighbours of different drives know nothing of each other.
                let bursts = bursts.filter(|_| !workload.is_noise());
                let source = workload.build(capacity, seed, bursts)?.source;
                let (issuer, is_noise) = (workload.issuer(), workload.is_noise());
                let drive = Replica(number as u8);
                sources.push(WorkloadSource { source, drive, issuer, is_noise });
            }
        }
        Ok(Self { sources, drives: devices.len(), parallel: options.parallel })
    }

    /// The requests of the next phase, counted from its beginning; `phase` is
    /// its name.
    ///
    /// # Errors
    /// The workloads end before the phase does, or one has no reads in it.
    pub(crate) fn take(&mut self, phase: &str, slice: &Slice) -> Result<Vec<ArrayIo>, Error> {
        while let Some(from) = slice.from
            && self.next().is_some_and(|(at, _)| at < from)
        {
            self.request()?;
        }
        let start = slice.from.or(self.next().map(|(at, _)| at)).unwrap_or_default();
        let end = slice.duration.map_or(NEVER, |duration| start + duration);
        let wanted = slice.reads.unwrap_or(u64::MAX);
        let (mut requests, mut reads) = (Vec::new(), vec![0; self.drives]);
        while reads.iter().sum::<u64>() < wanted {
            match self.next() {
                Some((at, _)) if at >= end => break,
                Some(_) => {}
                None => {
                    let reads: u64 = reads.iter().sum();
                    let what = format!("the workloads end in it, after {reads} reads");
                    return Err(Error::Scenario(format!("`{phase}` is too long: {what}")));
                }
            }
            let Some(io) = self.request()? else { break };
            if requests.len() as u64 >= MOST_PER_READ * (1000 + reads.iter().sum::<u64>()) {
                let (all, reads) = (requests.len(), reads.iter().sum::<u64>());
                let what = format!("only {reads} of its first {all} requests are reads");
                let todo = "comparing needs reads: raise `read_share`";
                return Err(Error::Scenario(format!("`{phase}`: {what}; {todo}")));
            }
            reads[io.primary.index()] += u64::from(io.is_steered());
            requests.push(ArrayIo { at: io.at.since(start), ..io });
        }
        let steered = |drive: usize| {
            let own = |one: &WorkloadSource| one.drive.index() == drive && !one.is_noise;
            self.sources.iter().any(own)
        };
        if let Some(idle) = (0..self.drives).find(|&drive| reads[drive] == 0 && steered(drive)) {
            let what = format!("device number {idle}, from 0, has no reads in it");
            return Err(Error::Scenario(format!("`{phase}` is too short: {what}")));
        }
        gather(&mut requests, self.parallel);
        Ok(requests)
    }

    /// The time of the next request, and its workload; at one instant the first workload's.
    fn next(&self) -> Option<(Nanos, usize)> {
        let next = self.sources.iter().map(|one| one.source.next()).zip(0..).min()?;
        (next.0 != NEVER).then_some(next)
    }

    fn request(&mut self) -> Result<Option<ArrayIo>, Error> {
        let Some((at, number)) = self.next() else { return Ok(None) };
        let WorkloadSource { source, drive, issuer, is_noise } = &mut self.sources[number];
        let (drawn, _) = source.take()?;
        let io = ArrayIo::new(at, drawn.op, drawn.offset, drawn.length, *drive);
        Ok(Some(ArrayIo { issuer: *issuer, is_noise: *is_noise, ..io }))
    }
}

/// The most user requests that wait for more reads.
const MOST_OPEN: usize = 64;

/// Makes user requests of this many reads: of reads that follow each other, each of another drive.
/// They arrive when the first of them would have.
fn gather(requests: &mut [ArrayIo], parallel: u32) {
    if parallel <= 1 {
        return;
    }
    // User requests that are not complete: the number, the time, the drives.
    let mut open: Vec<(u32, Nanos, Vec<Replica>)> = Vec::new();
    let mut next = 0;
    for io in requests.iter_mut().filter(|io| io.is_steered()) {
        let place = open.iter().position(|(.., drives)| !drives.contains(&io.primary));
        let place = place.unwrap_or_else(|| {
            open.push((next, io.at, Vec::new()));
            next += 1;
            open.len() - 1
        });
        let (number, at, drives) = &mut open[place];
        (io.user_request, io.at) = (*number, *at);
        drives.push(io.primary);
        // Where one drive has most of the reads, the user requests that wait for another are small.
        if drives.len() as u32 == parallel {
            open.remove(place);
        } else if open.len() > MOST_OPEN {
            open.remove(0);
        }
    }
    requests.sort_by_key(|io| io.at);
}

#[cfg(test)]
mod tests {
    use trimtab_io::Op;

    use super::*;
    use crate::Comparison;

    fn workloads(correlated: bool) -> Workloads {
        let text = "phase_one = { reads = 1 }
            phase_two = { reads = 1 }
            [workload]
            read_share = 0.5
            sizes = [{ bytes = 4096, weight = 1 }]
            offsets = { kind = 'uniform' }
            arrivals = { kind = 'bursty', on_iops = 5000, off_iops = 0, on_ms = 20, off_ms = 80 }
            [[device]]
            profile = 'reference'
            capacity = '8G'
            [[device]]
            profile = 'reference'
            capacity = '12G'";
        let comparison = Comparison::parse(text, ".".as_ref()).unwrap();
        workloads_of(&comparison, correlated, 1)
    }

    fn workloads_of(comparison: &Comparison, correlated: bool, parallel: u32) -> Workloads {
        let options = WorkloadOptions { correlated, reach: None, parallel };
        Workloads::new(&comparison.devices, &comparison.groups, 1, &options).unwrap()
    }

    #[test]
    fn user_requests_have_reads_of_different_drives() {
        let read = |at: u64, drive: u8| ArrayIo::new(Nanos(at), Op::Read, 0, 4096, Replica(drive));
        let noise = ArrayIo { is_noise: true, ..read(3, 1) };
        let write = ArrayIo::new(Nanos(4), Op::Write, 0, 4096, Replica(1));
        let mut requests =
            [read(1, 0), read(2, 0), noise, write, read(5, 1), read(6, 1), read(7, 2)];
        gather(&mut requests, 2);
        let steered = requests.iter().filter(|io| io.is_steered());
        let of: Vec<_> = steered.map(|io| (io.user_request, io.at.0, io.primary.0)).collect();
        assert_eq!(of, [(0, 1, 0), (0, 1, 1), (1, 2, 0), (1, 2, 1), (2, 7, 2)]);
        assert!(requests.is_sorted_by_key(|io| io.at));
        assert_eq!(requests.iter().filter(|io| io.at == Nanos(3) || io.at == Nanos(4)).count(), 2);
    }

    const fn seconds(from: Option<Nanos>, duration: u64) -> Slice {
        Slice { from, duration: Some(Nanos::from_secs(duration)), reads: None }
    }

    #[test]
    fn phases_are_parts_of_one_workload() {
        let whole = workloads(true).take("whole", &seconds(Some(Nanos::ZERO), 20)).unwrap();
        assert!(whole.is_sorted_by_key(|io| io.at));
        assert!(whole.iter().all(|io| io.offset + io.length <= 9 << 30), "fits the smallest");
        let mut parts = workloads(true);
        let first = parts.take("first", &seconds(Some(Nanos::from_secs(2)), 5)).unwrap();
        let later = parts.take("later", &seconds(Some(Nanos::from_secs(12)), 5)).unwrap();
        for (part, start) in [(first, 2), (later, 12)] {
            let (start, end) = (Nanos::from_secs(start), Nanos::from_secs(start + 5));
            let within = whole.iter().filter(|io| io.at >= start && io.at < end);
            assert!(part.iter().copied().eq(within.map(|io| ArrayIo { at: io.at - start, ..*io })));
        }
    }

    #[test]
    fn correlated_bursts_coincide() {
        let shared = |correlated| {
            let all = workloads(correlated).take("all", &seconds(None, 20)).unwrap();
            // Hundredths of a second in which each drive has requests.
            let busy = |drive: u8| {
                let own = all.iter().filter(|io| io.primary == Replica(drive));
                own.map(|io| io.at.0 / 10_000_000).collect::<std::collections::BTreeSet<_>>()
            };
            let (one, other) = (busy(0), busy(1));
            one.intersection(&other).count() as f64 / one.len() as f64
        };
        assert!(shared(true) > 0.9 && shared(false) < 0.5, "{} {}", shared(true), shared(false));
    }

    #[test]
    fn workload_without_reads_is_refused() {
        let text = "phase_one = { reads = 1 }
            phase_two = { reads = 1 }
            [workload]
            read_share = 0
            sizes = [{ bytes = 4096, weight = 1 }]
            offsets = { kind = 'uniform' }
            arrivals = { kind = 'poisson', iops = 100_000 }
            [[device]]
            profile = 'reference'
            capacity = '8G'
            [[device]]
            profile = 'reference'
            capacity = '8G'";
        let comparison = Comparison::parse(text, ".".as_ref()).unwrap();
        let mut none = workloads_of(&comparison, true, 1);
        let slice = Slice { from: None, duration: None, reads: Some(1) };
        let error = none.take("phase_one", &slice).unwrap_err().to_string();
        assert!(
            error.contains("`phase_one`: only 0 of its first 1000000 requests are reads"),
            "{error}"
        );
    }

    #[test]
    fn reads_end_a_phase() {
        let slice = Slice { from: None, duration: None, reads: Some(1000) };
        let requests = workloads(true).take("all", &slice).unwrap();
        assert_eq!(requests.iter().filter(|io| io.op == Op::Read).count(), 1000);
        assert_eq!(requests.last().unwrap().op, Op::Read);
    }
}
