//! Recordings of drives, from traces.

use std::collections::BTreeMap;

use trimtab_io::{DeviceId, Nanos, RequestId};
use trimtab_predict::{Identity, Recorded, fingerprint};
use trimtab_trace::{Clock, Meta, Names, Record};

use crate::error::Error;
use crate::label::TimedReads;

/// A recording of one drive.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The trace's name, for people.
    pub name: String,
    /// Its completed requests, in order of arrival.
    pub recorded: Vec<Recorded>,
    /// The drive's identity, if the trace has it.
    pub drive: Option<Identity>,
    /// Requests whose completion was not measured.
    pub unanswered: u64,
    /// Whether times count from the Unix epoch, so that they can be compared with those of
    /// other recordings.
    pub on_unix_clock: bool,
}

impl Recording {
    /// Divides a trace into recordings, one for each drive, with the drives' names. `name` is
    /// the trace's.
    ///
    /// # Errors
    /// The trace is empty, or of one drive only that has no completed reads; or the note about a
    /// drive is malformed.
    pub fn of_drives(
        name: &str,
        mut records: Vec<Record>,
        names: &Names,
        meta: &Meta,
    ) -> Result<Vec<(String, Self)>, Error> {
        let clock = RecordingClock::new(meta);
        records.iter_mut().for_each(|record| clock.apply(record));
        let mut drives: BTreeMap<DeviceId, Self> = BTreeMap::new();
        for record in &records {
            let drive = drives.entry(record.device).or_insert_with(|| Self {
                name: name.to_owned(),
                recorded: Vec::new(),
                drive: None,
                unanswered: 0,
                on_unix_clock: clock.is_unix,
            });
            match recorded(record, drive.recorded.len()) {
                Some(request) => drive.recorded.push(request),
                None => drive.unanswered += 1,
            }
        }
        if drives.is_empty() {
            return Err(Error::Empty { recording: name.to_owned() });
        }
        if let (1, Some(only)) = (drives.len(), drives.values().next()) {
            only.must_have_reads()?;
        }
        let mut drives: Vec<(String, Self)> =
            drives.into_iter().map(|(id, drive)| (drive_name(names, id), drive)).collect();
        for (device, drive) in &mut drives {
            drive.drive = noted_identity(name, &meta.notes, device)?;
        }
        Ok(drives)
    }

    /// Selects the recording of the drive with this name, or the only one.
    ///
    /// # Errors
    /// There is no such drive, or it has no completed reads; or none is named, and there are
    /// several.
    pub fn pick(mut drives: Vec<(String, Self)>, device: Option<&str>) -> Result<Self, Error> {
        let names = || drives.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let recording = || drives.first().map(|(_, drive)| drive.name.clone()).unwrap_or_default();
        let wanted = match device {
            None if drives.len() == 1 => 0,
            None => {
                return Err(Error::SeveralDrives { recording: recording(), drives: names() });
            }
            Some(device) => match drives.iter().position(|(name, _)| name == device) {
                Some(wanted) => wanted,
                None => {
                    let (recording, drives) = (recording(), names());
                    return Err(Error::NoSuchDrive {
                        recording,
                        device: device.to_owned(),
                        drives,
                    });
                }
            },
        };
        let (_, recording) = drives.swap_remove(wanted);
        recording.must_have_reads()?;
        Ok(recording)
    }

    /// Selects the recordings that have reads, except that of the drive `but`.
    ///
    /// # Errors
    /// There are none.
    pub fn peers(drives: Vec<(String, Self)>, but: Option<&str>) -> Result<Vec<Self>, Error> {
        let recording = drives.first().map(|(_, drive)| drive.name.clone()).unwrap_or_default();
        let is_peer = |(name, drive): &(String, Self)| but != Some(name) && drive.has_reads();
        let peers: Vec<Self> = drives.into_iter().filter(is_peer).map(|(_, drive)| drive).collect();
        if peers.is_empty() { Err(Error::NoPeers { recording }) } else { Ok(peers) }
    }

    /// The latencies of its reads, ascending.
    #[must_use]
    pub fn read_latencies(&self) -> Vec<Nanos> {
        read_latencies(&self.recorded)
    }

    /// The reads of other drives, if all were recorded on this recording's clock: in the same trace,
    /// or in Unix time. Empty if not, or if one of them is this recording.
    #[must_use]
    pub fn on_its_clock(&self, peers: &[Self]) -> Vec<TimedReads> {
        let is_comparable =
            |peer: &Self| peer.name == self.name || peer.on_unix_clock && self.on_unix_clock;
        let is_other = |peer: &Self| fingerprint(&peer.recorded) != fingerprint(&self.recorded);
        if peers.iter().all(|peer| is_comparable(peer) && is_other(peer)) {
            peers.iter().map(|peer| TimedReads::of(&peer.recorded)).collect()
        } else {
            Vec::new()
        }
    }

    fn has_reads(&self) -> bool {
        self.recorded.iter().any(Recorded::is_read)
    }

    fn must_have_reads(&self) -> Result<(), Error> {
        if self.has_reads() {
            return Ok(());
        }
        let has_arrivals = self.unanswered > 0;
        Err(Error::NoReads { recording: self.name.clone(), has_arrivals })
    }
}

/// A record of a trace as a completed request with this index; `None` if its completion was not
/// measured.
#[must_use]
pub fn recorded(record: &Record, index: usize) -> Option<Recorded> {
    let id = RequestId(index as u64);
    Some(Recorded::new(record.request(id), &record.completion(id)?))
}

/// The latencies of the reads among completed requests, ascending.
#[must_use]
pub fn read_latencies(recorded: &[Recorded]) -> Vec<Nanos> {
    let reads = recorded.iter().filter(|recorded| recorded.is_read());
    let mut latencies: Vec<Nanos> = reads.map(Recorded::latency).collect();
    latencies.sort_unstable();
    latencies
}

/// The name of a drive; its number if it has none.
fn drive_name(names: &Names, id: DeviceId) -> String {
    let found = names.devices().find(|(other, _)| *other == id);
    found.map_or_else(|| id.0.to_string(), |(_, name)| name.to_owned())
}

/// The identity that a recording notes for the drive of this name.
fn noted_identity(
    recording: &str,
    notes: &[(String, String)],
    device: &str,
) -> Result<Option<Identity>, Error> {
    let key = Identity::note_key(device);
    let Some((_, text)) = notes.iter().find(|(other, _)| *other == key) else { return Ok(None) };
    match Identity::parse(text) {
        Ok(identity) => Ok(Some(identity)),
        Err(source) => Err(Error::Note { recording: recording.to_owned(), key, source }),
    }
}

/// The origin of a trace's times.
struct RecordingClock {
    is_unix: bool,
    /// The beginning of the recording, if times count from there and it is known.
    began: Nanos,
}

impl RecordingClock {
    fn new(meta: &Meta) -> Self {
        // `trimtab record` counts from its beginning, and notes when that was.
        let note = meta.notes.iter().find(|(key, _)| key == "started_unix_ns");
        let began = note.and_then(|(_, value)| value.parse().ok()).map(Nanos);
        match (meta.clock, began) {
            (Clock::Unix, _) => Self { is_unix: true, began: Nanos::ZERO },
            (Clock::Own, Some(began)) => Self { is_unix: true, began },
            (Clock::Own, None) => Self { is_unix: false, began: Nanos::ZERO },
        }
    }

    fn apply(&self, record: &mut Record) {
        record.arrival += self.began;
        for time in [&mut record.issue, &mut record.complete].into_iter().flatten() {
            *time += self.began;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_is_of_its_drive_and_must_be_an_identity() {
        let note = |key: &str, text: &str| (key.to_owned(), text.to_owned());
        let notes = [
            note("machine", "here"),
            note("drive.sda", r#"{"bytes":4096,"serial":"S1"}"#),
            note("drive.sdb", "the second"),
        ];
        let sda = noted_identity("a.parquet", &notes, "sda").unwrap().unwrap();
        assert_eq!((sda.bytes, sda.serial.as_deref()), (Some(4096), Some("S1")));
        assert_eq!(noted_identity("a.parquet", &notes, "sd").unwrap(), None);
        let error = noted_identity("a.parquet", &notes, "sdb").unwrap_err().to_string();
        assert!(error.starts_with("a.parquet: expected of its note drive.sdb"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}
