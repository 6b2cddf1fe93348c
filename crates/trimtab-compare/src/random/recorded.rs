//! Recorded workloads of random arrays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trimtab_io::{DeviceId, Nanos, Op};
use trimtab_sim::Error;
use trimtab_trace::{Trace, TraceOptions};

use super::draw::{Draw, round};
use super::mix::Mix;

/// A recording whose requests arrays may replay.
#[derive(Clone, Debug)]
pub struct Recording {
    path: PathBuf,
    /// Its device with the most reads, if it has several.
    device: Option<String>,
    requests: u64,
    reads: u64,
    /// From the first request to the last.
    length: Nanos,
    /// The tick of its clock.
    tick: Nanos,
    /// Its requests as a synthetic mix, by which drives are measured.
    pub(super) mix: Mix,
}

/// The share of arrays that replay a recording, if there are any.
const PROBABILITY: f64 = 0.3;
/// A recording must have as many reads, and
const FEWEST_READS: u64 = 100;
/// this share of them: an array with fewer would take hours.
const LEAST_SHARE: f64 = 0.02;
/// and no longer request: the least capacity of a drive.
const LONGEST: u64 = 1 << 30;
/// A shorter tick is the one of an exact clock.
const COARSE: Nanos = Nanos::from_micros(1);
/// The most frequent sizes that a mix has.
const SIZES: usize = 8;

/// What a recording holds of one device.
#[derive(Default)]
struct OfDevice {
    requests: u64,
    reads: u64,
    first: Nanos,
    last: Nanos,
    tick: u64,
    longest: u64,
    sizes: [BTreeMap<u64, u32>; 2],
}

impl Recording {
    /// Reads through a recording.
    ///
    /// # Errors
    /// It cannot be read, has no offsets, is out of order, or has too few reads.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let unfit = |what: String| Error::Replay { path: path.to_owned(), what };
        let opened = Trace::open(&[path.to_owned()], &TraceOptions::default());
        let mut trace = opened.map_err(|error| match error {
            // The trace's error names an option that reading commands have.
            trimtab_trace::Error::Ambiguous { candidates, .. } => unfit(format!(
                "fits several formats, write it as Parquet with `trimtab trace convert --format`: \
                 {candidates}"
            )),
            other => Error::Trace(other),
        })?;
        if !trace.meta().has_offsets {
            return Err(unfit("has no offsets, so it cannot be replayed".to_owned()));
        }
        let mut devices: BTreeMap<DeviceId, OfDevice> = BTreeMap::new();
        let mut batch = Vec::new();
        while trace.read(&mut batch).map_err(Error::Trace)? {
            for record in &batch {
                let device = devices.entry(record.device).or_default();
                device.add(record.arrival, record.op, record.length);
            }
        }
        let several = devices.len() > 1;
        let most = devices.into_iter().max_by_key(|(_, device)| device.reads);
        let Some((id, of)) = most else { return Err(unfit("is empty".to_owned())) };
        let share = of.reads as f64 / of.requests as f64;
        if of.reads < FEWEST_READS || share < LEAST_SHARE {
            return Err(unfit(format!(
                "has {} reads, {:.1}% of the requests; random arrays need {FEWEST_READS} of one \
                 device, and {:.0}%",
                of.reads,
                100.0 * share,
                100.0 * LEAST_SHARE
            )));
        }
        if of.longest > LONGEST || of.last <= of.first || of.sizes[0].is_empty() {
            let what = "has requests of more than 1 GiB, no times, or no sizes of its reads";
            return Err(unfit(what.to_owned()));
        }
        Ok(Self {
            // A scenario that is printed should run from anywhere.
            path: std::path::absolute(path)
                .map_err(|source| Error::Open { path: path.to_owned(), source })?,
            device: several.then(|| trace.names().device(id).to_owned()),
            requests: of.requests,
            reads: of.reads,
            length: of.last.since(of.first),
            tick: Nanos(of.tick),
            mix: of.mix(share),
        })
    }

    /// Its file's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// The workloads of so many drives, each with `iops` requests per second in the mean and
    /// all together with `reads` reads, in TOML. They replay the same recording, from the same
    /// moment on if they are `together`.
    pub(super) fn workloads(
        &self,
        draw: &mut Draw,
        drives: usize,
        iops: f64,
        reads: u64,
        together: bool,
    ) -> Vec<String> {
        let length = self.length.as_secs_f64();
        let rate = (iops * length / self.requests as f64).clamp(1e-6, 1e6);
        let repeat = reads.div_ceil(self.reads * drives as u64);
        let start = draw.unit();
        let mut text = format!(
            "trace = {}, offsets = \"scale\", rate = {}, repeat = {repeat}",
            toml::Value::from(self.path.to_string_lossy().into_owned()),
            round(rate)
        );
        if let Some(device) = &self.device {
            text += &format!(", trace_device = {}", toml::Value::from(device.as_str()));
        }
        if self.tick >= COARSE {
            text += &format!(", spread_s = {}", self.tick.as_secs_f64());
        }
        let of = |drive: usize| {
            let apart = if together { 0.0 } else { drive as f64 / drives as f64 };
            let begin = (1e3 * length * ((start + apart) % 1.0)).floor() / 1e3;
            format!("{{ {text}, begin_s = {begin} }}")
        };
        (0..drives).map(of).collect()
    }
}

impl OfDevice {
    fn add(&mut self, arrival: Nanos, op: Op, length: u64) {
        if self.requests == 0 {
            (self.first, self.last) = (arrival, arrival);
        }
        self.tick = greatest_common_divisor(self.tick, arrival.since(self.last).0);
        self.last = self.last.max(arrival);
        self.requests += 1;
        self.reads += u64::from(op == Op::Read);
        self.longest = self.longest.max(length);
        let size = length.next_multiple_of(512);
        if size > 0 && matches!(op, Op::Read | Op::Write) {
            *self.sizes[usize::from(op == Op::Write)].entry(size).or_default() += 1;
        }
    }

    fn mix(self, read_share: f64) -> Mix {
        let [reads, writes] = self.sizes.map(|sizes| {
            let mut sizes: Vec<(u64, u32)> = sizes.into_iter().collect();
            sizes.sort_by_key(|&(bytes, count)| (std::cmp::Reverse(count), bytes));
            sizes.truncate(SIZES);
            sizes
        });
        // Without writes, discards and flushes are measured as if they were the reads.
        let read_share = if writes.is_empty() { 1.0 } else { read_share };
        Mix { read_share, reads, writes, offsets: "{ kind = \"uniform\" }".to_owned() }
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The recording that an array replays, if any. The draws are from a generator of their own:
/// arrays without one are what they would be if there were no recordings.
pub(super) fn choose<'r>(draw: &mut Draw, recordings: &'r [Recording]) -> Option<&'r Recording> {
    if recordings.is_empty() || !draw.chance(PROBABILITY) {
        return None;
    }
    Some(&recordings[draw.below(recordings.len() as u64) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MSR: a time in 100 ns, host, disk, op, offset, bytes, response time.
    fn recorded(requests: u64, reads: u64, disks: u64) -> Result<Recording, Error> {
        let path = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        let line = |i: u64| {
            let (tick, disk) = (128_166_372_000_000_000 + 10_000 * (i / 4), i % 7 % disks);
            let op = if i % requests < reads { "Read" } else { "Write" };
            format!("{tick},h,{disk},{op},{},{},1\n", 4096 * i, 4096 << (i % 2))
        };
        std::fs::write(path.path(), (0..requests).map(line).collect::<String>()).unwrap();
        Recording::open(path.path())
    }

    #[test]
    fn recording_is_measured() {
        let recording = recorded(6000, 3000, 1).unwrap();
        assert_eq!((recording.requests, recording.reads), (6000, 3000));
        assert_eq!((recording.tick, recording.device.clone()), (Nanos::from_millis(1), None));
        assert_eq!(recording.length, Nanos::from_millis(1499));
        assert_eq!(recording.mix.reads, [(4096, 1500), (8192, 1500)]);
        let mut draw = Draw::new(1);
        let workloads = recording.workloads(&mut draw, 3, 8000.0, 20_000, false);
        let has = |text: &str| workloads.iter().all(|workload| workload.contains(text));
        assert!(has("rate = 2, repeat = 3, spread_s = 0.001, begin_s = "), "{workloads:?}");
        let begins: std::collections::BTreeSet<_> = workloads.iter().collect();
        assert_eq!(begins.len(), 3);
        let together = recording.workloads(&mut draw, 3, 8000.0, 20_000, true);
        assert!(together.iter().all(|workload| *workload == together[0]));
    }

    #[test]
    fn the_device_with_most_reads_is_replayed() {
        let recording = recorded(6000, 6000, 2).unwrap();
        assert!(recording.device.is_some());
        assert!((3400..3500).contains(&recording.reads), "{}", recording.reads);
    }

    #[test]
    fn unfit_recordings_are_refused_in_one_line() {
        for (recording, expected) in [
            (recorded(1000, 90, 1), "has 90 reads, 9.0% of the requests; random arrays need 100"),
            (recorded(60_000, 1100, 1), "has 1100 reads, 1.8% of the requests"),
            (Recording::open(Path::new("no-such-file")), "no-such-file"),
        ] {
            let error = recording.unwrap_err();
            assert!(error.is_bad_input());
            let error = error.to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
