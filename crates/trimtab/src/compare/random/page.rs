//! The page of a series: where does the judged strategy gain, and where does it lose?

use trimtab_compare::Entry;
use trimtab_compare::random::{ArrayResult, FIGURES, SeriesOptions, SeriesSummary, Traits};
use trimtab_report::chart::{self, Axis, BinnedSeries, Unit};
use trimtab_report::{Page, Section};

use super::{Failed, NAMES, facts, standing, strategies, verdict, worst};

pub(super) fn page(
    options: &SeriesOptions,
    rows: &[Entry],
    summary: &SeriesSummary,
    results: &[ArrayResult],
    failed: &[Failed],
) -> Page {
    let mut facts = facts(options, results, failed);
    facts.add("trimtab", env!("CARGO_PKG_VERSION"));
    let name = rows.last().map_or("base", |row| row.name.as_str());
    let mut page = Page::new(format!("{name} on {} random arrays", results.len()), facts);
    page.verdict(verdict(rows, summary));
    page.table(strategies(summary));
    page.table(standing(summary));
    page.table(worst(results));
    let mut section = Section::new("By dimension");
    section.note(format!(
        "{name} divided by base, medians over the arrays of a class. Below 1 it gains, above 1 it \
         loses."
    ));
    for dimension in &DIMENSIONS {
        section.chart(dimension.chart(results));
    }
    page.section(section);
    page
}

/// A dimension of the space, cut into classes.
struct Dimension {
    name: &'static str,
    class: fn(&Traits) -> (u64, String),
}

const DIMENSIONS: [Dimension; 9] = [
    Dimension {
        name: "replicas",
        class: |traits| (traits.replicas as u64, traits.replicas.to_string()),
    },
    Dimension {
        name: "drives",
        class: |traits| (traits.alike.into(), if traits.alike { "alike" } else { "unlike" }.into()),
    },
    Dimension {
        name: "utilisation of the busiest drive",
        class: |traits| {
            let from = (5.0 * traits.utilisation) as u64 * 20;
            (from, format!("{from} to {}%", from + 20))
        },
    },
    Dimension {
        name: "share of reads",
        class: |traits| match traits.read_share {
            share if share >= 1.0 => (100, "100%".to_owned()),
            share => {
                let from = (4.0 * share) as u64 * 25;
                (from, format!("{from} to {}%", from + 25))
            }
        },
    },
    Dimension { name: "size of reads", class: |traits| size(traits.read_bytes) },
    Dimension { name: "page read time", class: |traits| decade(traits.read_us) },
    Dimension {
        name: "failover",
        class: |traits| match traits.failover_us {
            cost if cost < 1.0 => (0, "none".to_owned()),
            cost => decade(cost),
        },
    },
    Dimension {
        name: "arrivals",
        class: |traits| in_order(&["poisson", "bursty", "recorded"], traits.arrivals),
    },
    Dimension {
        name: "event",
        class: |traits| {
            let names = ["none", "slow for a while", "slow for good", "all slow", "stalls"];
            in_order(&names, traits.event)
        },
    },
];

/// A class of a name; those that are not listed come last.
fn in_order(names: &[&str], name: &str) -> (u64, String) {
    let place = names.iter().position(|other| *other == name);
    (place.unwrap_or(names.len()) as u64, name.to_owned())
}

/// The decade of a time, µs.
fn decade(us: f64) -> (u64, String) {
    let from = 10_u64.pow(us.max(1.0).log10() as u32);
    let (least, unit) = if from < 1000 { (from, "µs") } else { (from / 1000, "ms") };
    (from, format!("{least} to {} {unit}", 10 * least))
}

/// A class of sizes, by their least.
fn size(bytes: u64) -> (u64, String) {
    let (least, class) = match bytes {
        0..4096 => (0, "below 4 KiB"),
        4096..16_384 => (4, "4 to 16 KiB"),
        16_384..65_536 => (16, "16 to 64 KiB"),
        _ => (64, "from 64 KiB"),
    };
    (least, class.to_owned())
}

impl Dimension {
    fn chart(&self, results: &[ArrayResult]) -> chart::Chart {
        let class = |array: &ArrayResult| (self.class)(&array.traits);
        let mut classes: Vec<_> = results.iter().map(class).collect();
        classes.sort();
        classes.dedup();
        let ratio = |class: &(u64, String), figure: usize| {
            let of = results.iter().filter(|array| (self.class)(&array.traits) == *class);
            let tests = of.map(|array| &array.against_base[figure]);
            let mut ratios: Vec<f64> = tests.map(|test| test.ours_ns / test.base_ns).collect();
            ratios.sort_by(f64::total_cmp);
            (!ratios.is_empty()).then(|| trimtab_compare::median(&ratios))
        };
        let series: Vec<_> = (0..FIGURES.len())
            .map(|figure| BinnedSeries {
                name: NAMES[figure].to_owned(),
                values: classes.iter().map(|class| ratio(class, figure)).collect(),
            })
            .collect();
        let count = |class: &(u64, String)| {
            let arrays = results.iter().filter(|array| (self.class)(&array.traits) == *class);
            format!("{} ({})", class.1, arrays.count())
        };
        let names: Vec<String> = classes.iter().map(count).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let y = Axis::new("latency / base", Unit::Plain).log();
        let x = format!("{} (arrays)", self.name);
        chart::bars(&format!("By {}", self.name), &x, &y, &names, &series).with_threshold_y(1.0)
    }
}
