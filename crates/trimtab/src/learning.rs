//! What the commands that learn from recordings share.

use std::path::{Path, PathBuf};

use anyhow::Result;
use trimtab_io::{Op, RequestId};
use trimtab_predict::Recorded;
use trimtab_trace::Record;

use crate::exit::BadInput;
use crate::input::{ReadArgs, Skipped};

/// A recording of one drive.
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) recorded: Vec<Recorded>,
    /// Requests whose end was not measured.
    pub(crate) unanswered: u64,
}

impl Recording {
    /// Reads a recording. If it is of several drives, `device` says which.
    pub(crate) fn read(
        path: &Path,
        device: Option<&str>,
        read: &ReadArgs,
    ) -> Result<(Self, Skipped)> {
        let file = path.display().to_string();
        let ((records, devices), skipped) = read.with_trace(&[PathBuf::from(path)], |trace| {
            let (mut all, mut batch) = (Vec::new(), Vec::new());
            while trace.read(&mut batch)? {
                all.extend_from_slice(&batch);
            }
            let devices: Vec<_> =
                trace.names().devices().map(|(id, name)| (id, name.to_owned())).collect();
            Ok((all, devices))
        })?;
        let present: Vec<_> =
            devices.iter().filter(|(id, _)| records.iter().any(|r| r.device == *id)).collect();
        let names = || present.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
        let wanted = match (device, &present[..]) {
            (None, [_] | []) => None,
            (None, _) => {
                let text =
                    format!("{file}: is of several drives, pick one by --device: {}", names());
                return Err(BadInput(text).into());
            }
            (Some(wanted), _) => match present.iter().find(|(_, name)| name == wanted) {
                Some((id, _)) => Some(*id),
                None => {
                    let text = format!("{file}: has no device {wanted:?}; it has {}", names());
                    return Err(BadInput(text).into());
                }
            },
        };
        let (mut recorded, mut unanswered) = (Vec::new(), 0);
        for record in records.iter().filter(|r| wanted.is_none_or(|wanted| r.device == wanted)) {
            match answered(record, recorded.len()) {
                Some(request) => recorded.push(request),
                None => unanswered += 1,
            }
        }
        if !recorded.iter().any(Recorded::is_read) {
            let why = if unanswered > 0 {
                "holds no latencies, only arrivals; record with `trimtab record`, or simulate it"
            } else {
                "holds no reads"
            };
            return Err(BadInput(format!("{file}: {why}")).into());
        }
        Ok((Self { file, recorded, unanswered }, skipped))
    }
}

/// A record as what is learnt from, if its end was measured. Requests without
/// data tell little, but they are in flight like any other.
fn answered(record: &Record, number: usize) -> Option<Recorded> {
    let id = RequestId(number as u64);
    let completion = record.completion(id)?;
    let data = completion.outcome == trimtab_io::Outcome::Done
        && matches!(record.op, Op::Read | Op::Write);
    Some(Recorded { request: record.request(id), complete: completion.complete, data })
}
