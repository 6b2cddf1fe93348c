//! The plots of one trace.

use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_report::chart::{self, Axis, BinnedSeries, Bins, Cell, Chart, Unit};
use trimtab_trace::{
    DepthOverTime, HeatMap, LatencyOverTime, OpPlots, Plots, SIZE_CLASSES, TimeBins,
};

use super::TraceReport;
use super::verdict::Stretch;

/// The fewest samples that a distribution is drawn of.
pub(super) const FEWEST_FOR_CDF: u64 = 20;

/// The charts that the trace's data supports, and a sentence on each that it does not support.
pub(super) fn charts(trace: &TraceReport, stretches: &[Stretch]) -> (Vec<Chart>, Vec<String>) {
    let plots = &trace.plots;
    let (mut charts, mut missing) = (Vec::new(), Vec::new());
    let measured: u64 = plots.ops.iter().map(|op| op.response.count()).sum();
    if measured == 0 {
        missing.push(
            "This trace holds no completion times, so there are no plots of latency and of \
             requests in flight."
                .to_owned(),
        );
    }
    charts.extend(response_cdf(plots));
    charts.extend(service_cdf(plots));
    if measured > 0 && charts.is_empty() {
        missing.push(format!(
            "Fewer than {FEWEST_FOR_CDF} latencies of each op were measured: too few for a \
             distribution."
        ));
    }
    charts.push(size_mix(plots));
    if plots.duration > Nanos::ZERO {
        charts.extend(over_time(plots, stretches));
    } else {
        missing.push(
            "All requests arrived at the same instant, so nothing is plotted over time.".to_owned(),
        );
    }
    if !trace.has_offsets {
        missing.push(
            "This trace holds no offsets, so there is no map of where requests went.".to_owned(),
        );
    }
    (charts, missing)
}

/// The charts with a time axis.
fn over_time(plots: &Plots, stretches: &[Stretch]) -> Vec<Chart> {
    let clock = TimeAxis::of(plots);
    let bands: Vec<_> = stretches.iter().map(|s| (clock.at(s.from), clock.at(s.to))).collect();
    let latencies = plots.ops.iter().filter_map(|op| Some((op, op.over_time.as_ref()?)));
    let mut charts: Vec<_> = latencies
        .map(|(op, times)| {
            let mut chart = latency(op, times, &clock);
            if let Some(beyond) = plots.slow_beyond {
                let level = beyond.0.max(1) as f64;
                chart = chart.with_threshold_y(level);
            }
            chart.with_bands(&bands)
        })
        .collect();
    charts.extend(writes_beside(plots, &clock).map(|chart| chart.with_bands(&bands)));
    charts.push(rate("Requests per second", "arrivals (1/s)", plots, &clock, |op| &op.iops));
    if plots.ops.iter().any(|op| op.bytes > 0) {
        charts.push(rate("Throughput", "asked for (MB/s)", plots, &clock, |op| &op.mb_s));
    }
    let depth = plots.depth.as_ref().map(|depth| in_flight(depth, &clock));
    charts.extend(depth.map(|chart| chart.with_bands(&bands)));
    charts.extend(plots.offsets.as_ref().map(|map| offset_map(map, &clock)));
    charts
}

/// Time since the first arrival, in a unit that suits the trace's length.
struct TimeAxis {
    unit_ns: f64,
    unit: &'static str,
    duration: Nanos,
}

impl TimeAxis {
    fn of(plots: &Plots) -> Self {
        const UNITS: [(f64, &str); 6] =
            [(8.64e13, "d"), (3.6e12, "h"), (6e10, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs")];
        let duration = plots.duration;
        // With at least three units, the axis has enough round numbers.
        let fits = |unit: &&(f64, &str)| duration.0 as f64 >= 3.0 * unit.0;
        let (unit_ns, unit) = *UNITS.iter().find(fits).unwrap_or(&(1.0, "ns"));
        Self { unit_ns, unit, duration }
    }

    /// Converts a time since the first arrival to the axis's unit.
    fn at(&self, time: Nanos) -> f64 {
        time.0 as f64 / self.unit_ns
    }

    fn bins(&self, bins: TimeBins) -> Bins {
        Bins {
            start: bins.start.0 as f64 / self.unit_ns,
            width: bins.width.0 as f64 / self.unit_ns,
        }
    }

    /// The axis ends with the last arrival, so that all charts of a page line up.
    fn axis(&self) -> Axis {
        Axis::new(format!("time since the first arrival ({})", self.unit), Unit::Plain)
            .with_range(0.0, self.duration.0 as f64 / self.unit_ns)
    }
}

fn response_cdf(plots: &Plots) -> Option<Chart> {
    let mut note = "Each curve ends where fewer than ten requests were slower.".to_owned();
    let chart =
        cdf("Response time", "response time (arrival to completion)", plots, |op| &op.response)?;
    let Some(beyond) = plots.slow_beyond else { return Some(chart.with_note(note)) };
    note += &format!(" Dashed: beyond {beyond}, responses count as slow.");
    Some(chart.with_threshold_x(beyond.0.max(1) as f64).with_note(note))
}

fn service_cdf(plots: &Plots) -> Option<Chart> {
    cdf("Service time", "service time (issue to completion)", plots, |op| &op.service)
}

fn cdf(
    title: &str,
    x_title: &str,
    plots: &Plots,
    latencies: fn(&OpPlots) -> &LatencyHistogram,
) -> Option<Chart> {
    let series: Vec<_> = plots
        .ops
        .iter()
        .map(|op| (op.op.name(), latencies(op)))
        .filter(|(_, latencies)| latencies.count() >= FEWEST_FOR_CDF)
        .collect();
    (!series.is_empty()).then(|| chart::cdf(title, x_title, &series))
}

fn latency(op: &OpPlots, times: &LatencyOverTime, clock: &TimeAxis) -> Chart {
    // A log axis has no zero.
    let ns = |t: &Option<Nanos>| t.map(|t| t.0.max(1) as f64);
    let binned = |name: &str, values: &[Option<Nanos>]| BinnedSeries {
        name: name.to_owned(),
        values: values.iter().map(ns).collect(),
    };
    let mut note = format!("Bins of {}, by time of arrival.", times.bins.width);
    note += if times.p99.iter().any(Option::is_some) {
        " p99 only where a bin holds 1,000 requests."
    } else {
        " No bin holds the 1,000 requests that a p99 needs."
    };
    note += " Dashed: beyond it, responses count as slow. Shaded: when most slow reads came.";
    let mut series =
        vec![binned("median", &times.p50), binned("p99", &times.p99), binned("max", &times.max)];
    series.retain(|s| s.values.iter().any(Option::is_some));
    let x = clock.axis();
    let y = Axis::new("response time", Unit::Nanos).log();
    let title = format!("Response time of {} over time", op.op.plural());
    chart::steps(&title, &x, &y, clock.bins(times.bins), &series).with_note(note)
}

/// The rate of writes, with the times of slow reads shaded.
fn writes_beside(plots: &Plots, clock: &TimeAxis) -> Option<Chart> {
    let write = plots.ops.iter().find(|op| op.op == Op::Write && op.bytes > 0)?;
    let slow = plots.ops.iter().find(|op| op.op == Op::Read)?.slow.as_ref()?;
    if slow.total == 0 {
        return None;
    }
    let series = [BinnedSeries { name: "write".to_owned(), values: write.mb_s.clone() }];
    let (x, y) = (clock.axis(), Axis::new("written (MB/s)", Unit::Plain));
    let bins = clock.bins(plots.rate_bins);
    Some(
        chart::steps("Writes beside slow reads", &x, &y, bins, &series)
            .with_note("Shaded: when most slow reads came, if that was not all the time."),
    )
}

fn rate(
    title: &str,
    y_title: &str,
    plots: &Plots,
    clock: &TimeAxis,
    values: fn(&OpPlots) -> &Vec<Option<f64>>,
) -> Chart {
    // A flush has no data: in the throughput plot it would be an empty legend entry.
    let moves = |op: &&OpPlots| values(op).iter().flatten().any(|&v| v > 0.0);
    let series: Vec<_> = plots
        .ops
        .iter()
        .filter(moves)
        .map(|op| BinnedSeries { name: op.op.name().to_owned(), values: values(op).clone() })
        .collect();
    let x = clock.axis();
    let y = Axis::new(y_title, Unit::Plain);
    let note = format!("Stacked, in bins of {}.", plots.rate_bins.width);
    chart::area(title, &x, &y, clock.bins(plots.rate_bins), &series).with_note(note)
}

fn in_flight(depth: &DepthOverTime, clock: &TimeAxis) -> Chart {
    let mean = depth.mean.iter().map(|&mean| Some(mean)).collect();
    let max = depth.max.iter().map(|&max| Some(max as f64)).collect();
    let series = [
        BinnedSeries { name: "mean".to_owned(), values: mean },
        BinnedSeries { name: "max".to_owned(), values: max },
    ];
    let x = clock.axis();
    let y = Axis::new("requests in flight", Unit::Plain);
    let note = format!("Arrived and not completed; bins of {}.", depth.bins.width);
    chart::steps("Queue depth", &x, &y, clock.bins(depth.bins), &series).with_note(note)
}

fn size_mix(plots: &Plots) -> Chart {
    let used = |class: &usize| plots.ops.iter().any(|op| op.sizes[*class] > 0);
    let first = (0..SIZE_CLASSES.len()).find(used).unwrap_or(0);
    let last = (0..SIZE_CLASSES.len()).rfind(used).unwrap_or(0);
    let classes: Vec<_> = SIZE_CLASSES[first..=last].iter().map(|class| class.name).collect();
    let series: Vec<_> = plots
        .ops
        .iter()
        .map(|op| BinnedSeries {
            name: op.op.name().to_owned(),
            values: op.sizes[first..=last].iter().map(|&n| Some(n as f64)).collect(),
        })
        .collect();
    let y = Axis::new("requests", Unit::Plain);
    chart::bars("Request sizes", "request size", &y, &classes, &series)
        .with_note("Each class reaches from the size named up to the next.")
}

fn offset_map(map: &HeatMap, clock: &TimeAxis) -> Chart {
    const UNITS: [(f64, &str); 5] = [
        ((1_u64 << 40) as f64, "TiB"),
        ((1_u64 << 30) as f64, "GiB"),
        ((1_u64 << 20) as f64, "MiB"),
        ((1_u64 << 10) as f64, "KiB"),
        (1.0, "B"),
    ];
    let rows = map.cells.iter().map(|cell| cell.1 + 1).max().unwrap_or(1);
    let end = map.first_offset as f64 + map.row_bytes as f64 * f64::from(rows);
    let (unit_bytes, unit) =
        *UNITS.iter().find(|unit| end >= 3.0 * unit.0).unwrap_or(&UNITS[UNITS.len() - 1]);
    let bins = Bins {
        start: map.first_offset as f64 / unit_bytes,
        width: map.row_bytes as f64 / unit_bytes,
    };
    let cells: Vec<_> =
        map.cells.iter().map(|&(column, row, count)| Cell { column, row, count }).collect();
    let x = clock.axis();
    let y =
        Axis::new(format!("offset ({unit})"), Unit::Plain).with_range(bins.start, end / unit_bytes);
    let note = format!(
        "Requests by where they begin; cells of {} by {}.",
        map.time.width,
        trimtab_report::bytes(map.row_bytes)
    );
    chart::heat_map("Offsets over time", &x, &y, (clock.bins(map.time), bins), &cells)
        .with_note(note)
}

#[cfg(test)]
mod tests {
    use trimtab_io::DeviceId;
    use trimtab_trace::{Record, Series};

    use super::*;

    fn trace(records: impl Iterator<Item = Record>) -> TraceReport {
        let mut series = Series::new();
        records.for_each(|record| series.add(&record));
        TraceReport {
            name: "t".to_owned(),
            files: vec!["t".into()],
            format: "parquet",
            unix_clock: false,
            has_offsets: true,
            devices: Vec::new(),
            notes: Vec::new(),
            skipped: 0,
            plots: series.finish(),
        }
    }

    fn titles(charts: &[Chart]) -> Vec<&str> {
        charts.iter().map(Chart::title).collect()
    }

    #[test]
    fn unmeasured_figures_are_omitted_with_a_reason() {
        let arriving = |i| Record::arriving(Nanos::from_millis(i), DeviceId(0), Op::Read, 0, 4096);
        let mut trace = trace((0..100).map(arriving));
        trace.has_offsets = false;
        trace.plots.offsets = None;
        let (charts, missing) = charts(&trace, &[]);
        assert_eq!(titles(&charts), ["Request sizes", "Requests per second", "Throughput"]);
        assert!(missing[0].contains("no completion times"), "{missing:?}");
        assert!(missing[1].contains("no offsets"), "{missing:?}");
    }

    #[test]
    fn single_instant_has_no_plots_over_time() {
        let one = Record::arriving(Nanos(7), DeviceId(0), Op::Flush, 0, 0);
        let (charts, missing) = charts(&trace([one].into_iter()), &[]);
        assert_eq!(titles(&charts), ["Request sizes"]);
        assert!(missing.iter().any(|m| m.contains("same instant")), "{missing:?}");
    }

    #[test]
    fn time_unit_depends_on_length() {
        let unit = |seconds: f64| {
            let records = [0.0, seconds]
                .map(|s| Record::arriving(Nanos::from_secs_f64(s), DeviceId(0), Op::Read, 0, 4096));
            TimeAxis::of(&trace(records.into_iter()).plots).unit
        };
        assert_eq!(
            [1e-6, 0.5, 60.0, 600.0, 86_400.0, 1e6].map(unit),
            ["ns", "ms", "s", "min", "h", "d"]
        );
    }
}
