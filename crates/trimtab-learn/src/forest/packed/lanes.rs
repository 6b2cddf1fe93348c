//! Ranks of features among thresholds.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::{GROUP, Line};
use crate::forest::view::{Node, View};

/// Maximum number of lanes.
pub(super) const LANES: usize = 128;

/// Fixed cost of a group, in comparisons of 16 thresholds.
const GROUP_COST: usize = 6;

/// Thresholds of all ranks, arranged for comparison.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    pub(super) groups: Vec<Group>,
    /// Features read: one more than the last.
    pub(super) features: usize,
    /// Thresholds of all groups, comparison by comparison.
    thresholds: Vec<Line<[i32; GROUP]>>,
}

/// Sixteen lanes.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Feature of each lane.
    pub(super) features: [i32; GROUP],
    /// Range of the thresholds.
    thresholds: Range<usize>,
}

/// Assignment of thresholds to lanes.
pub(super) struct Plan {
    /// The feature, and its thresholds in rising order.
    lanes: Vec<(usize, Box<[i32]>)>,
}

impl Plan {
    pub(super) fn new(view: View<'_>) -> Option<Self> {
        let mut questions: Vec<(usize, i32)> = view
            .nodes()
            .iter()
            .filter(|node| **node != Node::LEAF)
            .map(|node| (usize::from(node.feature), node.threshold))
            .collect();
        questions.sort_unstable();
        questions.dedup();
        let features: Vec<&[(usize, i32)]> = questions.chunk_by(|a, b| a.0 == b.0).collect();
        let longest = features.iter().map(|of_feature| of_feature.len()).max().unwrap_or(1);
        let most = (1..=longest.min(usize::from(u8::MAX)))
            .filter_map(|most| Some((Self::cost(&features, most)?, most)))
            .min()?
            .1;
        let mut lanes: Vec<(usize, Box<[i32]>)> = features
            .iter()
            .flat_map(|of_feature| of_feature.chunks(most))
            .map(|lane| (lane[0].0, lane.iter().map(|question| question.1).collect()))
            .collect();
        lanes.sort_by_key(|lane| core::cmp::Reverse(lane.1.len()));
        Some(Self { lanes })
    }

    /// Cost with lanes of at most `most` thresholds; `None` if there are too many lanes.
    fn cost(features: &[&[(usize, i32)]], most: usize) -> Option<usize> {
        if features.iter().map(|of_feature| of_feature.len().div_ceil(most)).sum::<usize>() > LANES
        {
            return None;
        }
        let lanes = features.iter().flat_map(|of_feature| of_feature.chunks(most));
        let mut lengths: Vec<usize> = lanes.map(<[_]>::len).collect();
        lengths.sort_unstable_by_key(|length| core::cmp::Reverse(*length));
        Some(lengths.chunks(GROUP).map(|group| GROUP_COST + group[0]).sum())
    }

    /// A split's lane, and the rank that a sample must exceed to go right.
    pub(super) fn find(&self, node: &Node) -> (usize, u16) {
        let place =
            |(_, thresholds): &(usize, Box<[i32]>)| thresholds.binary_search(&node.threshold).ok();
        self.lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| lane.0 == usize::from(node.feature))
            .find_map(|(number, lane)| Some((number, place(lane)? as u16)))
            .expect("every question has a lane")
    }
}

impl Lanes {
    pub(super) fn new(plan: &Plan) -> Self {
        let features = plan.lanes.iter().map(|lane| lane.0 + 1).max().unwrap_or(0);
        let mut new = Self { groups: Vec::new(), features, thresholds: Vec::new() };
        plan.lanes.chunks(GROUP).for_each(|lanes| new.add_group(lanes));
        new
    }

    fn add_group(&mut self, lanes: &[(usize, Box<[i32]>)]) {
        let first = self.thresholds.len();
        // Nothing exceeds the padding.
        let mut features = [0; GROUP];
        let mut thresholds = alloc::vec![Line([i32::MAX; GROUP]); lanes[0].1.len()];
        for (lane, (feature, of_lane)) in lanes.iter().enumerate() {
            features[lane] = *feature as i32;
            for (thresholds, &threshold) in thresholds.iter_mut().zip(of_lane) {
                thresholds.0[lane] = threshold;
            }
        }
        self.thresholds.extend(thresholds);
        self.groups.push(Group { features, thresholds: first..self.thresholds.len() });
    }

    /// A group's thresholds, one comparison after the other.
    #[inline]
    pub(super) fn thresholds(&self, group: &Group) -> impl Iterator<Item = &[i32; GROUP]> {
        self.thresholds[group.thresholds.clone()].iter().map(|line| &line.0)
    }
}
