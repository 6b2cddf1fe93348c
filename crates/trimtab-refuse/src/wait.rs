//! The expected wait of a read of a drive, at an unknown offset.

use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::{DriveState, Model, Verdict, WINDOWS};
use trimtab_state::LiveDrive;

use crate::Reason;

/// Offsets across the drive at which a model is asked. The median decides, so the number is
/// odd.
const OFFSETS: usize = 15;
/// The size that reads are taken to have: the hook does not see it.
const LENGTH: u64 = 4096;

/// An expected wait, or why there is none.
pub(crate) type Expectation = Result<Nanos, Reason>;

/// The wait without a model: the greatest of three observations.
///
/// - **The queue.** Each read in flight occupies the drive for the mean time between
///   completions, and the next one waits for all of them.
/// - **Silence.** If no read has completed since the oldest one in flight was sent, the drive
///   stalls, and is expected to stall for as long again.
/// - **The recent past.** The mean latency of the reads of the last millisecond, or of the last
///   34 ms if that had none.
///
/// A drive without requests in flight is expected to be in time: what was observed of it has
/// passed, and the next read shows whether it still holds.
pub(crate) fn without_model(state: &DriveState, now: Nanos) -> Nanos {
    if state.requests == 0 {
        return Nanos::ZERO;
    }
    let queue = u64::from(state.whole.service_ns) * (u64::from(state.whole.reads) + 1);
    let is_silent = state.whole.reads > 0 && state.whole.last_done <= state.oldest_read;
    let silence = if is_silent { now.since(state.oldest_read) } else { Nanos::ZERO };
    let recent = (0..WINDOWS.len()).find_map(|i| {
        let reads = state.reads_completed[i].sum(WINDOWS[i], now);
        let ticks = state.read_latencies[i].sum(WINDOWS[i], now);
        (reads > 0).then(|| Nanos((u64::from(ticks) << 10) / u64::from(reads)))
    });
    Nanos(queue).max(silence).max(recent.unwrap_or(Nanos::ZERO))
}

/// The wait by a model, which must be of this drive: the median over the drive. `limit` is the
/// wait up to which reads are admitted, for models that predict only a side of their label.
pub(crate) fn by_model(
    drive: &LiveDrive,
    model: &Model,
    size: u64,
    now: Nanos,
    limit: Nanos,
) -> Expectation {
    // A model without a label never refuses.
    let Some(threshold) = model.card.label.threshold() else { return Ok(Nanos::ZERO) };
    let mut waits = [Nanos::ZERO; OFFSETS];
    for (i, wait) in (0..).zip(&mut waits) {
        let offset = size / LENGTH * i / OFFSETS as u64 * LENGTH;
        let forecast = drive.forecast(&model.trained, now, &request(offset));
        let forecast = forecast.ok_or(Reason::NoModel)?;
        *wait = match (forecast.wait, forecast.verdict) {
            (Some(wait), _) => wait,
            (None, Verdict::Late) if threshold >= limit => threshold.max(limit + Nanos(1)),
            (None, Verdict::Fast) if threshold <= limit => Nanos::ZERO,
            (None, _) => return Err(Reason::Unsure),
        };
    }
    waits.sort_unstable();
    Ok(waits[OFFSETS / 2])
}

const fn request(offset: u64) -> Request {
    Request {
        id: RequestId(0),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op: Op::Read,
        offset,
        length: LENGTH,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::of_process(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn busy(reads: u32) -> DriveState {
        let mut state = DriveState { requests: reads, ..DriveState::default() };
        state.whole.reads = reads;
        state.whole.service_ns = 100 * US as u32;
        state
    }

    #[test]
    fn queue_is_waited_for_read_by_read() {
        let now = Nanos::from_secs(1);
        let mut state = busy(9);
        state.oldest_read = now;
        assert_eq!(without_model(&state, now), Nanos(1000 * US));
        assert_eq!(without_model(&DriveState::default(), now), Nanos::ZERO);
        // Whatever was seen, a drive without requests is in time.
        state.requests = 0;
        assert_eq!(without_model(&state, now), Nanos::ZERO);
    }

    #[test]
    fn silent_drive_is_expected_to_stall_for_as_long_again() {
        let now = Nanos::from_secs(1);
        let mut state = busy(1);
        state.oldest_read = now - Nanos(20_000 * US);
        state.whole.last_done = now - Nanos(30_000 * US);
        assert_eq!(without_model(&state, now), Nanos(20_000 * US));
        // Another read has completed meanwhile: only this one is slow.
        state.whole.last_done = now - Nanos(10 * US);
        assert_eq!(without_model(&state, now), Nanos(200 * US));
    }
}
