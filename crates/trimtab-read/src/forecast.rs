//! The forecast for a read, and the comparison with its urgency.

use std::time::Duration;

use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId, mix64};
use trimtab_predict::{Forecast, Label, Trained, Verdict};

use crate::error::Urgency;
use crate::options::nanos;
use crate::probes::Part;
use trimtab_block::Place;
use trimtab_state::{LiveDrive, StateSnapshot};

/// Number of places drawn if a read's own is unknown. Odd, because the majority decides.
const PLACES: u64 = 3;

/// The forecast for a read, with what scoring needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    pub(super) forecast: Forecast,
    /// 4 KiB pages in flight at the time of the decision.
    pub(super) load: u32,
    /// The part of the drive that it is in.
    pub(super) part: Part,
}

/// How much of a forecast is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Everything,
    /// Whether the read would be late, and the rest only if it would.
    IfLate,
}

impl Detail {
    /// As much as [`compare`] needs.
    pub(super) const fn of(urgency: Urgency) -> Self {
        match urgency {
            Urgency::LatencyCritical | Urgency::None => Self::IfLate,
            Urgency::Deadline(_) | Urgency::Auto => Self::Everything,
        }
    }
}

/// The forecast for a read of a disk of this size. `None` if no consistent copy of the state
/// could be read, or the predictor needs more than the state.
pub(super) fn outlook(ask: &Query<'_>, place: Place, size: u64, detail: Detail) -> Option<Outlook> {
    match place {
        Place::At(offset) => ask.at(offset, detail),
        Place::Unmapped if ask.drive.functions().is_empty() => ask.at(0, detail),
        Place::Unmapped | Place::Hole => ask.anywhere(size),
    }
}

/// A query to the model: drive, time and length.
#[derive(Clone, Copy)]
pub(super) struct Query<'a> {
    pub(super) trained: &'a Trained,
    pub(super) drive: &'a LiveDrive,
    pub(super) now: Nanos,
    pub(super) length: u64,
}

impl Query<'_> {
    fn at(&self, offset: u64, detail: Detail) -> Option<Outlook> {
        let Self { trained, drive, now, length } = *self;
        let units = drive.units_at(offset);
        let mut snapshot = StateSnapshot::default();
        drive.snapshot_into(&mut snapshot, units, offset, length);
        if !snapshot.is_consistent {
            return None;
        }
        let request = request(offset, length);
        let forecast = match detail {
            Detail::Everything => {
                trained.forecast(now, &request, &snapshot.drive, snapshot.units())
            }
            Detail::IfLate => {
                trained.forecast_if_late(now, &request, &snapshot.drive, snapshot.units())
            }
        };
        let part = Part::new(drive.functions().iter().zip(units), pages(length));
        Some(Outlook { forecast: forecast?, load: snapshot.drive.pages, part })
    }

    /// The forecast for a read at an unknown place: that of reads at random places. A forest
    /// reads the state of a place's parallel units, and was never trained on a read without
    /// any; so places are drawn.
    fn anywhere(&self, size: u64) -> Option<Outlook> {
        let mut outlooks = [None; PLACES as usize];
        for (outlook, i) in outlooks.iter_mut().zip(0..) {
            let page = mix64(self.now.0.wrapping_add(i)) % (size >> 12).max(1);
            // A full forecast, also of a place that is in time: the majority may be late.
            *outlook = Some(self.at(page << 12, Detail::Everything)?);
        }
        let outlooks = outlooks.map(|outlook| outlook.expect("each was made"));
        let forecast = middle(&outlooks.map(|outlook| outlook.forecast));
        Some(Outlook { forecast, part: Part::anywhere(pages(self.length)), load: outlooks[0].load })
    }
}

/// The number of 4 KiB pages of a read.
pub(super) fn pages(length: u64) -> u32 {
    u32::try_from(length.div_ceil(4096)).unwrap_or(u32::MAX)
}

/// The majority's decision, and the mean of the numbers.
fn middle(forecasts: &[Forecast; PLACES as usize]) -> Forecast {
    let late = forecasts.iter().filter(|forecast| forecast.verdict == Verdict::Late).count();
    let is_late = late as u64 > PLACES / 2;
    let verdict = if is_late { Verdict::Late } else { Verdict::Fast };
    let waits: Option<u64> = forecasts.iter().map(|f| f.wait.map(|wait| wait.0)).sum();
    let probability = forecasts.iter().map(|f| f.probability).sum::<f32>() / PLACES as f32;
    Forecast { verdict, probability, wait: waits.map(|sum| Nanos(sum / PLACES)), fast: None }
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    InTime,
    TooLate,
    /// There is no forecast.
    Unsure,
}

/// Compares a forecast with the urgency. A deadline is compared with the expected latency. If
/// the model predicts none, its forecast is only on which side of the label's threshold the
/// read will be, which decides if the deadline is on the other.
pub(super) fn compare(forecast: &Forecast, urgency: Urgency, label: &Label) -> Decision {
    let most = match urgency {
        Urgency::None | Urgency::Auto => return Decision::InTime,
        Urgency::LatencyCritical => {
            return match forecast.verdict {
                Verdict::Fast => Decision::InTime,
                Verdict::Late => Decision::TooLate,
            };
        }
        Urgency::Deadline(most) => nanos(most),
    };
    // Its model never refuses.
    let Some(threshold) = label.threshold() else { return Decision::InTime };
    match (forecast.wait, forecast.verdict) {
        (Some(wait), _) if wait > most => Decision::TooLate,
        (Some(_), _) => Decision::InTime,
        (None, Verdict::Late) if threshold >= most => Decision::TooLate,
        (None, Verdict::Fast) if threshold <= most => Decision::InTime,
        (None, _) => Decision::Unsure,
    }
}

pub(super) fn duration(wait: Option<Nanos>) -> Option<Duration> {
    wait.map(|wait| Duration::from_nanos(wait.0))
}

const fn request(offset: u64, length: u64) -> Request {
    Request {
        id: RequestId(0),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op: Op::Read,
        offset,
        length,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::of_process(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label = Label::Threshold { latency: Nanos(1_000_000) };

    fn forecast(verdict: Verdict, wait_us: Option<u64>) -> Forecast {
        Forecast { wait: wait_us.map(Nanos::from_micros), ..Forecast::bare(verdict) }
    }

    #[test]
    fn deadline_is_compared_with_expected_latency() {
        let within = |us| Urgency::Deadline(Duration::from_micros(us));
        let (fast, late) = (Verdict::Fast, Verdict::Late);
        for (verdict, wait, urgency, expected) in [
            (late, Some(5000), Urgency::LatencyCritical, Decision::TooLate),
            (fast, Some(90), Urgency::LatencyCritical, Decision::InTime),
            (late, Some(5000), Urgency::None, Decision::InTime),
            (late, Some(5000), within(10_000), Decision::InTime),
            (fast, Some(90), within(50), Decision::TooLate),
            (late, None, within(1000), Decision::TooLate),
            (late, None, within(2000), Decision::Unsure),
            (fast, None, within(2000), Decision::InTime),
            (fast, None, within(500), Decision::Unsure),
        ] {
            let decision = compare(&forecast(verdict, wait), urgency, &LABEL);
            assert_eq!(decision, expected, "{verdict:?} {wait:?} {urgency:?}");
        }
    }

    #[test]
    fn model_that_never_refuses_admits_every_read() {
        let label = Label::Never { reason: "latencies hardly vary".to_owned() };
        let deadline = Urgency::Deadline(Duration::from_micros(50));
        for urgency in [Urgency::None, Urgency::LatencyCritical, deadline] {
            let decision = compare(&forecast(Verdict::Fast, Some(90)), urgency, &label);
            assert_eq!(decision, Decision::InTime, "{urgency:?}");
        }
    }

    #[test]
    fn majority_of_places_decides() {
        let (fast, late) = (forecast(Verdict::Fast, Some(90)), forecast(Verdict::Late, Some(900)));
        let both = middle(&[late, fast, late]);
        assert_eq!((both.verdict, both.wait), (Verdict::Late, Some(Nanos::from_micros(630))));
        assert_eq!(middle(&[fast, fast, late]).verdict, Verdict::Fast);
        let bare = Forecast::bare(Verdict::Fast);
        assert_eq!(middle(&[bare; 3]), bare);
    }
}
