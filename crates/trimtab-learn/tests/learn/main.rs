//! Small models as users of the crate see them. One program: linking takes longer than most
//! of these tests.

mod accuracy;
mod dataset;
mod forest;
mod gradients;
mod integer_golden;
mod lightgbm;
mod reproducible;
mod store;
