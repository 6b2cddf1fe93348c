//! The bytes of what a planner has in flight.

use trimtab_io::Op;

use crate::layout::{Layout, Level, Piece, Position};
use crate::members::Member;
use crate::parity::Parity;
use crate::planner::{MemberIo, PartView, Row};
use crate::{MOST_MEMBERS, TooManyLost};

/// Buffers for the parts of requests, and the computations on them.
///
/// A driver with content asks it where a member's data go and where they come from, has it
/// [`compute`](Self::compute) what the planner says, and [delivers](Self::deliver) a read's data.
/// The user's data of a request are one slice.
#[derive(Debug)]
pub struct Content {
    layout: Layout,
    parity: Parity,
    parts: Vec<Strips>,
}

/// What a write leaves alone of a row of its stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialParity {
    /// The array's byte where the write's part of the row begins.
    pub data_offset: u64,
    /// Chunks of data that it goes to, which follow each other.
    pub chunks: usize,
    /// The XOR of the other chunks; empty if there are none.
    pub xor: Vec<u8>,
}

/// A part's strips, by member, each as long as its rows' range.
#[derive(Debug, Default)]
struct Strips {
    /// What members have answered, and what was computed from it.
    read: Vec<u8>,
    /// Parity to be written.
    parity: Vec<u8>,
    /// The first byte of the chunk that they hold, and bytes of each.
    offset: u32,
    span: usize,
}

impl Strips {
    /// The range of some bytes of a chunk in a member's strip.
    const fn range(&self, member: usize, offset: u32, length: usize) -> std::ops::Range<usize> {
        let from = member * self.span + (offset - self.offset) as usize;
        from..from + length
    }
}

impl Content {
    /// No content yet.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, parity: Parity::best(), parts: Vec::new() }
    }

    /// Makes room for a part's strips, unless there is.
    fn strips(&mut self, part: u32, rows: &[Row]) -> &mut Strips {
        let place = part as usize;
        if place >= self.parts.len() {
            self.parts.resize_with(place + 1, Strips::default);
        }
        let members = self.layout.members();
        let strips = &mut self.parts[place];
        let (offset, end) = match (rows.first(), rows.last()) {
            (Some(first), Some(last)) => (first.offset, last.end()),
            _ => (0, 0),
        };
        (strips.offset, strips.span) = (offset, (end - offset) as usize);
        let bytes = strips.span * members;
        if strips.read.len() < bytes {
            strips.read.resize(bytes, 0);
        }
        strips
    }

    /// A part is over ([`Action::PartDone`](crate::Action::PartDone)): much memory is given back, what
    /// is usual is kept for the next part with its number.
    pub fn finished(&mut self, part: u32) {
        const KEPT: usize = 1 << 20;
        if let Some(strips) = self.parts.get_mut(part as usize)
            && strips.read.len() + strips.parity.len() > KEPT
        {
            *strips = Strips::default();
        }
    }

    /// Where a member's data are read to, if the planner still [awaits](crate::Planner::awaits) them.
    pub fn read_into(&mut self, view: &PartView<'_>, io: &MemberIo) -> &mut [u8] {
        let (offset, length) = extent(view, io);
        let strips = self.strips(io.part, view.rows());
        let range = strips.range(io.member.index(), offset, length);
        &mut strips.read[range]
    }

    /// What is written to a member: the user's data, or parity that was computed.
    pub fn write_from<'a>(
        &'a mut self,
        view: &PartView<'_>,
        io: &MemberIo,
        user: &'a [u8],
    ) -> &'a [u8] {
        let (offset, length) = extent(view, io);
        if view.is_refresh {
            let strips = self.strips(io.part, view.rows());
            let range = strips.range(io.member.index(), offset, length);
            return &strips.read[range];
        }
        if let Some(from) = position(&self.layout, &view.piece, io.member, offset) {
            return &user[from..from + length];
        }
        let strips = self.strips(io.part, view.rows());
        let range = strips.range(io.member.index(), offset, length);
        &strips.parity[range]
    }

    /// Computes what the planner wants computed for a part: missing strips, and the parity of
    /// `user`'s data with a write.
    ///
    /// # Errors
    /// The planner has asked for what cannot be computed.
    pub fn compute(
        &mut self,
        part: u32,
        view: &PartView<'_>,
        user: &[u8],
    ) -> Result<(), TooManyLost> {
        for number in 0..view.rows().len() {
            self.restore(part, view, number)?;
            if view.op == Op::Write && !view.is_refresh {
                self.parity_of(part, view, number, user);
            }
        }
        Ok(())
    }

    /// Computes the missing strips of a row.
    fn restore(
        &mut self,
        part: u32,
        view: &PartView<'_>,
        number: usize,
    ) -> Result<(), TooManyLost> {
        if view.missing(number).is_empty() {
            return Ok(());
        }
        if self.layout.level() == Level::Raid1 {
            self.copy_copies(part, view, number);
            return Ok(());
        }
        let (row, present) = (view.rows()[number], view.present(number));
        let (layout, parity) = (self.layout, self.parity);
        let stripe = view.piece.start.stripe;
        let strips = self.strips(part, view.rows());
        let from = (row.offset - strips.offset) as usize;
        let length = row.length as usize;
        let of_members = strips.read.chunks_exact_mut(strips.span).take(layout.members());
        let mut by_member: [Option<&mut [u8]>; MOST_MEMBERS] = Default::default();
        for (place, strip) in by_member.iter_mut().zip(of_members) {
            *place = Some(&mut strip[from..from + length]);
        }
        let mut lost = 0;
        let in_order = (0..layout.members()).map(|strip| {
            let member = member_of_strip(&layout, stripe, strip);
            lost |= u32::from(!present.has(Member(member as u8))) << strip;
            by_member[member].take().expect("each member holds one strip")
        });
        let mut in_order: Vec<&mut [u8]> = in_order.collect();
        parity.reconstruct(&mut in_order, layout.data_chunks(), lost)
    }

    /// Copies a strip to those that could not be read: to be written again, it must be theirs.
    fn copy_copies(&mut self, part: u32, view: &PartView<'_>, number: usize) {
        let row = view.rows()[number];
        let Some(from) = view.present(number).iter().next() else { return };
        let strips = self.strips(part, view.rows());
        let from = strips.range(from.index(), row.offset, row.length as usize);
        for member in view.missing(number).iter() {
            let to = strips.range(member.index(), row.offset, row.length as usize);
            strips.read.copy_within(from.clone(), to.start);
        }
    }

    /// Computes a row's new parity.
    fn parity_of(&mut self, part: u32, view: &PartView<'_>, number: usize, user: &[u8]) {
        let row = view.rows()[number];
        let (layout, arithmetic) = (self.layout, self.parity);
        let stripe = view.piece.start.stripe;
        let Some(p_member) = layout.p_member(stripe) else { return };
        let strips = self.strips(part, view.rows());
        let length = row.length as usize;
        let range = |member: usize| strips.range(member, row.offset, length);
        let ranges: Vec<_> = (0..layout.members()).map(range).collect();
        let Strips { read, parity, .. } = strips;
        if parity.len() < read.len() {
            parity.resize(read.len(), 0);
        }
        let new = |index: usize| {
            let member = Member(layout.data_member(stripe, index) as u8);
            let is_written = row.user.has(member);
            is_written.then(|| {
                let from = position(&layout, &view.piece, member, row.offset);
                let from = from.expect("the user writes it");
                &user[from..from + length]
            })
        };
        let old = |member: usize| &read[ranges[member].clone()];
        let (mut p, mut q) = (vec![0; length], vec![0; length]);
        let q_member = layout.q_member(stripe);
        if view.modifies(number) {
            p.copy_from_slice(old(p_member));
            q.copy_from_slice(old(q_member.unwrap_or(p_member)));
            for index in 0..layout.data_chunks() {
                let Some(new) = new(index) else { continue };
                let old = old(layout.data_member(stripe, index));
                arithmetic.update_p_and_q(index, old, new, &mut p, &mut q);
            }
        } else {
            let data = |index| new(index).unwrap_or_else(|| old(layout.data_member(stripe, index)));
            let data: Vec<_> = (0..layout.data_chunks()).map(data).collect();
            arithmetic.p_and_q(&data, &mut p, &mut q);
        }
        parity[ranges[p_member].clone()].copy_from_slice(&p);
        if let Some(q_member) = q_member {
            parity[ranges[q_member].clone()].copy_from_slice(&q);
        }
    }

    /// The partial parity of a row, for a log: of a write of `user`'s data whose parity has been
    /// computed, at a level with a P.
    ///
    /// # Panics
    /// The part writes nothing in the row, or the level has no P.
    pub fn partial_parity(
        &mut self,
        part: u32,
        view: &PartView<'_>,
        number: usize,
        user: &[u8],
    ) -> PartialParity {
        let (row, layout) = (view.rows()[number], self.layout);
        let stripe = view.piece.start.stripe;
        let is_written =
            |&index: &usize| row.user.has(Member(layout.data_member(stripe, index) as u8));
        let index = (0..layout.data_chunks()).find(is_written).expect("something is written");
        let chunks = row.user.count() as usize;
        let start = Position { stripe, index, offset: row.offset.into() };
        let data_offset = layout.offset(start);
        if chunks == layout.data_chunks() {
            return PartialParity { data_offset, chunks, xor: Vec::new() };
        }
        let p_member = layout.p_member(stripe).expect("the level has a P");
        let strips = self.strips(part, view.rows());
        let length = row.length as usize;
        // The new parity without the new data.
        let mut xor = strips.parity[strips.range(p_member, row.offset, length)].to_vec();
        for member in row.user.iter() {
            let Some(from) = position(&layout, &view.piece, member, row.offset) else { continue };
            let data = &user[from..from + length];
            xor.iter_mut().zip(data).for_each(|(xor, data)| *xor ^= *data);
        }
        PartialParity { data_offset, chunks, xor }
    }

    /// Copies a read's data to the user.
    pub fn deliver(&mut self, part: u32, view: &PartView<'_>, user: &mut [u8]) {
        let layout = self.layout;
        for (number, row) in view.rows().iter().enumerate() {
            for member in row.user.iter() {
                let from = match layout.level() {
                    // Any copy that was read.
                    Level::Raid1 => view.present(number).iter().next().unwrap_or(member),
                    _ => member,
                };
                let strips = self.strips(part, view.rows());
                let length = row.length as usize;
                let range = strips.range(from.index(), row.offset, length);
                let Some(to) = position(&layout, &view.piece, member, row.offset) else { continue };
                user[to..to + length].copy_from_slice(&strips.read[range]);
            }
        }
    }
}

/// The bytes of the chunk that a request to a member covers.
fn extent(view: &PartView<'_>, io: &MemberIo) -> (u32, usize) {
    let (first, count) = (usize::from(io.rows.0), usize::from(io.rows.1));
    let rows = &view.rows()[first..first + count];
    let offset = rows[0].offset;
    (offset, (rows[count - 1].end() - offset) as usize)
}

/// Where in the user's data a byte of a member's chunk is. None: it is parity.
fn position(layout: &Layout, piece: &Piece, member: Member, offset: u32) -> Option<usize> {
    let stripe = piece.start.stripe;
    let index = match layout.level() {
        Level::Raid1 => 0,
        _ => {
            let holds = |&index: &usize| layout.data_member(stripe, index) == member.index();
            (0..layout.data_chunks()).find(holds)?
        }
    };
    let chunk = piece.chunks().find(|chunk| chunk.index == index)?;
    let into = u64::from(offset).checked_sub(chunk.offset)?;
    Some((chunk.buffer_offset + into) as usize)
}

/// The member that holds a strip: data in order, P, Q.
fn member_of_strip(layout: &Layout, stripe: u64, strip: usize) -> usize {
    match strip.checked_sub(layout.data_chunks()) {
        None => layout.data_member(stripe, strip),
        Some(0) => layout.p_member(stripe).expect("the stripe has a P"),
        Some(_) => layout.q_member(stripe).expect("the stripe has a Q"),
    }
}
