//! Charts: series, axes with units, and marks.
//!
//! Each function takes figures that are already counted and summed, and returns a
//! [`Chart`] for a [`Section`](crate::Section). A chart keeps its figures, as a page
//! offers them as CSV too; how plotly.js draws them is in `figure`.

mod axis;
mod cdf;
mod figure;
mod points;

pub use axis::{Axis, Scale, Unit};
pub use cdf::cdf;
pub use points::Bins;

pub(crate) use figure::HEIGHT;
pub(crate) use points::rounded;

/// One chart with its heading.
#[derive(Clone, Debug)]
pub struct Chart {
    pub(crate) title: String,
    pub(crate) note: Option<String>,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) data: Data,
    marks: Vec<Mark>,
    points_shown: bool,
}

/// The figures, by the way they are drawn.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Lines(Vec<LineSeries>),
    Steps(Bins, Vec<BinnedSeries>),
    Areas(Bins, Vec<BinnedSeries>),
    Bars(Vec<String>, Vec<BinnedSeries>),
    HeatMap { columns: Bins, rows: Bins, cells: Vec<Cell> },
}

/// Marks drawn over the axes, besides the figures.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// A dashed vertical line.
    ThresholdX(f64),
    /// A dashed horizontal line.
    ThresholdY(f64),
    /// A shaded stretch along x.
    Band(f64, f64),
    /// A dotted line from (0, 0) to (1, 1).
    Diagonal,
}

/// A named sequence of points, in rising x.
#[derive(Clone, Debug)]
pub struct LineSeries {
    /// Name in the legend.
    pub name: String,
    /// x and y. A y of `None` is a gap.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A named sequence of values, one per bin or category.
#[derive(Clone, Debug)]
pub struct BinnedSeries {
    /// Name in the legend.
    pub name: String,
    /// `None` is a gap.
    pub values: Vec<Option<f64>>,
}

/// A cell of a heat map, and the number of requests in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Bin along x, from 0.
    pub column: u32,
    /// Bin along y, from 0.
    pub row: u32,
    /// Shown as the colour, on a log scale.
    pub count: u64,
}

impl Chart {
    fn new(title: &str, x: &Axis, y: &Axis, data: Data) -> Self {
        let (x, y) = (x.clone(), y.clone());
        let (marks, points_shown) = (Vec::new(), false);
        Self { title: title.to_owned(), note: None, x, y, data, marks, points_shown }
    }

    /// The heading.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Puts a remark below the chart.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds the line from (0, 0) to (1, 1).
    #[must_use]
    pub fn with_diagonal(mut self) -> Self {
        self.marks.push(Mark::Diagonal);
        self
    }

    /// Marks a value of x with a dashed line, such as the latency beyond which a
    /// request counts as slow.
    #[must_use]
    pub fn with_threshold_x(mut self, x: f64) -> Self {
        self.marks.push(Mark::ThresholdX(x));
        self
    }

    /// Marks a value of y with a dashed line.
    #[must_use]
    pub fn with_threshold_y(mut self, y: f64) -> Self {
        self.marks.push(Mark::ThresholdY(y));
        self
    }

    /// Shades stretches along x, each given by its beginning and end.
    #[must_use]
    pub fn with_bands(mut self, bands: &[(f64, f64)]) -> Self {
        self.marks.extend(bands.iter().map(|&(from, to)| Mark::Band(from, to)));
        self
    }

    /// Draws each point of a chart of lines, where they are few.
    #[must_use]
    pub fn with_points(mut self) -> Self {
        self.points_shown = true;
        self
    }
}

/// Lines through points. A series of more than 2000 points is thinned out, in
/// a way that keeps its extremes.
#[must_use]
pub fn line(title: &str, x: &Axis, y: &Axis, lines: &[LineSeries]) -> Chart {
    let thinned = |line: &LineSeries| LineSeries {
        name: line.name.clone(),
        points: points::thin(&line.points),
    };
    Chart::new(title, x, y, Data::Lines(lines.iter().map(thinned).collect()))
}

/// Step lines: values that hold for a whole bin.
#[must_use]
pub fn steps(title: &str, x: &Axis, y: &Axis, bins: Bins, series: &[BinnedSeries]) -> Chart {
    Chart::new(title, x, y, Data::Steps(bins, series.to_vec()))
}

/// Stacked areas of steps: the parts of a whole over time. A gap counts as zero.
#[must_use]
pub fn area(title: &str, x: &Axis, y: &Axis, bins: Bins, series: &[BinnedSeries]) -> Chart {
    Chart::new(title, x, y, Data::Areas(bins, series.to_vec()))
}

/// Bars side by side: one group per category, one bar per series in it. On a logarithmic axis
/// they are of ratios, and begin at 1.
#[must_use]
pub fn bars(
    title: &str,
    x_title: &str,
    y: &Axis,
    categories: &[&str],
    series: &[BinnedSeries],
) -> Chart {
    let x = Axis::new(x_title, Unit::Plain);
    let categories = categories.iter().map(|&name| name.to_owned()).collect();
    Chart::new(title, &x, y, Data::Bars(categories, series.to_vec()))
}

/// A heat map of counts. Cells that are not given stay blank.
#[must_use]
pub fn heat_map(title: &str, x: &Axis, y: &Axis, bins: (Bins, Bins), cells: &[Cell]) -> Chart {
    let (columns, rows) = bins;
    Chart::new(title, x, y, Data::HeatMap { columns, rows, cells: cells.to_vec() })
}
