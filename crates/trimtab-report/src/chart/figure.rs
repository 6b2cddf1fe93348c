//! A chart as plotly.js takes it: traces, layout and configuration.
//!
//! Colours of text, grid and background are absent here: the page's script takes them
//! from its style sheet, so that a chart follows the reader's light or dark scheme.
//!
//! plotly.js reads markup (`<b>`, `<a href>`) and variables (`%{y}`) in all text that it
//! shows. [`text`] takes that meaning from names, which come from outside.

mod layout;

pub(crate) use layout::HEIGHT;

use plotly::common::{
    ColorBar, ColorScale, ColorScaleElement, DashType, Line, LineShape, Marker, Mode, Title,
};
use plotly::configuration::{ImageButtonFormats, ModeBarButtonName, ToImageButtonOptions};
use plotly::layout::Layout;
use plotly::{Bar, Configuration, HeatMap, Scatter, Trace};
use serde::Serialize;

use super::points::{Point, corners, rounded, thin};
use super::{Axis, BinnedSeries, Bins, Cell, Chart, Data, Unit, axis};

/// The argument of `Plotly.newPlot`.
#[derive(Serialize)]
pub(crate) struct Figure {
    data: Vec<Box<dyn Trace>>,
    layout: Layout,
    config: Configuration,
}

/// Told apart by people with any of the common colour deficiencies, and dark
/// enough for a white page, light enough for a black one. After the palette of
/// M. Okabe and K. Ito, "Color Universal Design", 2008, some shades moved.
const PALETTE: [&str; 7] =
    ["#2a7fc4", "#d55e00", "#0a9c74", "#b8689a", "#b58900", "#4aa3d8", "#808890"];

/// Lines differ in their dashes too: for print in grey.
const DASHES: [DashType; 6] = [
    DashType::Solid,
    DashType::Dash,
    DashType::Dot,
    DashType::DashDot,
    DashType::LongDash,
    DashType::LongDashDot,
];

/// Steps of more bins than this are drawn thin and without dashes, which tear them to
/// pieces.
const BUSY: usize = 64;

/// The middle of the colour map viridis: its ends vanish on a dark and on a light page.
const HEAT: [&str; 7] =
    ["#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b"];

/// Bars that begin at a value of their own, which the crate's do not have.
#[derive(Clone, Serialize)]
struct BarFrom {
    #[serde(flatten)]
    bar: Box<Bar<String, Option<f64>>>,
    base: f64,
}

impl Trace for BarFrom {
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("text and numbers")
    }
}

impl Chart {
    /// The chart for plotly.js.
    pub(crate) fn figure(&self) -> Figure {
        Figure { data: self.traces(), layout: self.layout(), config: configuration(&self.title) }
    }

    fn traces(&self) -> Vec<Box<dyn Trace>> {
        match &self.data {
            Data::Lines(lines) => {
                let style = |i| line_style(i, LineShape::Linear, false);
                // Later lines are drawn on top, and the first series is the most important.
                // The legend's order is reversed again.
                let lines = lines.iter().enumerate().rev();
                lines.map(|(i, line)| self.scatter(&line.name, i, &line.points, style(i))).collect()
            }
            Data::Steps(bins, series) => {
                let busy = series.iter().any(|s| s.values.len() > BUSY);
                let style = |i| line_style(i, LineShape::Hv, busy);
                let points = |s: &BinnedSeries| thin(&corners(*bins, &s.values));
                let series = series.iter().enumerate().rev();
                series.map(|(i, s)| self.scatter(&s.name, i, &points(s), style(i))).collect()
            }
            Data::Areas(bins, series) => {
                series.iter().enumerate().map(|(i, s)| self.area(s, i, *bins)).collect()
            }
            Data::Bars(categories, series) => {
                let categories: Vec<_> = categories.iter().map(|name| text(name)).collect();
                series.iter().enumerate().map(|(i, s)| self.bars(s, i, &categories)).collect()
            }
            Data::HeatMap { columns, rows, cells } => {
                vec![self.heat_map(*columns, *rows, cells)]
            }
        }
    }

    fn scatter(&self, name: &str, index: usize, points: &[Point], line: Line) -> Box<dyn Trace> {
        // A line through one point would not be seen.
        let lone = points.iter().filter(|p| p.1.is_some()).count() == 1;
        let mode = if self.points_shown || lone { Mode::LinesMarkers } else { Mode::Lines };
        let x = points.iter().map(|p| plotted(&self.x, p.0)).collect();
        let y: Vec<_> = points.iter().map(|p| p.1.map(|y| plotted(&self.y, y))).collect();
        let trace = Scatter::new(x, y)
            .name(text(name))
            .mode(mode)
            .line(line.color(colour(name, index)))
            .marker(Marker::new().color(colour(name, index)).size(6))
            .hover_template(self.hover(matches!(self.data, Data::Steps(..))));
        let labels: Vec<String> = match (self.x.unit, self.y.unit) {
            (Unit::Percentile, _) => points.iter().map(|p| percentile(p.0)).collect(),
            (_, Unit::Percentile) => {
                points.iter().map(|p| p.1.map_or_else(String::new, percentile)).collect()
            }
            _ => return trace,
        };
        trace.text_array(labels)
    }

    fn area(&self, series: &BinnedSeries, index: usize, bins: Bins) -> Box<dyn Trace> {
        let edges = (0..=series.values.len()).map(|i| plotted(&self.x, bins.edge(i))).collect();
        // The last value holds up to the end of its bin.
        let values = series.values.iter().chain(series.values.last());
        let values: Vec<_> = values.map(|v| v.map(|v| plotted(&self.y, v))).collect();
        Scatter::new(edges, values)
            .name(text(&series.name))
            .mode(Mode::Lines)
            .stack_group("all")
            .line(Line::new().shape(LineShape::Hv).width(0.0).color(colour(&series.name, index)))
            .hover_template(self.hover(true))
    }

    fn bars(&self, series: &BinnedSeries, index: usize, categories: &[String]) -> Box<dyn Trace> {
        // A logarithmic axis has no zero to begin at: bars show ratios there, and begin at 1.
        let base = if self.y.scale == axis::Scale::Log { 1.0 } else { 0.0 };
        let from_base = |v: f64| plotted(&self.y, v) - base;
        let values: Vec<_> = series.values.iter().map(|v| v.map(from_base)).collect();
        let bar = Bar::new(categories.to_vec(), values)
            .name(text(&series.name))
            .marker(Marker::new().color(colour(&series.name, index)))
            .hover_template(self.hover(false));
        if base == 0.0 { bar } else { Box::new(BarFrom { bar, base }) }
    }

    fn heat_map(&self, columns: Bins, rows: Bins, cells: &[Cell]) -> Box<dyn Trace> {
        let size =
            |bin: fn(&Cell) -> u32| cells.iter().map(|c| bin(c) as usize + 1).max().unwrap_or(1);
        let (width, height) = (size(|c| c.column), size(|c| c.row));
        // Colours have no log scale, so they are given logarithms, and the counts as text.
        let mut logs = vec![vec![None; width]; height];
        let mut counts = vec![vec![String::new(); width]; height];
        for cell in cells {
            let (row, column) = (cell.row as usize, cell.column as usize);
            logs[row][column] = Some(rounded((cell.count as f64).log10()));
            counts[row][column] = crate::count(cell.count);
        }
        let most = cells.iter().map(|c| c.count).max().unwrap_or(1).max(2);
        let (ticks, labels) = count_ticks(most);
        let bar = ColorBar::new()
            .title(Title::with_text("requests"))
            .tick_vals(ticks)
            .tick_text(labels)
            .thickness(12)
            .outline_width(0);
        let stops = HEAT.iter().enumerate().map(|(i, &shade)| {
            ColorScaleElement(i as f64 / (HEAT.len() - 1) as f64, shade.to_owned())
        });
        let edges = |axis: &Axis, bins: Bins, n: usize| {
            (0..=n).map(|i| plotted(axis, bins.edge(i))).collect::<Vec<_>>()
        };
        HeatMap::new(edges(&self.x, columns, width), edges(&self.y, rows, height), logs)
            .text_matrix(counts)
            .zmin(0.0)
            .zmax((most as f64).log10())
            .color_scale(ColorScale::Vector(stops.collect()))
            .color_bar(bar)
            .hover_on_gaps(false)
            .hover_template(format!("{}<br>requests: %{{text}}<extra></extra>", self.hover(false)))
    }

    /// The text shown at the pointer. A label `shared` by all series has x as its heading.
    fn hover(&self, shared: bool) -> String {
        let value = |name: &str, axis: &Axis| match axis.unit {
            Unit::Plain if matches!(self.data, Data::Bars(..)) && name == "x" => "%{x}".to_owned(),
            Unit::Plain => format!("%{{{name}:{PLAIN}}}"),
            Unit::Nanos => format!("%{{{name}:{SECONDS}}}"),
            Unit::Percentile => "%{text}".to_owned(),
        };
        let y = value("y", &self.y);
        if shared {
            return y;
        }
        let (x_title, y_title) = (text(&self.x.title), text(&self.y.title));
        format!("{x_title}: {}<br>{y_title}: {y}", value("x", &self.x))
    }
}

/// d3's format of a plain number in a label.
const PLAIN: &str = ",.6~r";
/// d3's format of seconds in a label: three digits and a prefix, µ, m or none. `$` stands
/// for the unit (see `assets/page.js`).
const SECONDS: &str = "$.3s";

/// A value as it is plotted. Nanoseconds are plotted as seconds: with a prefix, those
/// have the units that people write.
fn plotted(axis: &Axis, value: f64) -> f64 {
    match axis.unit {
        Unit::Plain | Unit::Percentile => rounded(value),
        Unit::Nanos => rounded(value / 1e9),
    }
}

fn percentile(above: f64) -> String {
    if above >= 1.0 { "min".to_owned() } else { format!("p{}", axis::percentile(above)) }
}

/// Escapes text for plotly.js.
fn text(raw: &str) -> String {
    raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace("%{", "&#37;{")
}

/// An op has the same colour in every chart, also where others are absent.
fn colour(name: &str, index: usize) -> &'static str {
    let op = trimtab_io::Op::ALL.iter().position(|op| op.name() == name);
    PALETTE[op.unwrap_or(index) % PALETTE.len()]
}

fn line_style(index: usize, shape: LineShape, busy: bool) -> Line {
    let line = Line::new().shape(shape);
    if busy {
        return line.width(1.0);
    }
    line.width(1.6).dash(DASHES[index % DASHES.len()].clone())
}

/// Powers of ten up to a count, as logarithms and as labels; with halves where they
/// would be few.
fn count_ticks(most: u64) -> (Vec<f64>, Vec<String>) {
    let steps: &[u64] = if most < 1_000 { &[1, 2, 5] } else { &[1] };
    let powers = (0..20).map(|decade| 10_u64.saturating_pow(decade));
    let ticks = powers.flat_map(|power| steps.iter().map(move |&s| power.saturating_mul(s)));
    let ticks: Vec<u64> = ticks.take_while(|&tick| tick <= most).collect();
    (
        ticks.iter().map(|&t| (t as f64).log10()).collect(),
        ticks.iter().map(|&t| crate::count(t)).collect(),
    )
}

fn configuration(title: &str) -> Configuration {
    use ModeBarButtonName::{AutoScale2d, Lasso2d, Select2d};
    let name = crate::csv::file_name(title);
    let image = ToImageButtonOptions::new()
        .format(ImageButtonFormats::Svg)
        .filename(name.trim_end_matches(".csv"));
    Configuration::new()
        .responsive(true)
        .display_logo(false)
        .typeset_math(false)
        .mode_bar_buttons_to_remove(vec![Select2d, Lasso2d, AutoScale2d])
        .to_image_button_options(image)
}

#[cfg(test)]
mod tests {
    use super::super::{LineSeries, area, bars, heat_map, line, steps};
    use super::*;
    use serde_json::{Value, json};

    fn json_of(chart: &Chart) -> Value {
        serde_json::to_value(chart.figure()).unwrap()
    }

    fn series(name: &str, n: usize) -> (Bins, [BinnedSeries; 1]) {
        let values = (0..n).map(|i| Some(i as f64)).collect();
        (Bins { start: 0.0, width: 0.5 }, [BinnedSeries { name: name.to_owned(), values }])
    }

    #[test]
    fn names_have_no_meaning_to_plotly() {
        let name = "<a href='javascript:x'>%{y}&lt;</script>";
        let shown = "&lt;a href='javascript:x'&gt;&#37;{y}&amp;lt;&lt;/script&gt;";
        let (bins, series) = series(name, 3);
        let axis = Axis::new(name, Unit::Plain);
        for chart in [
            steps(name, &axis, &axis, bins, &series),
            area(name, &axis, &axis, bins, &series),
            bars(name, name, &axis, &[name, "b", "c"], &series),
        ] {
            let figure = json_of(&chart);
            assert_eq!(figure["data"][0]["name"], shown);
            assert_eq!(figure["layout"]["yaxis"]["title"]["text"], shown);
            assert!(!figure.to_string().contains("<a") && !figure.to_string().contains("<b>"));
        }
    }

    #[test]
    fn colours_of_ops_are_fixed() {
        assert_eq!(colour("write", 0), PALETTE[1]);
        assert_eq!(colour("other", 2), PALETTE[2]);
    }

    #[test]
    fn long_lines_are_thinned() {
        let points = (0..100_000).map(|i| (f64::from(i), Some(f64::from(i % 100)))).collect();
        let axis = Axis::new("x", Unit::Plain);
        let chart = line("t", &axis, &axis, &[LineSeries { name: "s".to_owned(), points }]);
        let kept = json_of(&chart)["data"][0]["x"].as_array().unwrap().len();
        assert!((1000..=2000).contains(&kept), "{kept}");
    }

    #[test]
    fn latencies_are_plotted_in_seconds_and_the_first_series_last() {
        let line_of =
            |name: &str, y| LineSeries { name: name.to_owned(), points: vec![(0.5, Some(y))] };
        let (x, y) = (Axis::new("x", Unit::Plain), Axis::new("latency", Unit::Nanos).log());
        let figure = json_of(&line("t", &x, &y, &[line_of("a", 85_000.0), line_of("b", 1e9)]));
        assert_eq!(figure["data"][1]["name"], "a");
        assert_eq!(figure["data"][1]["y"], json!([8.5e-5]));
        assert_eq!(figure["layout"]["yaxis"]["type"], "log");
        assert_eq!(figure["layout"]["yaxis"]["tickformat"], "$~s");
    }

    #[test]
    fn bars_of_ratios_begin_at_one() {
        let series = [BinnedSeries { name: "s".to_owned(), values: vec![Some(0.25), None] }];
        let y = Axis::new("ratio", Unit::Plain);
        let trace = |y: &Axis| json_of(&bars("t", "x", y, &["a", "b"], &series))["data"][0].clone();
        assert_eq!(trace(&y)["y"], json!([0.25, null]));
        let log = trace(&y.log());
        assert_eq!((&log["base"], &log["y"]), (&json!(1.0), &json!([-0.75, null])));
        assert_eq!(log["x"], json!(["a", "b"]));
    }

    #[test]
    fn heat_map_has_edges_counts_and_gaps() {
        let axis = Axis::new("x", Unit::Plain);
        let bins = Bins { start: 1.0, width: 2.0 };
        let cells = [Cell { column: 1, row: 0, count: 1_000 }];
        let trace = &json_of(&heat_map("t", &axis, &axis, (bins, bins), &cells))["data"][0];
        assert_eq!(trace["x"], json!([1.0, 3.0, 5.0]));
        assert_eq!(trace["y"], json!([1.0, 3.0]));
        assert_eq!(trace["z"], json!([[null, 3.0]]));
        assert_eq!(trace["text"], json!([["", "1,000"]]));
    }
}
