//! Clients that send a request when the one before has been answered.
//!
//! While a client waits it sends nothing. So of its requests only the one is late that it waits for,
//! however long that takes; of its time the whole wait is lost. The two shares tell how many it would
//! have sent.

/// How many requests a client would have sent in a stall, from the share of them that it did send. It
/// sends until one of them waits. None if it sent all: then nobody waits.
pub(super) fn sent_in_stall(share: f64) -> f64 {
    if share >= 1.0 {
        return 0.0;
    }
    // The share falls as the number rises. It is at most 1 / number.
    let (mut least, mut most) = (0.0, 1.0 / share.max(f64::EPSILON));
    for _ in 0..50 {
        let middle = f64::midpoint(least, most);
        if 1.0 - waiting(middle) > share {
            least = middle;
        } else {
            most = middle;
        }
    }
    least
}

/// The share of a stall in which a client waits that would send so many requests to what is stalled, at
/// moments drawn at random.
pub(super) fn waiting(requests: f64) -> f64 {
    if requests > 0.0 { 1.0 + libm::expm1(-requests) / requests } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_wait_for_the_rest_of_a_stall() {
        assert_eq!(waiting(0.0), 0.0);
        assert!((waiting(1.0) - 1.0 / std::f64::consts::E).abs() < 1e-12);
        assert!(waiting(1e3) > 0.998 && waiting(1e-9) < 1e-8);
        // A stall of 1, at one of a million moments.
        let sent = |number: f64| {
            let ends = |moment: u32| -libm::log(f64::from(moment) / 1e6 + 5e-7) / number;
            (0..1_000_000).map(|moment| (1.0 - ends(moment)).max(0.0)).sum::<f64>() / 1e6
        };
        assert!((waiting(3.0) - sent(3.0)).abs() < 1e-5, "{} {}", waiting(3.0), sent(3.0));
    }

    #[test]
    fn the_share_that_is_sent_tells_the_number() {
        for number in [1e-3, 0.1, 1.0, 7.0, 300.0] {
            let share = 1.0 - waiting(number);
            assert!((sent_in_stall(share) / number - 1.0).abs() < 1e-6, "{number}");
        }
        assert_eq!(sent_in_stall(1.0), 0.0);
        assert_eq!(sent_in_stall(f64::INFINITY), 0.0);
        assert!(sent_in_stall(0.0).is_finite());
    }
}
