//! Axes, legend and marks of a figure.

use plotly::common::{Anchor, DashType, ExponentFormat, Label, Orientation, Title};
use plotly::layout::{
    self, AxisType, BarMode, HoverMode, Layout, Legend, Margin, RangeMode, Shape, ShapeLayer,
    ShapeLine, ShapeType, TraceOrder,
};

use super::super::axis::Scale;
use super::super::{Axis, Chart, Data, Mark, Unit};
use super::{PLAIN, SECONDS, percentile, plotted, rounded, text};

/// Red for slow; readable on white and on black.
const SLOW: &str = "#c8443a";
const NEUTRAL: &str = "#808890";

/// Log axes of fewer decades label 1, 2 and 5 of each; a wide one labels powers of ten
/// alone. Labels along x have to fit side by side on a phone.
const X_DECADES: f64 = 2.5;
const Y_DECADES: f64 = 3.0;

/// Height of each chart, in pixels. A page reserves the space before the chart is drawn.
pub(crate) const HEIGHT: usize = 340;

impl Chart {
    pub(super) fn layout(&self) -> Layout {
        let shared = matches!(self.data, Data::Steps(..) | Data::Areas(..));
        let reversed = matches!(self.data, Data::Steps(..) | Data::Lines(..));
        let lone_bars = matches!(&self.data, Data::Bars(_, series) if series.len() < 2);
        let order = if reversed { TraceOrder::Reversed } else { TraceOrder::Normal };
        let legend = Legend::new()
            .orientation(Orientation::Horizontal)
            .trace_order(order)
            .x(0.0)
            .y(1.02)
            .y_anchor(Anchor::Bottom);
        Layout::new()
            .height(HEIGHT)
            .margin(Margin::new().left(56).right(12).top(16).bottom(44))
            .bar_mode(BarMode::Group)
            .hover_mode(if shared { HoverMode::XUnified } else { HoverMode::Closest })
            .hover_label(Label::new().name_length(-1))
            .show_legend(!lone_bars && !matches!(self.data, Data::HeatMap { .. }))
            .legend(legend)
            .x_axis(self.x_axis())
            .y_axis(self.y_axis())
            .shapes(self.marks.iter().map(|&mark| self.shape(mark)).collect())
    }

    fn x_axis(&self) -> layout::Axis {
        let axis = layout_axis(&self.x, self.extent(&self.x), X_DECADES);
        match &self.data {
            // Without it, names such as 64 or 2026-01-01 become numbers and dates.
            Data::Bars(..) => axis.type_(AxisType::Category).show_grid(false),
            _ => axis.ticks(layout::TicksDirection::Outside),
        }
    }

    fn y_axis(&self) -> layout::Axis {
        let axis = layout_axis(&self.y, self.extent(&self.y), Y_DECADES);
        match self.y.scale {
            Scale::Log if matches!(self.data, Data::Bars(..)) => {
                ratio_axis(axis, self.extent(&self.y).unwrap_or((1.0, 1.0)))
            }
            Scale::Linear if self.y.range.is_none() && self.y.unit != Unit::Percentile => {
                axis.range_mode(RangeMode::ToZero)
            }
            _ => axis,
        }
    }

    /// Least and greatest value along an axis; of lines, steps and bars, which alone have axes
    /// that need it.
    fn extent(&self, axis: &Axis) -> Option<(f64, f64)> {
        if let Some(range) = axis.range {
            return Some(range);
        }
        let along_x = std::ptr::eq(axis, &self.x);
        let wider = |extent: Option<(f64, f64)>, value: f64| {
            let (least, most) = extent.unwrap_or((value, value));
            Some((least.min(value), most.max(value)))
        };
        match &self.data {
            Data::Lines(lines) => {
                let points = lines.iter().flat_map(|line| &line.points);
                let values = points.filter_map(|p| p.1.map(|y| if along_x { p.0 } else { y }));
                values.fold(None, wider)
            }
            Data::Steps(_, series) | Data::Bars(_, series) if !along_x => {
                series.iter().flat_map(|s| &s.values).filter_map(|v| *v).fold(None, wider)
            }
            _ => None,
        }
    }

    fn shape(&self, mark: Mark) -> Shape {
        let line = |colour: &'static str, width, dash| {
            Shape::new()
                .shape_type(ShapeType::Line)
                .layer(ShapeLayer::Below)
                .line(ShapeLine::new().color(colour).width(width).dash(dash))
        };
        match mark {
            Mark::ThresholdX(x) => {
                let x = plotted(&self.x, x);
                let shape = line(SLOW, 1.5, DashType::Dash).x0(x).x1(x);
                shape.y_ref("paper").y0(0.0).y1(1.0)
            }
            Mark::ThresholdY(y) => {
                let y = plotted(&self.y, y);
                let shape = line(SLOW, 1.5, DashType::Dash).y0(y).y1(y);
                shape.x_ref("paper").x0(0.0).x1(1.0)
            }
            Mark::Band(from, to) => Shape::new()
                .shape_type(ShapeType::Rect)
                .layer(ShapeLayer::Below)
                .fill_color(SLOW)
                .opacity(0.18)
                .line(ShapeLine::new().width(0.0))
                .x0(plotted(&self.x, from))
                .x1(plotted(&self.x, to))
                .y_ref("paper")
                .y0(0.0)
                .y1(1.0),
            Mark::Diagonal => line(NEUTRAL, 1.0, DashType::Dot).x0(0.0).x1(1.0).y0(0.0).y1(1.0),
        }
    }
}

fn layout_axis(axis: &Axis, extent: Option<(f64, f64)>, few_decades: f64) -> layout::Axis {
    let drawn = layout::Axis::new()
        .title(Title::with_text(text(&axis.title)))
        .auto_margin(true)
        .zero_line(false);
    let drawn = match axis.unit {
        Unit::Plain => drawn.exponent_format(ExponentFormat::SI).hover_format(PLAIN),
        Unit::Nanos => drawn.tick_format("$~s").hover_format(SECONDS),
        Unit::Percentile => return percentile_axis(drawn, extent),
    };
    let ends = axis.range.map(|(from, to)| (plotted(axis, from), plotted(axis, to)));
    match (axis.scale, ends) {
        (Scale::Linear, None) => drawn,
        (Scale::Linear, Some((from, to))) => drawn.range(vec![from, to]),
        (Scale::Log, None) => {
            drawn.type_(AxisType::Log).n_ticks(most_log_ticks(extent, few_decades))
        }
        (Scale::Log, Some((from, to))) => drawn
            .type_(AxisType::Log)
            .n_ticks(most_log_ticks(extent, few_decades))
            .range(vec![from.log10(), to.log10()]),
    }
}

/// The limit of ticks by which plotly.js labels even steps within one decade, 1, 2 and 5
/// of each of a few, and powers of ten of more. By itself it labels nine of each decade,
/// one over the other.
fn most_log_ticks(extent: Option<(f64, f64)>, few_decades: f64) -> usize {
    let (least, most) = extent.unwrap_or((1.0, 1e3));
    match (most / least).log10() {
        decades if decades < 1.0 => 6,
        decades if decades < few_decades => (decades / 0.65).ceil() as usize,
        // A tenth more, for plotly.js's margin around the figures.
        decades => (1.1 * decades).clamp(2.0, 20.0).ceil() as usize,
    }
}

/// A logarithmic axis of ratios: 1 is always on it, and a difference of a few percent does not
/// fill it. plotly.js would label 0.5 and 0.05 as 5.
fn ratio_axis(drawn: layout::Axis, (least, most): (f64, f64)) -> layout::Axis {
    let (from, to) = (least.min(0.8) / 1.1, most.max(1.25) * 1.1);
    let digits: &[f64] = match (to / from).log10() {
        ..0.8 => &[1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        ..Y_DECADES => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let powers = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
    let ticks = powers.flat_map(|power| digits.iter().map(move |d| d * 10_f64.powi(power)));
    let ticks: Vec<_> = ticks.map(rounded).filter(|tick| (from..=to).contains(tick)).collect();
    let labels = ticks.iter().map(f64::to_string).collect();
    drawn.range(vec![from.log10(), to.log10()]).tick_values(ticks).tick_text(labels)
}

fn percentile_axis(drawn: layout::Axis, extent: Option<(f64, f64)>) -> layout::Axis {
    let (least, most) = extent.unwrap_or((0.1, 1.0));
    let (least, most) = (least.clamp(1e-12, 0.5), most.max(0.5));
    let shares = [1.0, 0.5].into_iter().chain((1..=12).map(|n| 10_f64.powi(-n)));
    let shown = (0.99 * least)..=(1.01 * most);
    let shares: Vec<_> = shares.filter(|share| shown.contains(share)).collect();
    let labels: Vec<_> = shares.iter().map(|&share| percentile(share)).collect();
    let ends = vec![most.log10() + 0.02, least.log10() - 0.02];
    drawn.type_(AxisType::Log).range(ends).tick_values(shares).tick_text(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_ratios_label_whole_numbers_around_one() {
        let ticks = |least, most| {
            let axis =
                serde_json::to_value(ratio_axis(layout::Axis::new(), (least, most))).unwrap();
            axis["ticktext"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(ticks(0.99, 1.01), "0.8 1 1.2");
        assert_eq!(ticks(0.06, 1.1), "0.1 0.2 0.5 1");
        assert_eq!(ticks(0.3, 200.0), "0.5 1 2 5 10 20 50 100 200");
        assert_eq!(ticks(0.001, 260.0), "0.001 0.01 0.1 1 10 100");
    }

    /// plotly.js chooses by the decades for each tick.
    #[test]
    fn log_axes_label_1_2_and_5_of_few_decades() {
        let per_tick =
            |most: f64, few| most.log10() / most_log_ticks(Some((1.0, most)), few) as f64;
        for most in [15.0, 100.0, 310.0, 999.0] {
            assert!((0.3..0.7).contains(&per_tick(most, Y_DECADES)), "{most}");
        }
        for most in [320.0, 1e3, 1e4, 3e5, 1e9] {
            assert!((0.7..=1.0).contains(&per_tick(most, X_DECADES)), "{most}");
        }
        assert_eq!(most_log_ticks(Some((90.0, 110.0)), X_DECADES), 6);
    }
}
