//! What is marked in charts of lines: a level, and stretches along x.

use serde_json::{Value, json};

use super::Chart;

/// The colour of what is slow; readable on white and on black.
const SLOW: &str = "#c8443a";

impl Chart {
    /// Draws a dashed line between two points, such as a threshold.
    #[must_use]
    pub fn with_rule(self, from: (f64, f64), to: (f64, f64)) -> Self {
        let point = |(x, y): (f64, f64)| json!({"x": x, "y": y});
        self.behind(json!({
            "data": {"values": [point(from), point(to)]},
            "mark": {"type": "line", "strokeWidth": 1.5, "clip": true},
            "encoding": {"color": {"value": SLOW}, "strokeDash": {"value": [6, 3]}},
        }))
    }

    /// Shades stretches along x, each from and to.
    #[must_use]
    pub fn with_bands(self, bands: &[(f64, f64)]) -> Self {
        if bands.is_empty() {
            return self;
        }
        let bands: Vec<_> = bands.iter().map(|(x, x2)| json!({"x": x, "x2": x2})).collect();
        self.behind(json!({
            "data": {"values": bands},
            "mark": {"type": "rect", "opacity": 0.18, "clip": true},
            "encoding": {
                "x2": {"field": "x2"}, "y": {"value": 0}, "y2": {"value": "height"},
                "color": {"value": SLOW},
            },
        }))
    }

    /// Puts a layer behind the others.
    fn behind(mut self, layer: Value) -> Self {
        if let Some(layers) = self.spec["layer"].as_array_mut() {
            layers.insert(0, layer);
        }
        self
    }
}
