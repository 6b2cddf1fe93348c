//! Metrics as Prometheus reads them: its text format, version 0.0.4.
//!
//! Source: the Prometheus documentation, "Exposition formats".

use std::fmt::{Display, Write};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// It only grows; its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by upper bounds, a sum and a count.
    Histogram,
}

impl Metric {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A page of metrics in the making: each begins with [`metric`](Self::metric), and all
/// its samples follow before the next.
///
/// ```
/// use trimtab_report::{Exposition, Metric};
///
/// let mut page = Exposition::default();
/// page.metric("disk_reads_total", Metric::Counter, "Reads completed.");
/// page.sample(&[("device", "nvme0n1")], 42);
/// let lines: Vec<String> = page.to_string().lines().map(str::to_owned).collect();
/// assert_eq!(lines[1], "# TYPE disk_reads_total counter");
/// assert_eq!(lines[2], r#"disk_reads_total{device="nvme0n1"} 42"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    text: String,
    name: &'static str,
}

impl Exposition {
    /// Begins a metric. The name has its unit in it: seconds and bytes, without
    /// prefixes.
    pub fn metric(&mut self, name: &'static str, metric: Metric, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.add(format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", metric.name()));
        self.name = name;
    }

    /// Adds a sample of it: labels with their values, and a number.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Adds a histogram: upper bounds in seconds, ascending, each with the cumulative count;
    /// then the total count, and the sum in seconds.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        cumulative: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        for (bound, below) in cumulative {
            self.line("_bucket", labels, Some(&bound.to_string()), below);
        }
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: impl Display,
    ) {
        let name = self.name;
        self.add(format_args!("{name}{suffix}"));
        let bound = bound.map(|bound| ("le", bound));
        let mut before = '{';
        for (label, value) in labels.iter().copied().chain(bound) {
            self.add(format_args!("{before}{label}=\"{}\"", escaped(value)));
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        self.add(format_args!(" {value}\n"));
    }

    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes any text");
    }
}

impl Display for Exposition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_ends_with_the_total() {
        let mut page = Exposition::default();
        page.metric("x_seconds", Metric::Histogram, "Of x.");
        page.histogram(&[("d", "a")], [(0.000_01, 1), (0.5, 3)].into_iter(), 4, 12.25);
        assert_eq!(
            page.to_string(),
            "# HELP x_seconds Of x.\n# TYPE x_seconds histogram\n\
             x_seconds_bucket{d=\"a\",le=\"0.00001\"} 1\n\
             x_seconds_bucket{d=\"a\",le=\"0.5\"} 3\n\
             x_seconds_bucket{d=\"a\",le=\"+Inf\"} 4\n\
             x_seconds_sum{d=\"a\"} 12.25\n\
             x_seconds_count{d=\"a\"} 4\n"
        );
    }

    #[test]
    fn text_from_outside_stays_within_its_quotes() {
        let mut page = Exposition::default();
        page.metric("x", Metric::Gauge, "One\nline \\ only.");
        page.sample(&[("file", "a\"} 1\nb\\c")], f64::NAN);
        page.sample(&[], 1);
        assert_eq!(
            page.to_string(),
            "# HELP x One\\nline \\\\ only.\n# TYPE x gauge\n\
             x{file=\"a\\\"} 1\\nb\\\\c\"} NaN\nx 1\n"
        );
    }
}
