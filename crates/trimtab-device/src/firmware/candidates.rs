//! The blocks that cleaning chooses from.

/// The full blocks of a plane.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    pub(crate) first_block: u32,
    pub(crate) units_per_block: u16,
    pub(crate) units_per_page: u16,
    pub(crate) valid: &'a [u16],
    pub(crate) full: &'a [bool],
    pub(crate) filled_at: &'a [u64],
    pub(crate) erases: &'a [u32],
    /// The number of blocks filled so far.
    pub(crate) clock: u64,
}

/// A full block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub block: u32,
    /// Units that cleaning would move.
    pub valid: u16,
    /// Units in the block.
    pub units: u16,
    /// Blocks of the drive filled since this one.
    pub age: u64,
    /// Its erase count.
    pub erases: u32,
}

impl Candidates<'_> {
    /// Each block whose cleaning gains space.
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.full().filter(|candidate| candidate.valid < self.too_many())
    }

    /// Each full block, including those worth cleaning for wear only.
    pub fn full(&self) -> impl Iterator<Item = Candidate> + '_ {
        (0..self.valid.len()).filter_map(|i| self.get(i))
    }

    fn get(&self, i: usize) -> Option<Candidate> {
        self.full[i].then(|| Candidate {
            block: self.first_block + i as u32,
            valid: self.valid[i],
            units: self.units_per_block,
            age: self.clock - self.filled_at[i],
            erases: self.erases[i],
        })
    }

    /// Blocks with this many valid units would fill as many pages again.
    const fn too_many(&self) -> u16 {
        self.units_per_block - self.units_per_page + 1
    }

    /// The block with the fewest valid units; the first of several.
    #[must_use]
    pub fn fewest_valid(&self) -> Option<u32> {
        // Written out for speed: it runs for each cleaning over thousands of blocks, as one pass
        // over two flat arrays.
        let mut best = (self.too_many(), None);
        for (i, (&valid, &full)) in self.valid.iter().zip(self.full).enumerate() {
            if full && valid < best.0 {
                best = (valid, Some(i));
            }
        }
        best.1.map(|i| self.first_block + i as u32)
    }
}
