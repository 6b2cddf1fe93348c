//! Without vector instructions, forests are walked.

use super::view::View;
use crate::Simd;

/// Uninhabited.
#[derive(Clone, Debug)]
pub(super) enum Packed {}

impl Packed {
    pub(super) const fn new(_: View<'_>) -> Option<Self> {
        None
    }

    pub(super) const fn both(&self, _: &Self, _: Simd, _: &[i32]) -> Option<[i32; 2]> {
        match *self {}
    }

    pub(super) const fn score(&self, _: Simd, _: &[i32]) -> Option<i32> {
        match *self {}
    }
}
