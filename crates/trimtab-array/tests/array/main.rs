//! Planner and write buffer on members that hold bytes.

mod checks;
mod members;
mod nvram;
mod planner;
mod rebuild;
mod staging;
