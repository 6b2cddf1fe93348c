//! Changing a trace's rate.

use trimtab_io::Nanos;

use crate::error::Error;
use crate::record::Record;

/// The largest factor, and the highest rate: one request per nanosecond, the resolution of a trace.
const MAX: f64 = 1e9;

/// Scales the times between arrivals.
///
/// A request that arrived a time *t* after the first arrives *t* / factor after it (rounded down to
/// the nanosecond, which preserves the order). Its times from arrival to issue and to completion
/// stay as measured, at the original rate; only replay or simulation can tell them at another rate.
#[derive(Clone, Debug)]
pub struct Rerate {
    /// Times are multiplied by `stretch.0 / stretch.1`.
    stretch: (u64, u64),
    first: Option<Nanos>,
}

impl Rerate {
    /// `numerator / denominator` times as fast.
    ///
    /// # Errors
    /// The factor is not between a billionth and a billion.
    pub fn by_factor(numerator: u64, denominator: u64) -> Result<Self, Error> {
        let factor = numerator as f64 / denominator as f64;
        if !(1.0 / MAX..=MAX).contains(&factor) {
            return Err(Error::Usage(format!(
                "the factor must be from {} to {MAX}, not {factor}",
                1.0 / MAX
            )));
        }
        Ok(Self { stretch: (denominator, numerator), first: None })
    }

    /// To a mean rate of `numerator / denominator` requests per second, for a trace of `requests`
    /// requests whose arrivals span `duration`: as defined by
    /// [`Rates::mean_iops`](crate::stats::Rates::mean_iops).
    ///
    /// # Errors
    /// The rate is zero, over a billion, or so low that the trace would last for centuries; or the
    /// trace has no duration.
    pub fn to_mean_iops(
        numerator: u64,
        denominator: u64,
        requests: u64,
        duration: Nanos,
    ) -> Result<Self, Error> {
        let rate = numerator as f64 / denominator as f64;
        if !(rate > 0.0 && rate <= MAX) {
            return Err(Error::Usage(format!(
                "the rate must be more than 0 and up to {MAX} requests per second, not {rate}"
            )));
        }
        if duration == Nanos::ZERO {
            return Err(Error::Usage(format!(
                "{requests} request(s) that all arrive at once have no rate to change"
            )));
        }
        const NS_PER_S: u128 = 1_000_000_000;
        let duration_wanted = (u128::from(requests) * u128::from(denominator))
            .checked_mul(NS_PER_S)
            .map(|n| n / u128::from(numerator))
            .and_then(|n| i64::try_from(n).ok())
            .map(i64::cast_unsigned)
            .ok_or_else(|| {
                Error::Usage(format!(
                    "{requests} requests at {rate} per second would last for centuries"
                ))
            })?;
        Ok(Self { stretch: (duration_wanted, duration.0), first: None })
    }

    /// Shifts the records of a batch.
    pub fn apply(&mut self, batch: &mut [Record]) {
        let Some(first) = batch.first().map(|r| r.arrival) else { return };
        let first = *self.first.get_or_insert(first);
        for record in batch {
            let arrival = first + self.stretched(record.arrival.since(first));
            let moved = |at: Nanos| arrival + at.since(record.arrival);
            record.issue = record.issue.map(moved);
            record.complete = record.complete.map(moved);
            record.arrival = arrival;
        }
    }

    fn stretched(&self, time: Nanos) -> Nanos {
        let (multiply, divide) = (u128::from(self.stretch.0), u128::from(self.stretch.1));
        // 64 by 64 bits fit into 128.
        let time = u128::from(time.0) * multiply / divide;
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trimtab_io::{DeviceId, Op};

    fn record(arrival: u64) -> Record {
        Record {
            issue: Some(Nanos(arrival + 7)),
            complete: Some(Nanos(arrival + 100)),
            ..Record::arriving(Nanos(arrival), DeviceId(0), Op::Read, 0, 512)
        }
    }

    fn arrivals(mut rerate: Rerate, arrivals: &[u64]) -> Vec<u64> {
        // Two batches: the first arrival is that of the first batch.
        let mut records: Vec<_> = arrivals.iter().copied().map(record).collect();
        let (head, tail) = records.split_at_mut(arrivals.len() / 2);
        rerate.apply(head);
        rerate.apply(tail);
        for r in &records {
            assert_eq!(r.issue, Some(r.arrival + Nanos(7)));
            assert_eq!(r.complete, Some(r.arrival + Nanos(100)));
        }
        records.iter().map(|r| r.arrival.0).collect()
    }

    #[test]
    fn factor_scales_arrivals() {
        const EPOCH: u64 = 1_600_000_000_000_000_000;
        let times = [0, 10, 11, 1_000_000_000_000_000].map(|t| EPOCH + t);
        let double = arrivals(Rerate::by_factor(2, 1).unwrap(), &times);
        assert_eq!(double, [0, 5, 5, 500_000_000_000_000].map(|t| EPOCH + t));
        let slower = arrivals(Rerate::by_factor(1, 3).unwrap(), &times);
        assert_eq!(slower, [0, 30, 33, 3_000_000_000_000_000].map(|t| EPOCH + t));
    }

    #[test]
    fn rate_is_reached() {
        // Four requests in 2 s are 2 per second; 8 per second take 0.5 s.
        let times = [5, 5, 1_000_000_005, 2_000_000_005];
        let rerate = Rerate::to_mean_iops(8, 1, 4, Nanos::from_secs(2)).unwrap();
        assert_eq!(arrivals(rerate, &times), [5, 5, 250_000_005, 500_000_005]);
        // 1.5 per second take 2.667 s.
        let rerate = Rerate::to_mean_iops(15, 10, 4, Nanos::from_secs(2)).unwrap();
        assert_eq!(arrivals(rerate, &times)[3], 2_666_666_671);
    }

    #[test]
    fn invalid_rates_are_errors() {
        assert!(Rerate::by_factor(0, 1).is_err());
        assert!(Rerate::by_factor(u64::MAX, 1).is_err());
        assert!(Rerate::to_mean_iops(u64::MAX, 1, 4, Nanos(1)).is_err());
        assert!(Rerate::to_mean_iops(0, 1, 4, Nanos(1)).is_err());
        assert!(Rerate::to_mean_iops(5, 1, 1, Nanos::ZERO).is_err());
        assert!(Rerate::to_mean_iops(1, u64::MAX, u64::MAX, Nanos(1)).is_err());
    }

    proptest! {
        #[test]
        fn rerate_keeps_order_without_drift(
            mut times in prop::collection::vec(0_u64..1 << 43, 2..50),
            numerator in 1_u64..1_000_000,
            denominator in 1_u64..1_000_000,
        ) {
            times.sort_unstable();
            let moved = arrivals(Rerate::by_factor(numerator, denominator).unwrap(), &times);
            prop_assert!(moved.is_sorted());
            for (&time, &moved) in times.iter().zip(&moved) {
                let exact = u128::from(time - times[0]) * u128::from(denominator)
                    / u128::from(numerator);
                prop_assert_eq!(u128::from(moved), u128::from(times[0]) + exact);
            }
        }
    }
}
