//! Recordings: the requests to a drive, from a trainer's view.

use trimtab_io::DeviceId;
use trimtab_steer::driver::LogEntry;
use trimtab_trace::Record;

/// The recording of one drive from the driver's log.
pub(crate) fn recording(device: DeviceId, log: Vec<LogEntry>) -> Vec<Record> {
    let record = |entry: LogEntry| {
        let LogEntry { arrival, issue, complete, op, offset, length } = entry;
        Record { issue, complete, ..Record::arriving(arrival, device, op, offset, length) }
    };
    log.into_iter().map(record).collect()
}
