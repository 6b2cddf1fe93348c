//! The processor time of other processes.

use std::fs;

/// What a process has used with all its threads, user and system, s. `None` if it has ended.
pub(crate) fn of(pid: u32) -> Option<f64> {
    // Times are in hundredths of a second, independent of the kernel's HZ (proc(5)).
    const PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Counted after the name, which may contain anything: state is field 3, times 14 and 15.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / PER_SECOND)
}
