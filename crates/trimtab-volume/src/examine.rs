//! Computes what members must have in some stripes, from what was read of them.

use std::ops::Range;

use trimtab_array::{Layout, Level, Parity};

/// What is read or written at least, bytes.
pub(crate) const PAGE: usize = 4096;

/// What is known of the stripes.
pub(crate) struct Examine<'a> {
    pub(crate) layout: &'a Layout,
    /// The first stripe.
    pub(crate) first: u64,
    /// Members that were read.
    pub(crate) present: &'a [bool],
    /// By member, the pages that could not be read; empty: none.
    pub(crate) bad: &'a [Vec<bool>],
    /// An absent member that is to be computed.
    pub(crate) target: Option<usize>,
    /// Whether what does not fit is made to fit.
    pub(crate) fixes: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// Stripes that do not fit.
    pub(crate) mismatches: u64,
    /// Ranges of members' bytes that must be written.
    pub(crate) writes: Vec<(usize, Range<usize>)>,
    /// A stripe of which too little could be read.
    pub(crate) lost: Option<u64>,
}

impl Examine<'_> {
    /// Examines the strips, by member, and changes what must be written.
    pub(crate) fn run(&self, strips: &mut [&mut [u8]]) -> Examined {
        let mut found = Examined::default();
        let chunk = self.layout.chunk() as usize;
        let stripes = strips.first().map_or(0, |strip| strip.len() / chunk);
        for number in 0..stripes {
            let range = number * chunk..(number + 1) * chunk;
            let stripe = self.first + number as u64;
            let lost: Vec<bool> =
                (0..strips.len()).map(|member| self.is_lost(member, &range)).collect();
            let before = strips_of_lost(strips, &lost, &range);
            let is_restored = match self.layout.level() {
                Level::Raid1 => copy(strips, &lost, &range),
                _ => self.reconstruct(stripe, strips, &lost, &range),
            };
            if !is_restored {
                found.lost = found.lost.or(Some(stripe));
                continue;
            }
            self.put_back(strips, &before, &range, &mut found);
            self.compare(stripe, strips, &range, &mut found);
        }
        found.writes.dedup();
        found
    }

    fn bad_pages<'a>(
        &'a self,
        member: usize,
        range: &Range<usize>,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let pages = range.start / PAGE..range.end / PAGE;
        let is_bad = move |page: &usize| self.bad[member].get(*page).is_some_and(|&bad| bad);
        pages.filter(is_bad).map(|page| page * PAGE..(page + 1) * PAGE)
    }

    fn is_lost(&self, member: usize, range: &Range<usize>) -> bool {
        !self.present[member] || self.bad_pages(member, range).next().is_some()
    }

    /// Computes the lost strips; false if too many are.
    fn reconstruct(
        &self,
        stripe: u64,
        strips: &mut [&mut [u8]],
        lost: &[bool],
        range: &Range<usize>,
    ) -> bool {
        if !lost.contains(&true) {
            return true;
        }
        let order = order(self.layout, stripe);
        let mask = order.iter().enumerate().filter(|(_, member)| lost[**member]);
        let mask = mask.fold(0, |mask, (place, _)| mask | 1 << place);
        let mut by_member: Vec<Option<&mut [u8]>> =
            strips.iter_mut().map(|strip| Some(&mut strip[range.clone()])).collect();
        let mut in_order: Vec<&mut [u8]> =
            order.iter().filter_map(|&member| by_member[member].take()).collect();
        Parity::best().reconstruct(&mut in_order, self.layout.data_chunks(), mask).is_ok()
    }

    /// Of a strip of which some pages could not be read only these are changed.
    fn put_back(
        &self,
        strips: &mut [&mut [u8]],
        before: &[Option<Vec<u8>>],
        range: &Range<usize>,
        found: &mut Examined,
    ) {
        for (member, before) in before.iter().enumerate() {
            let Some(before) = before else { continue };
            if !self.present[member] {
                if self.target == Some(member) {
                    extend(&mut found.writes, member, range.clone());
                }
                continue;
            }
            let computed = strips[member][range.clone()].to_vec();
            strips[member][range.clone()].copy_from_slice(before);
            for page in self.bad_pages(member, range) {
                let from = page.start - range.start..page.end - range.start;
                strips[member][page.clone()].copy_from_slice(&computed[from]);
                extend(&mut found.writes, member, page);
            }
        }
    }

    /// Compares parity with data, and copies with the first.
    fn compare(
        &self,
        stripe: u64,
        strips: &mut [&mut [u8]],
        range: &Range<usize>,
        found: &mut Examined,
    ) {
        let layout = self.layout;
        let mut expected = Vec::new();
        match layout.level() {
            Level::Raid0 => return,
            Level::Raid1 => {
                let Some(first) = self.present.iter().position(|&one| one) else { return };
                let copy = strips[first][range.clone()].to_vec();
                let others = (first + 1..strips.len()).filter(|&member| self.present[member]);
                expected.extend(others.map(|member| (member, copy.clone())));
            }
            _ => {
                let data = (0..layout.data_chunks())
                    .map(|index| &strips[layout.data_member(stripe, index)][range.clone()]);
                let data: Vec<&[u8]> = data.collect();
                let (mut p, mut q) = (vec![0; range.len()], vec![0; range.len()]);
                Parity::best().p_and_q(&data, &mut p, &mut q);
                let parities = [(layout.p_member(stripe), p), (layout.q_member(stripe), q)];
                let parities = parities.into_iter().filter_map(|(member, parity)| {
                    member.filter(|&member| self.present[member]).map(|member| (member, parity))
                });
                expected.extend(parities);
            }
        }
        let mut fits = true;
        for (member, expected) in expected {
            let strip = &mut strips[member][range.clone()];
            if *strip != expected {
                fits = false;
                if self.fixes {
                    strip.copy_from_slice(&expected);
                    extend(&mut found.writes, member, range.clone());
                }
            }
        }
        found.mismatches += u64::from(!fits);
    }
}

/// Adds a range to be written, to the one before it if they touch.
fn extend(writes: &mut Vec<(usize, Range<usize>)>, member: usize, range: Range<usize>) {
    let mut of_member = writes.iter_mut().rev().filter(|one| one.0 == member);
    match of_member.next() {
        Some((_, last)) if last.end == range.start => last.end = range.end,
        _ => writes.push((member, range)),
    }
}

/// What was read of strips that are computed.
fn strips_of_lost(
    strips: &[&mut [u8]],
    lost: &[bool],
    range: &Range<usize>,
) -> Vec<Option<Vec<u8>>> {
    let strip = |(strip, &lost): (&&mut [u8], &bool)| lost.then(|| strip[range.clone()].to_vec());
    strips.iter().zip(lost).map(strip).collect()
}

/// Copies a copy to those that are lost; false if there is none.
fn copy(strips: &mut [&mut [u8]], lost: &[bool], range: &Range<usize>) -> bool {
    let Some(from) = lost.iter().position(|&lost| !lost) else { return false };
    if lost.contains(&true) {
        let copy = strips[from][range.clone()].to_vec();
        for (strip, _) in strips.iter_mut().zip(lost).filter(|(_, lost)| **lost) {
            strip[range.clone()].copy_from_slice(&copy);
        }
    }
    true
}

/// The members of a stripe in the order of its strips: data, P, Q.
fn order(layout: &Layout, stripe: u64) -> Vec<usize> {
    let data = (0..layout.data_chunks()).map(|index| layout.data_member(stripe, index));
    let parities = [layout.p_member(stripe), layout.q_member(stripe)];
    data.chain(parities.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests;
