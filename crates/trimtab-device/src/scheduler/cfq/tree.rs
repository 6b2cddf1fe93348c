//! Groups, and the service trees in which nodes take turns.

/// Nodes of one class in the order of their turns.
///
/// A sorted list: a class rarely has more than a hundred nodes that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    /// Turn and node; the first one is last, where it is cheap to remove.
    nodes: Vec<(i64, u32)>,
}

impl Tree {
    /// Adds a node, behind those with the same turn or before all others.
    pub(super) fn insert(&mut self, node: u32, turn: i64, to_front: bool) {
        let turn = match self.nodes.last() {
            Some(&(first, _)) if to_front => turn.min(first - 1),
            _ => turn,
        };
        let at = self.nodes.partition_point(|&(other, _)| other > turn);
        self.nodes.insert(at, (turn, node));
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.nodes.pop().map(|(_, node)| node)
    }

    pub(super) fn remove(&mut self, node: u32) {
        self.nodes.retain(|&(_, other)| other != node);
    }
}

/// A control group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) id: u16,
    pub(super) weight: u32,
    /// Time that it was served, divided by its weight.
    pub(super) time_served: u64,
    /// Nodes of each class that have requests or are in service.
    pub(super) busy: [u32; 4],
    /// By class (1 to 3): nodes that have requests and are not in service.
    pub(super) trees: [Tree; 4],
}

/// Time served counts in nanoseconds of a group with this weight.
const UNIT_WEIGHT: u64 = 1 << 12;

impl Group {
    pub(super) fn new(id: u16, weight: u32) -> Self {
        Self { id, weight, time_served: 0, busy: [0; 4], trees: Default::default() }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.iter().any(|&busy| busy > 0)
    }

    /// Whether a node waits for its turn.
    pub(super) fn waits(&self) -> bool {
        self.trees.iter().any(|tree| !tree.nodes.is_empty())
    }

    /// A node of it gets busy. `least` is the least time served of the groups that are busy: a
    /// group that was idle does not make up for that.
    pub(super) fn becomes_busy(&mut self, class: usize, least: Option<u64>) {
        if !self.is_busy() {
            self.time_served = self.time_served.max(least.unwrap_or(0));
        }
        self.busy[class] += 1;
    }

    pub(super) const fn becomes_idle(&mut self, class: usize) {
        self.busy[class] -= 1;
    }

    /// It was served for so many nanoseconds.
    pub(super) const fn serve(&mut self, ns: u64) {
        self.time_served += ns * UNIT_WEIGHT / self.weight as u64;
    }
}
