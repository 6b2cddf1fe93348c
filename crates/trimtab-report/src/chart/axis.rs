//! Axes: what they measure, and how their labels read.

use serde_json::{Value, json};

/// How a chart's numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As they are, large ones with k, M and G. The axis title names the unit.
    Plain,
    /// Nanoseconds, shown as ns, µs, ms or s.
    Nanos,
}

impl Unit {
    /// The Vega expression that writes the value of the expression `v`.
    pub(super) fn text(self, v: &str) -> String {
        match self {
            Self::Plain => format!("abs({v}) >= 1e4 ? format({v}, '.3~s') : format({v}, '.4~r')"),
            Self::Nanos => format!(
                "{v} < 999.5 ? format({v}, '.3~r') + ' ns' \
                 : {v} < 999.5e3 ? format({v} / 1e3, '.3~r') + ' µs' \
                 : {v} < 999.5e6 ? format({v} / 1e6, '.3~r') + ' ms' \
                 : format({v} / 1e9, '.3~r') + ' s'"
            ),
        }
    }
}

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By their logarithm. Values must be above zero.
    Log,
}

/// One axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) title: String,
    pub(super) unit: Unit,
    scale: Scale,
    range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis with this title, which names the unit unless labels do.
    #[must_use]
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, scale: Scale::Linear, range: None }
    }

    /// The same axis with logarithmic steps.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }

    /// The same axis, which shows exactly this range.
    #[must_use]
    pub fn with_range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }

    /// The encoding channel of `field`, whose data spans `extent`.
    pub(super) fn encoding(&self, field: &str, extent: Option<(f64, f64)>) -> Value {
        let mut axis = json!({"labelExpr": self.unit.text("datum.value"), "labelFlush": false});
        let mut scale = json!({"nice": false});
        match self.scale {
            Scale::Linear => {
                if let Some((from, to)) = self.range {
                    scale["domain"] = json!([from, to]);
                } else if field == "y" {
                    scale = json!({"zero": true, "nice": true});
                }
                axis["tickCount"] = json!(if field == "x" { 8 } else { 5 });
            }
            Scale::Log => {
                let (low, high) = self.range.or(extent).unwrap_or((1.0, 10.0));
                // A flat line needs some room above and below.
                let (low, high) = (low.max(f64::MIN_POSITIVE) / 1.15, high * 1.15);
                scale["type"] = json!("log");
                scale["domain"] = json!([low, high]);
                axis["values"] = json!(log_ticks(low, high));
            }
        }
        json!({
            "field": field, "type": "quantitative", "title": self.title,
            "axis": axis, "scale": scale,
        })
    }
}

/// Round values within a range: powers of ten, with halves or more between
/// them where these alone are too few.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = |steps: &[f64]| -> Vec<f64> {
        decades
            .clone()
            .flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)))
            .filter(|t| (low..=high).contains(t))
            .collect()
    };
    [&[1.0][..], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]]
        .into_iter()
        .map(ticks)
        .find(|t| t.len() >= 4)
        .unwrap_or_else(|| {
            ticks(&[1.0, 1.2, 1.5, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
        })
}

/// Least and greatest of some values.
pub(super) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |extent, v| {
        let (low, high) = extent.unwrap_or((v, v));
        Some((low.min(v), high.max(v)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enough() {
        let rounded = |low, high| -> Vec<String> {
            log_ticks(low, high).iter().map(|t| format!("{t:.0}")).collect()
        };
        assert_eq!(rounded(90.0, 200_000.0), ["100", "1000", "10000", "100000"]);
        assert_eq!(rounded(80.0, 1_100.0), ["100", "200", "500", "1000"]);
        assert!(log_ticks(100.0, 160.0).len() >= 3);
    }
}
