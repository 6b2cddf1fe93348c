//! What a planner has done.

/// What the planner has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Stripes read for reads of the user.
    pub stripe_reads: u64,
    /// Members that hold what these reads want, summed: the requests of a plain read.
    pub wanted_reads: u64,
    /// Requests sent to members to read: those that the user's reads and the parity of writes need.
    pub member_reads: u64,
    /// Of these, those that were sent for a read of the user beyond its own strips.
    pub extra_reads: u64,
    /// Requests sent to members to write.
    pub member_writes: u64,
    /// Refusals.
    pub refused: u64,
    /// Stripes' reads of the user by the number of members that refused: none, one, up to four and
    /// more.
    pub refusals: [u64; 5],
    /// The same by the number of members that were busy with themselves: that refused, or that the
    /// driver knows to have been late for that reason ([`Planner::was_busy`](super::Planner::was_busy)).
    pub busy: [u64; 5],
    /// Stripes' reads whose strips were computed.
    pub computed: u64,
    /// Reads that began again because their stripe was written to.
    pub restarted: u64,
    /// Times that the policy had something written again.
    pub refreshed: u64,
}
