//! What the commands that learn from recordings share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use trimtab_io::{DeviceId, Nanos, Op, RequestId};
use trimtab_predict::{Identity, Recorded};
use trimtab_trace::{Clock, Meta, Record};

use crate::exit::BadInput;
use crate::input::{ReadArgs, Skipped};

/// A recording of one drive.
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) recorded: Vec<Recorded>,
    /// Which drive it is of, if the recording tells.
    pub(crate) drive: Option<Identity>,
    /// Requests whose end was not measured.
    pub(crate) unanswered: u64,
    /// What its times count from; none: something of its own, that no other
    /// recording need share.
    pub(crate) since: Option<Epoch>,
}

/// The Unix epoch, that is: times of different recordings can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch;

impl Recording {
    /// Reads a recording. If it is of several drives, `device` says which.
    pub(crate) fn read(
        path: &Path,
        device: Option<&str>,
        read: &ReadArgs,
    ) -> Result<(Self, Skipped)> {
        let (mut drives, skipped) = Self::read_all(path, read)?;
        let names = drives.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let wanted = match device {
            None if drives.len() == 1 => 0,
            None => {
                let file = path.display();
                let text = format!("{file}: is of several drives, pick one by --device: {names}");
                return Err(BadInput(text).into());
            }
            Some(device) => match drives.iter().position(|(name, _)| name == device) {
                Some(wanted) => wanted,
                None => {
                    let file = path.display();
                    let text = format!("{file}: has no device `{device}`; it has {names}");
                    return Err(BadInput(text).into());
                }
            },
        };
        let (_, recording) = drives.swap_remove(wanted);
        recording.must_have_reads()?;
        Ok((recording, skipped))
    }

    /// Reads a recording of one or more drives: each with its name, of those
    /// that have reads.
    pub(crate) fn read_all(path: &Path, read: &ReadArgs) -> Result<(Vec<(String, Self)>, Skipped)> {
        let file = path.display().to_string();
        let ((mut records, names, clock, notes), skipped) =
            read.with_trace(&[PathBuf::from(path)], |trace| {
                let all = read.all_records(trace)?;
                let names: Vec<_> =
                    trace.names().devices().map(|(id, name)| (id, name.to_owned())).collect();
                Ok((all, names, Clocked::of(trace.meta()), trace.meta().notes.clone()))
            })?;
        records.iter_mut().for_each(|record| clock.set(record));
        let mut drives = BTreeMap::new();
        for record in &records {
            let since = clock.since;
            let empty = || Self {
                file: file.clone(),
                recorded: Vec::new(),
                drive: None,
                unanswered: 0,
                since,
            };
            let drive: &mut Self = drives.entry(record.device).or_insert_with(empty);
            match answered(record, drive.recorded.len()) {
                Some(request) => drive.recorded.push(request),
                None => drive.unanswered += 1,
            }
        }
        if let [only] = &drives.values().collect::<Vec<_>>()[..] {
            only.must_have_reads()?;
        }
        let name = |id: DeviceId| {
            let found = names.iter().find(|(other, _)| *other == id);
            found.map_or_else(|| id.0.to_string(), |(_, name)| name.clone())
        };
        let mut drives: Vec<_> = drives.into_iter().map(|(id, drive)| (name(id), drive)).collect();
        if drives.is_empty() {
            return Err(BadInput(format!("{file}: is empty")).into());
        }
        for (name, drive) in &mut drives {
            drive.drive = noted(&notes, name).map_err(|e| BadInput(format!("{file}: {e}")))?;
        }
        Ok((drives, skipped))
    }

    /// Reads a recording of peers: of all the drives in it that have reads, but for the
    /// one that they are peers of, should it be the same file. (A recording of one
    /// drive may be its own peer.)
    pub(crate) fn read_peers(
        path: &Path,
        of: &Path,
        device: Option<&str>,
        read: &ReadArgs,
    ) -> Result<(Vec<Self>, Skipped)> {
        let (drives, skipped) = Self::read_all(path, read)?;
        let same_file = path.canonicalize().ok() == of.canonicalize().ok();
        let is_peer = |name: &str| !same_file || device != Some(name);
        let peers = drives
            .into_iter()
            .filter(|(name, drive)| is_peer(name) && drive.recorded.iter().any(Recorded::is_read));
        let peers: Vec<Self> = peers.map(|(_, drive)| drive).collect();
        if peers.is_empty() {
            let text = format!("{}: has no other drive with reads", path.display());
            return Err(BadInput(text).into());
        }
        Ok((peers, skipped))
    }

    fn must_have_reads(&self) -> Result<()> {
        if self.recorded.iter().any(Recorded::is_read) {
            return Ok(());
        }
        let why = if self.unanswered > 0 {
            "holds no latencies, only arrivals; record with `trimtab record`, or simulate it"
        } else {
            "holds no reads"
        };
        Err(BadInput(format!("{}: {why}", self.file)).into())
    }
}

/// What a recording has noted of the drive that has this name in it.
fn noted(notes: &[(String, String)], device: &str) -> Result<Option<Identity>, String> {
    let key = Identity::note_key(device);
    let Some((_, text)) = notes.iter().find(|(other, _)| *other == key) else { return Ok(None) };
    let wrong = |e| format!("expected of its note {key} what tells a drive from others: {e}");
    Identity::parse(text).map(Some).map_err(wrong)
}

/// What a recording's times count from.
struct Clocked {
    since: Option<Epoch>,
    /// The recording's beginning, if that is told apart from its times.
    began: Nanos,
}

impl Clocked {
    fn of(meta: &Meta) -> Self {
        // `trimtab record` counts from its beginning, and says when that was.
        let note = meta.notes.iter().find(|(key, _)| key == "started_unix_ns");
        let began = note.and_then(|(_, value)| value.parse().ok()).map(Nanos);
        match (meta.clock, began) {
            (Clock::Unix, _) => Self { since: Some(Epoch), began: Nanos::ZERO },
            (Clock::Own, Some(began)) => Self { since: Some(Epoch), began },
            (Clock::Own, None) => Self { since: None, began: Nanos::ZERO },
        }
    }

    fn set(&self, record: &mut Record) {
        record.arrival += self.began;
        for time in [&mut record.issue, &mut record.complete].into_iter().flatten() {
            *time += self.began;
        }
    }
}

/// A record as what is learnt from, if its end was measured. Requests without
/// data tell little, but they are in flight like any other.
pub(crate) fn answered(record: &Record, number: usize) -> Option<Recorded> {
    let id = RequestId(number as u64);
    let completion = record.completion(id)?;
    let data = completion.outcome == trimtab_io::Outcome::Done
        && matches!(record.op, Op::Read | Op::Write);
    Some(Recorded { request: record.request(id), complete: completion.complete, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drives_note_is_its_own_and_must_be_one() {
        let note = |key: &str, text: &str| (key.to_owned(), text.to_owned());
        let notes = [
            note("machine", "here"),
            note("drive.sda", r#"{"bytes":4096,"serial":"S1"}"#),
            note("drive.sdb", "the second"),
        ];
        let sda = noted(&notes, "sda").unwrap().unwrap();
        assert_eq!((sda.bytes, sda.serial.as_deref()), (Some(4096), Some("S1")));
        assert_eq!(noted(&notes, "sd"), Ok(None));
        let wrong = noted(&notes, "sdb").unwrap_err();
        assert!(wrong.starts_with("expected of its note drive.sdb"), "{wrong}");
        assert_eq!(wrong.lines().count(), 1);
    }
}
