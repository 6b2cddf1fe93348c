//! Shows results: text tables for a terminal, and one HTML file with plots.
//!
//! A report outlives the run that made it, and its reader may have no network. So a
//! [`Page`] is one file that opens offline: it states how its figures were made
//! ([`Facts`]), contains them, as plots and as CSV, and carries the plotting library
//! (plotly.js, from the crate `plotly`). [`chart`] describes a plot by its series, axes
//! with units, and marks; callers do not depend on the library.
//!
//! The same [`Table`] prints aligned on a terminal and becomes an HTML table on a page.
//! Text from outside (names of files, devices and commands) is harmless in both: pages
//! and plots escape it, and [`escaped`] and [`Printer`] do so for a terminal.
//!
//! # Example
//!
//! ```
//! use trimtab_io::{LatencyHistogram, Nanos};
//! use trimtab_report::{Align, Facts, Page, Section, Table, chart};
//!
//! let mut reads = LatencyHistogram::new();
//! reads.extend((1..=1000).map(Nanos::from_micros));
//!
//! let mut table = Table::new(&[("op", Align::Left), ("p50", Align::Right)]);
//! table.row(["read".to_owned(), reads.quantile(0.5).unwrap().to_string()]);
//! assert_eq!(table.to_string(), "op       p50\nread  502 µs\n");
//!
//! let mut section = Section::new("usr.0");
//! section.table(table);
//! section.chart(chart::cdf("Response time", "response time", &[("read", &reads)]));
//!
//! let mut facts = Facts::new();
//! facts.add("requests", "1000");
//! let mut page = Page::new("Latency of usr.0", facts);
//! page.section(section);
//! assert!(page.to_string().starts_with("<!DOCTYPE html>"));
//! ```

pub mod chart;
mod csv;
mod date;
mod escape;
mod exposition;
mod library;
mod machine;
mod number;
mod page;
mod table;
mod terminal;

pub use date::utc;
pub use exposition::{Exposition, Metric};
pub use machine::machine;
pub use number::{bytes, count};
pub use page::{Page, Section};
pub use table::{Align, Facts, Table};
pub use terminal::{Printer, escaped};
