//! Charts as Vega-Lite specifications that carry their own data.
//!
//! Each function takes figures that are already counted and summed, and
//! returns a [`Chart`] for a [`Section`](crate::Section). Only a chart's look
//! is decided here.
//!
//! Data is kept by column, one entry per series, and spread into rows by
//! Vega-Lite's `flatten`: a row-wise table would repeat each field's name for
//! each point. Names of series come from outside; they are only ever data,
//! never field names or expressions.

mod axis;
mod cdf;
mod mark;
mod points;

use serde_json::{Value, json};

pub use axis::{Axis, Scale, Unit};
pub use cdf::cdf;
pub use points::Bins;

use points::{column, steps_of, thin};

/// One chart with its heading.
#[derive(Clone, Debug)]
pub struct Chart {
    pub(crate) title: String,
    pub(crate) note: Option<String>,
    pub(crate) spec: Value,
}

impl Chart {
    /// Puts a remark below the chart.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds the line from (0, 0) to (1, 1) to a chart of lines.
    #[must_use]
    pub fn with_diagonal(mut self) -> Self {
        let layer = json!({
            "data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
            "mark": {"type": "line", "strokeWidth": 1},
            "encoding": {"color": {"value": "#808890"}, "strokeDash": {"value": [2, 4]}},
        });
        if let Some(layers) = self.spec["layer"].as_array_mut() {
            layers.insert(0, layer);
        }
        self
    }

    /// Shows the points of a chart of lines, where they are few.
    #[must_use]
    pub fn with_points(mut self) -> Self {
        for layer in self.spec["layer"].as_array_mut().into_iter().flatten() {
            if layer["mark"]["type"] == "point" {
                layer["mark"]["opacity"] = json!(1);
            }
        }
        self
    }

    /// The Vega-Lite specification.
    #[must_use]
    pub const fn spec(&self) -> &Value {
        &self.spec
    }
}

/// A named sequence of points, in rising x. A y that is `None` is a gap.
#[derive(Clone, Debug)]
pub struct Line {
    /// As the legend shows it.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, Option<f64>)>,
}

/// One value per bin, named.
#[derive(Clone, Debug)]
pub struct Binned {
    /// As the legend shows it.
    pub name: String,
    /// `None` is a gap.
    pub values: Vec<Option<f64>>,
}

/// Lines through points. A series of more than 2000 points is thinned out, in
/// a way that keeps its extremes.
#[must_use]
pub fn line(title: &str, x: &Axis, y: &Axis, lines: &[Line]) -> Chart {
    let series: Vec<_> = lines.iter().map(|l| (l.name.as_str(), thin(&l.points))).collect();
    lines_chart(title, x, y, &series, "linear")
}

/// Step lines: values that hold for a whole bin.
#[must_use]
pub fn steps(title: &str, x: &Axis, y: &Axis, bins: Bins, series: &[Binned]) -> Chart {
    let series: Vec<_> =
        series.iter().map(|s| (s.name.as_str(), thin(&steps_of(bins, &s.values)))).collect();
    lines_chart(title, x, y, &series, "step-after")
}

/// Stacked areas of steps: the parts of a whole over time.
#[must_use]
pub fn area(title: &str, x: &Axis, y: &Axis, bins: Bins, series: &[Binned]) -> Chart {
    // All have the same x values, which stacking needs; thinning would break
    // that, so the caller's bins are the limit.
    let series: Vec<_> =
        series.iter().map(|s| (s.name.as_str(), steps_of(bins, &s.values))).collect();
    let names: Vec<_> = series.iter().map(|s| s.0).collect();
    let mut spec = frame(title);
    spec["data"] = data(&series);
    spec["transform"] = json!([
        {"flatten": ["x", "y"]},
        {"filter": "isValid(datum.y)"},
        {"calculate": x.unit.text("datum.x"), "as": "at"},
        {"calculate": y.unit.text("datum.y"), "as": "value"},
    ]);
    spec["mark"] = json!({
        "type": "area", "interpolate": "step-after",
        "fillOpacity": 0.6, "tooltip": true, "clip": true,
    });
    spec["encoding"] = json!({
        "x": x.encoding("x", None),
        "y": y.encoding("y", None),
        "color": colour(&names),
        "order": {"field": "i", "type": "quantitative"},
        "tooltip": tooltip(&names, x, y),
    });
    spec["encoding"]["y"]["stack"] = json!("zero");
    Chart { title: title.to_owned(), note: None, spec }
}

/// Bars side by side: one group per category, one bar per series in it.
#[must_use]
pub fn bars(title: &str, x_title: &str, y: &Axis, categories: &[&str], series: &[Binned]) -> Chart {
    let names: Vec<_> = series.iter().map(|s| s.name.as_str()).collect();
    let values: Vec<_> = series
        .iter()
        .map(|s| json!({"s": s.name, "x": categories, "y": column(s.values.iter().copied())}))
        .collect();
    let mut spec = frame(title);
    spec["data"] = json!({"values": values});
    spec["transform"] = json!([
        {"flatten": ["x", "y"]},
        {"calculate": y.unit.text("datum.y"), "as": "value"},
    ]);
    spec["mark"] = json!({"type": "bar", "tooltip": true});
    let mut tips = vec![
        json!({"field": "x", "type": "nominal", "title": x_title}),
        json!({"field": "value", "type": "nominal", "title": y.title}),
    ];
    if names.len() > 1 {
        tips.insert(1, json!({"field": "s", "type": "nominal", "title": "series"}));
    }
    spec["encoding"] = json!({
        "x": {
            "field": "x", "type": "nominal", "sort": null, "title": x_title,
            "axis": {"labelAngle": -35, "labelOverlap": false, "grid": false},
        },
        "y": y.encoding("y", None),
        "xOffset": {"field": "s", "type": "nominal", "sort": names},
        "color": colour(&names),
        "tooltip": tips,
    });
    // Bars mostly count things, and there are no halves of things.
    spec["encoding"]["y"]["axis"]["tickMinStep"] = json!(1);
    Chart { title: title.to_owned(), note: None, spec }
}

/// A cell of a heat map: column, row, and how much is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Bin along x, from 0.
    pub column: u32,
    /// Bin along y, from 0.
    pub row: u32,
    /// Shown as the colour, on a log scale.
    pub count: u64,
}

/// A heat map of counts. Cells that are not given stay blank.
#[must_use]
pub fn heat_map(title: &str, x: &Axis, y: &Axis, bins: (Bins, Bins), cells: &[Cell]) -> Chart {
    let (columns, rows) = bins;
    let most = cells.iter().map(|c| c.count).max().unwrap_or(1).max(2);
    let mut spec = frame(title);
    spec["height"] = json!(300);
    let mut colours = axis::log_ticks(1.0, most as f64);
    colours.retain(|count| count.fract() == 0.0);
    spec["data"] = json!({"values": [{
        "c": cells.iter().map(|c| c.column).collect::<Vec<_>>(),
        "r": cells.iter().map(|c| c.row).collect::<Vec<_>>(),
        "n": cells.iter().map(|c| c.count).collect::<Vec<_>>(),
    }]});
    let edge = |bins: Bins, index: &str| format!("{} + {} * {index}", bins.start, bins.width);
    spec["transform"] = json!([
        {"flatten": ["c", "r", "n"]},
        {"calculate": edge(columns, "datum.c"), "as": "x"},
        {"calculate": edge(columns, "(datum.c + 1)"), "as": "x2"},
        {"calculate": edge(rows, "datum.r"), "as": "y"},
        {"calculate": edge(rows, "(datum.r + 1)"), "as": "y2"},
        {"calculate": x.unit.text("datum.x"), "as": "at"},
        {"calculate": y.unit.text("datum.y"), "as": "value"},
    ]);
    spec["mark"] = json!({"type": "rect", "tooltip": true, "clip": true});
    spec["encoding"] = json!({
        "x": x.encoding("x", None),
        "x2": {"field": "x2"},
        "y": y.encoding("y", None),
        "y2": {"field": "y2"},
        "color": {
            "field": "n", "type": "quantitative",
            // The scheme's ends would vanish on a dark and on a light page.
            "scale": {
                "type": "log", "domain": [1, most],
                "scheme": {"name": "viridis", "extent": [0.2, 0.92]},
            },
            "legend": {
                "title": "requests", "format": "~s", "orient": "right", "gradientLength": 200,
                "values": colours,
            },
        },
        "tooltip": [
            {"field": "at", "type": "nominal", "title": x.title},
            {"field": "value", "type": "nominal", "title": y.title},
            {"field": "n", "type": "quantitative", "title": "requests", "format": ","},
        ],
    });
    Chart { title: title.to_owned(), note: None, spec }
}

type Series<'a> = (&'a str, Vec<(f64, Option<f64>)>);

fn lines_chart(title: &str, x: &Axis, y: &Axis, series: &[Series<'_>], shape: &str) -> Chart {
    let names: Vec<_> = series.iter().map(|s| s.0).collect();
    let points = || series.iter().flat_map(|s| &s.1);
    let x_extent = axis::extent(points().filter(|p| p.1.is_some()).map(|p| p.0));
    let y_extent = axis::extent(points().filter_map(|p| p.1));
    let mut spec = frame(title);
    spec["data"] = data(series);
    spec["transform"] = json!([
        {"flatten": ["x", "y"]},
        {"calculate": x.unit.text("datum.x"), "as": "at"},
        {"calculate": y.unit.text("datum.y"), "as": "value"},
    ]);
    let mut colour = colour(&names);
    let mut dash = json!({
        "field": "s", "type": "nominal", "scale": {"domain": names, "range": DASHES},
        "legend": colour["legend"].take(),
    });
    colour["legend"] = dash["legend"].clone();
    for channel in [&mut colour, &mut dash] {
        channel["legend"]["symbolType"] = json!("stroke");
        channel["legend"]["symbolSize"] = json!(500);
    }
    spec["encoding"] = json!({
        "x": x.encoding("x", x_extent),
        "y": y.encoding("y", y_extent),
        "color": colour,
    });
    // Dashes tell lines apart in grey, but tear a line of many steps to pieces.
    let busy = shape == "step-after" && series.iter().any(|s| s.1.len() > BUSY);
    let mut line_width = 1.6;
    if busy {
        dash["scale"]["range"] = json!([[1, 0]]);
        line_width = 1.0;
    }
    spec["layer"] = json!([
        {
            "mark": {
                "type": "line", "interpolate": shape, "strokeWidth": line_width, "clip": true,
                "invalid": "break-paths-show-domains",
            },
            "encoding": {"strokeDash": dash},
        },
        // A line reacts to the pointer as a whole; invisible points tell
        // which of its values is meant.
        {
            "transform": [{"filter": "isValid(datum.y)"}],
            "mark": {"type": "point", "filled": true, "opacity": 0, "size": 50, "clip": true},
            "encoding": {"tooltip": tooltip(&names, x, y)},
        },
    ]);
    Chart { title: title.to_owned(), note: None, spec }
}

/// One entry per series, the last one first: what comes later is drawn over
/// what came before, and the first series is the one that matters most.
fn data(series: &[Series<'_>]) -> Value {
    let values = series.iter().enumerate().rev().map(|(i, (name, points))| {
        json!({
            "s": name,
            "i": i,
            "x": column(points.iter().map(|p| Some(p.0))),
            "y": column(points.iter().map(|p| p.1)),
        })
    });
    json!({"values": values.collect::<Vec<_>>()})
}

fn tooltip(names: &[&str], x: &Axis, y: &Axis) -> Value {
    let mut fields = vec![
        json!({"field": "at", "type": "nominal", "title": x.title}),
        json!({"field": "value", "type": "nominal", "title": y.title}),
    ];
    if names.len() > 1 {
        fields.insert(0, json!({"field": "s", "type": "nominal", "title": "series"}));
    }
    json!(fields)
}

/// Told apart by people with any of the common colour deficiencies, and dark
/// enough for a white page, light enough for a black one. After the palette of
/// M. Okabe and K. Ito, "Color Universal Design", 2008, some shades moved.
const PALETTE: [&str; 7] =
    ["#2a7fc4", "#d55e00", "#0a9c74", "#b8689a", "#b58900", "#4aa3d8", "#808890"];

/// Lines differ in their dashes too: for print in grey.
const DASHES: [[u32; 4]; 7] = [
    [1, 0, 1, 0],
    [7, 2, 7, 2],
    [2, 2, 2, 2],
    [8, 2, 2, 2],
    [5, 4, 5, 4],
    [1, 3, 1, 3],
    [10, 3, 3, 3],
];

/// Steps of more bins than this are drawn thin and without dashes.
const BUSY: usize = 200;

fn colour(names: &[&str]) -> Value {
    // An op has the same colour in every chart, also where others are absent.
    let fixed = |name: &str| trimtab_io::Op::ALL.iter().position(|op| op.name() == name);
    let colours: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(i, name)| PALETTE[fixed(name).unwrap_or(i) % PALETTE.len()])
        .collect();
    json!({
        "field": "s", "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {
            "title": null, "orient": "top", "labelLimit": 400, "symbolStrokeWidth": 2,
            // More do not fit into a row; four columns still do on a phone, unless
            // there are long names among many.
            "columns": if names.len() > 4 && names.iter().any(|n| n.len() > 10) { 1 } else { 4 },
        },
    })
}

/// What all charts share.
fn frame(title: &str) -> Value {
    let font = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', sans-serif";
    json!({
        "description": title,
        "width": "container",
        "height": 240,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": "transparent",
        "config": {
            "font": font,
            "view": {"stroke": null},
            "axis": {
                "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal",
                "titlePadding": 8, "labelOverlap": true,
            },
            "legend": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(n: usize) -> (Bins, Vec<Option<f64>>) {
        (Bins { start: 0.0, width: 0.5 }, (0..n).map(|i| Some(i as f64)).collect())
    }

    #[test]
    fn series_names_are_data_only() {
        let name = "x'].constructor</script>";
        let (bins, values) = bins(3);
        let series = [Binned { name: name.to_owned(), values }];
        let axis = Axis::new("x", Unit::Plain);
        for chart in [
            steps("t", &axis, &axis, bins, &series),
            area("t", &axis, &axis, bins, &series),
            bars("t", "x", &axis, &["a", "b", "c"], &series),
        ] {
            let spec = chart.spec();
            assert_eq!(spec["data"]["values"][0]["s"], name);
            assert!(!spec["transform"].to_string().contains(name));
        }
    }

    #[test]
    fn an_op_keeps_its_colour() {
        let colours = colour(&["write"]);
        assert_eq!(colours["scale"]["range"], json!([PALETTE[1]]));
    }

    #[test]
    fn long_lines_are_thinned() {
        let points = (0..100_000).map(|i| (f64::from(i), Some(f64::from(i % 100)))).collect();
        let axis = Axis::new("x", Unit::Plain);
        let chart = line("t", &axis, &axis, &[Line { name: "s".to_owned(), points }]);
        let kept = chart.spec()["data"]["values"][0]["x"].as_array().unwrap().len();
        assert!((1000..=2000).contains(&kept), "{kept}");
    }
}
