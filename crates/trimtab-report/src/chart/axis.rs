//! Axes: the quantity they show, its unit and its scale.

/// The unit in which values are given, and so how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers, large ones with k, M and G. The axis title names the unit.
    Plain,
    /// Nanoseconds, written as ns, µs, ms or s.
    Nanos,
    /// The share of samples *above* a value, written as the percentile: 0.01 is p99.
    ///
    /// The axis is logarithmic and falls, so that p90, p99 and p99.9 are equally far
    /// apart, and the tail has as much room as the body.
    Percentile,
}

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly; a vertical axis begins at zero.
    Linear,
    /// By their logarithm. Values must be above zero.
    Log,
}

/// One axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(super) scale: Scale,
    pub(super) range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis. With [`Unit::Plain`] the title names the unit: `rate (MB/s)`.
    #[must_use]
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, scale: Scale::Linear, range: None }
    }

    /// The same axis with a logarithmic scale.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }

    /// The same axis, which shows exactly this range until the reader zooms.
    #[must_use]
    pub fn with_range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }

    /// The title with the unit in which values are given, for a file of figures.
    pub(crate) fn column_name(&self) -> String {
        match self.unit {
            Unit::Plain | Unit::Percentile => self.title.clone(),
            Unit::Nanos => format!("{} (ns)", self.title),
        }
    }

    /// A value as a file of figures has it.
    pub(crate) fn cell(&self, value: f64) -> String {
        match self.unit {
            Unit::Plain | Unit::Nanos => super::rounded(value).to_string(),
            Unit::Percentile => percentile(value),
        }
    }
}

/// The percentile that leaves this share of samples above it, with enough digits to
/// distinguish it from its neighbours: 0.001 is 99.9.
pub(super) fn percentile(above: f64) -> String {
    let decimals = (-above.log10()).ceil().clamp(0.0, 12.0) as usize;
    let text = format!("{:.decimals$}", 100.0 * (1.0 - above));
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_the_digits_they_need() {
        let texts = [1.0, 0.5, 0.1, 0.05, 0.01, 0.003_16, 0.001, 1e-9].map(percentile);
        assert_eq!(texts, ["0", "50", "90", "95", "99", "99.684", "99.9", "99.9999999"]);
    }
}
