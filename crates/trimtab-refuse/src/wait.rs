//! The expected wait of a read of a drive, at an unknown offset.

use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::{DriveState, Forecast, Model, Verdict, WINDOWS};
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
        *wait = wait_of(&forecast.ok_or(Reason::NoModel)?, threshold, limit)?;
    }
    waits.sort_unstable();
    Ok(waits[OFFSETS / 2])
}

/// The wait by a forecast. If it is only on which side of the label's threshold the read will
/// be, that decides if the limit is on the other.
fn wait_of(forecast: &Forecast, threshold: Nanos, limit: Nanos) -> Expectation {
    match (forecast.wait, forecast.verdict) {
        (Some(wait), _) => Ok(wait),
        (None, Verdict::Late) if threshold >= limit => Ok(threshold.max(limit + Nanos(1))),
        (None, Verdict::Fast) if threshold <= limit => Ok(Nanos::ZERO),
        (None, _) => Err(Reason::Unsure),
    }
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
    fn bare_verdict_decides_if_the_label_settles_it() {
        let limit = Nanos(2000 * US);
        let by = |verdict, threshold_us| {
            wait_of(&Forecast::bare(verdict), Nanos(threshold_us * US), limit)
        };
        assert_eq!(by(Verdict::Late, 3000), Ok(Nanos(3000 * US)));
        assert_eq!(by(Verdict::Late, 2000), Ok(limit + Nanos(1)));
        assert_eq!(by(Verdict::Late, 1000), Err(Reason::Unsure));
        assert_eq!(by(Verdict::Fast, 1000), Ok(Nanos::ZERO));
        assert_eq!(by(Verdict::Fast, 3000), Err(Reason::Unsure));
        let with_wait = Forecast { wait: Some(Nanos(7)), ..Forecast::bare(Verdict::Late) };
        assert_eq!(wait_of(&with_wait, Nanos(3000 * US), limit), Ok(Nanos(7)));
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
