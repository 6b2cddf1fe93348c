//! Reads from replicas on the wall clock.

pub mod array;
