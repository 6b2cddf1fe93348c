//! An array's data, and what its members hold of them, by trimtab's own layout and parities.

use trimtab_array::{Layout, Level, Parity, Role};

/// Bytes that look random, the same for the same seed.
pub(crate) fn pattern(seed: u64, bytes: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let words = (0..bytes / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

/// What each member holds, from where data begin.
pub(crate) fn spread(layout: &Layout, data: &[u8]) -> Vec<Vec<u8>> {
    if layout.level() == Level::Raid1 {
        return vec![data.to_vec(); layout.members()];
    }
    let chunk = layout.chunk() as usize;
    let mut members = vec![Vec::with_capacity(layout.member_bytes() as usize); layout.members()];
    for (stripe, content) in data.chunks(layout.stripe_bytes() as usize).enumerate() {
        let chunks: Vec<_> = content.chunks(chunk).collect();
        let (mut p, mut q) = (vec![0; chunk], vec![0; chunk]);
        Parity::best().p_and_q(&chunks, &mut p, &mut q);
        for (member, bytes) in members.iter_mut().enumerate() {
            bytes.extend_from_slice(match layout.role(stripe as u64, member) {
                Role::Data(index) => chunks[index],
                Role::P => &p,
                Role::Q => &q,
                Role::Copy(_) => unreachable!("RAID 1 has no stripes"),
            });
        }
    }
    members
}
