//! How well the simulation predicted the live comparison, as a table.

use trimtab_compare::Agreement;
use trimtab_io::Nanos;
use trimtab_report::{Align, Table};

use crate::units;

/// The table of live and simulated figures.
pub(super) fn table(agreement: &Agreement) -> Table {
    let columns = [
        ("strategy", Align::Left),
        ("mean live", Align::Right),
        ("simulated", Align::Right),
        ("live is", Align::Right),
        ("p50 live", Align::Right),
        ("simulated", Align::Right),
        ("live is", Align::Right),
        ("p99 live", Align::Right),
        ("simulated", Align::Right),
        ("live is", Align::Right),
    ];
    let mut table = Table::new(&columns).with_caption(caption(agreement));
    let more = |live: f64, simulated: f64| format!("{:+.1}%", 100.0 * (live / simulated - 1.0));
    for row in &agreement.rows {
        let mut cells = vec![row.strategy.clone()];
        let mean = Some((row.mean_live, row.mean_simulated));
        for figures in [mean, row.percentile("p50"), row.percentile("p99")] {
            cells.extend(match figures {
                Some((live, expected)) => [time(live), time(expected), more(live, expected)],
                None => std::array::from_fn(|_| units::NONE.to_owned()),
            });
        }
        table.row(cells);
    }
    table
}

fn caption(agreement: &Agreement) -> String {
    let added = match (agreement.added_mean_ns, agreement.added_p50_ns, agreement.added_p99_ns) {
        (Some(mean), Some(p50), Some(p99)) => format!(
            "where what the path to the\ndrives took in phase one (mean {}, p50 {}, p99 {}) is \
             added: its mean to\nmeans, its distribution to percentiles, by convolution",
            time(mean),
            time(p50),
            time(p99)
        ),
        _ => "where nothing is added: what the\npath to the drives took is not known".to_owned(),
    };
    let trouble =
        trouble(agreement).map_or_else(String::new, |trouble| format!(".\nBut {trouble}"));
    format!("live beside simulated, {added}{trouble}")
}

/// One line: do strategies have the same order live and simulated?
pub(super) fn verdict(agreement: &Agreement) -> String {
    let Agreement { pairs, ordered, in_order, .. } = agreement;
    format!(
        "The order is predicted for {ordered} of {pairs} pairs of strategies: their means differ \
         in simulation by more than 10% and more than their spread. Of these, {in_order} are in \
         that order live. The other {} count as ties.",
        pairs - ordered
    )
}

/// What makes the result less reliable, if anything.
pub(super) fn trouble(agreement: &Agreement) -> Option<String> {
    let path = agreement.long_path()?;
    Some(format!(
        "the path to the drives is {:.0}% of the p50 of `{}` in simulation ({}), more than a \
         tenth: figures are the machine's as well as the drives'; use slower drives or larger \
         reads, or a machine with less to do",
        100.0 * path.share,
        path.of,
        time(path.p50_ns)
    ))
}

fn time(time: f64) -> String {
    units::long(Nanos(time as u64))
}

#[cfg(test)]
mod tests {
    use trimtab_compare::PathShare;

    use super::*;

    #[test]
    fn text_states_ties_and_long_paths() {
        let of = "base".to_owned();
        let path = PathShare { of, p50_ns: 100_000.0, share: 0.12, too_long: true };
        let mut agreement = Agreement {
            added_mean_ns: None,
            added_p50_ns: None,
            added_p99_ns: None,
            path: Some(path),
            rows: Vec::new(),
            pairs: 6,
            ordered: 3,
            in_order: 3,
        };
        let text = verdict(&agreement);
        assert!(text.starts_with("The order is predicted for 3 of 6 pairs"), "{text}");
        assert!(text.contains("The other 3 count as ties"), "{text}");
        assert!(table(&agreement).to_string().contains("more than a"));
        agreement.path = None;
        assert!(!table(&agreement).to_string().contains("more than a"));
        assert_eq!(trouble(&agreement), None);
    }
}
