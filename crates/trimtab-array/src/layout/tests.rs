//! Layouts against tables written by hand, and the properties that any layout has.

use proptest::prelude::*;

use super::*;

const KIB: u64 = 1024;

fn layout(level: Level, rotation: Rotation, members: usize, stripes: u64) -> Layout {
    Layout::new(level, rotation, members, 4 * KIB, stripes * 4 * KIB).unwrap()
}

/// The members of each stripe, as tables show them: numbers are chunks of the array.
fn table(layout: &Layout) -> Vec<String> {
    let cell = |stripe, member| match layout.role(stripe, member) {
        Role::P => "P".to_owned(),
        Role::Q => "Q".to_owned(),
        Role::Data(index) => {
            let chunk = layout.offset(Position { stripe, index, offset: 0 }) / layout.chunk();
            chunk.to_string()
        }
        Role::Copy(_) => format!("={stripe}"),
    };
    let row = |stripe| (0..layout.members()).map(|member| cell(stripe, member)).collect::<Vec<_>>();
    (0..layout.stripes()).map(|stripe| row(stripe).join(" ")).collect()
}

/// "Left-symmetric" of md(4), mdadm(8) and the SNIA's "Common RAID Disk Data Format", §4.2.4
/// (RAID-5 rotating parity N with data continuation).
#[test]
fn raid5_left_symmetric_is_as_documented() {
    let of = |members| table(&layout(Level::Raid5, Rotation::LeftSymmetric, members, 6));
    assert_eq!(of(3), ["0 1 P", "3 P 2", "P 4 5", "6 7 P", "9 P 8", "P 10 11"]);
    assert_eq!(of(4), ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11", "12 13 14 P", "16 17 P 15"]);
    assert_eq!(
        of(5),
        [
            "0 1 2 3 P",
            "5 6 7 P 4",
            "10 11 P 8 9",
            "15 P 12 13 14",
            "P 16 17 18 19",
            "20 21 22 23 P",
        ]
    );
}

/// P as with RAID 5, Q on the next member, data behind Q.
#[test]
fn raid6_left_symmetric_is_as_documented() {
    let of = |members| table(&layout(Level::Raid6, Rotation::LeftSymmetric, members, 6));
    assert_eq!(of(4), ["Q 0 1 P", "2 3 P Q", "5 P Q 4", "P Q 6 7", "Q 8 9 P", "10 11 P Q"]);
    assert_eq!(
        of(5),
        ["Q 0 1 2 P", "3 4 5 P Q", "7 8 P Q 6", "11 P Q 9 10", "P Q 12 13 14", "Q 15 16 17 P",]
    );
}

#[test]
fn parity_last_stays_on_the_last_members() {
    let of = |level, rotation, members| table(&layout(level, rotation, members, 3));
    assert_eq!(of(Level::Raid5, Rotation::ParityLast, 4), ["0 1 2 P", "3 4 5 P", "6 7 8 P"]);
    assert_eq!(of(Level::Raid6, Rotation::ParityLast, 4), ["0 1 P Q", "2 3 P Q", "4 5 P Q"]);
    for rotation in Rotation::ALL {
        assert_eq!(of(Level::Raid4, rotation, 3), ["0 1 P", "2 3 P", "4 5 P"]);
    }
}

#[test]
fn levels_without_parity() {
    let of = |level| table(&layout(level, Rotation::LeftSymmetric, 3, 2));
    assert_eq!(of(Level::Raid0), ["0 1 2", "3 4 5"]);
    assert_eq!(of(Level::Raid1), ["=0 =0 =0", "=1 =1 =1"]);
    let mirror = layout(Level::Raid1, Rotation::LeftSymmetric, 3, 2);
    assert_eq!((mirror.capacity(), mirror.data_member(1, 0)), (8 * KIB, 0));
    assert_eq!(mirror.locate(5000), Position { stripe: 1, index: 0, offset: 904 });
    assert_eq!(mirror.user_offset(2, 5000), Some(5000));
    assert_eq!((mirror.p_member(0), mirror.q_member(0)), (None, None));
}

#[test]
fn impossible_arrays_are_refused_with_the_parameter() {
    let error = |level, members, chunk, capacity| {
        let array = Layout::new(level, Rotation::LeftSymmetric, members, chunk, capacity);
        array.unwrap_err().to_string()
    };
    let few = [(Level::Raid0, 1), (Level::Raid1, 1), (Level::Raid4, 2), (Level::Raid5, 2)];
    for (level, members) in few.into_iter().chain([(Level::Raid6, 3), (Level::Raid0, 33)]) {
        assert!(error(level, members, 4 * KIB, 1 << 30).starts_with("members: raid"));
    }
    assert_eq!(error(Level::Raid6, 3, 4 * KIB, 1 << 30), "members: raid6 has 4 to 32, not 3");
    for chunk in [0, 512, 4095, 4097, 6 * KIB, (1 << 20) + 4096, 1 << 40] {
        assert_eq!(
            error(Level::Raid0, 4, chunk, 1 << 50),
            format!("chunk: {chunk} bytes is not a multiple of 4096 from 4096 to 1048576")
        );
    }
    assert_eq!(
        error(Level::Raid5, 4, 12 * KIB, 1 << 30),
        "chunk: 12288 bytes is not a power of two, which raid5 needs"
    );
    assert_eq!(
        error(Level::Raid5, 4, 64 * KIB, 65535),
        "capacity: members of 65535 bytes have no room for a chunk of 65536"
    );
    assert_eq!(
        error(Level::Raid0, 2, 4 * KIB, 1 << 63),
        "capacity: 2 members of 9223372036854775808 bytes exceed 2^64 bytes"
    );
    assert_eq!(
        "raid10".parse::<Level>().unwrap_err().to_string(),
        "level: `raid10` is unknown; there are raid0, raid1, raid4, raid5, raid6"
    );
    assert_eq!("parity-last".parse(), Ok(Rotation::ParityLast));
}

#[test]
fn capacity_is_rounded_down_to_chunks() {
    let array = Layout::new(Level::Raid6, Rotation::LeftSymmetric, 6, 64 * KIB, 200_000).unwrap();
    assert_eq!((array.stripes(), array.member_bytes()), (3, 3 * 64 * KIB));
    assert_eq!(array.capacity(), 4 * 3 * 64 * KIB);
}

#[test]
#[should_panic(expected = "offset 12288 of 12288 bytes")]
fn offsets_behind_the_end_panic() {
    let _ = layout(Level::Raid5, Rotation::LeftSymmetric, 4, 1).locate(12 * KIB);
}

#[test]
#[should_panic(expected = "2 bytes at 12287 of 12288")]
fn ranges_over_the_end_panic() {
    let _ = layout(Level::Raid5, Rotation::LeftSymmetric, 4, 1).pieces(12 * KIB - 1, 2);
}

fn layouts() -> impl Strategy<Value = Layout> {
    let level = prop::sample::select(&Level::ALL[..]);
    let rotation = prop::sample::select(&Rotation::ALL[..]);
    let capacity = prop_oneof![(1_u64 << 20)..1 << 24, Just((1 << 59) - 1)];
    (level, rotation, 0..MOST_MEMBERS, 1_u64..=256, 0_u32..9, capacity).prop_map(
        |(level, rotation, more, pages, shift, capacity)| {
            let members = (level.least_members() + more).min(MOST_MEMBERS);
            let chunk = if level.parities() > 0 { PAGE << shift } else { PAGE * pages };
            Layout::new(level, rotation, members, chunk, capacity).unwrap()
        },
    )
}

proptest! {
    /// The kernel's formulas, as raid5_compute_sector of drivers/md/raid5.c states them.
    #[test]
    fn mapping_is_that_of_the_kernel(layout in layouts(), at in any::<u64>()) {
        let offset = at % layout.capacity();
        let (members, data) = (layout.members() as u64, layout.data_chunks() as u64);
        let (chunk_number, chunk_offset) = (offset / layout.chunk(), offset % layout.chunk());
        let (stripe, index) = (chunk_number / data, chunk_number % data);
        let last = layout.rotation == Rotation::ParityLast;
        let (p, q, member) = match layout.level() {
            Level::Raid0 => (None, None, index),
            Level::Raid1 => (None, None, 0),
            Level::Raid4 => (Some(data), None, index),
            Level::Raid5 if last => (Some(data), None, index),
            Level::Raid5 => {
                let p = data - stripe % members;
                (Some(p), None, (p + 1 + index) % members)
            }
            Level::Raid6 if last => (Some(data), Some(data + 1), index),
            Level::Raid6 => {
                let p = members - 1 - stripe % members;
                (Some(p), Some((p + 1) % members), (p + 2 + index) % members)
            }
        };
        let found = layout.locate(offset);
        let index = index as usize;
        prop_assert_eq!(found, Position { stripe, index, offset: chunk_offset });
        prop_assert_eq!(layout.data_member(stripe, index) as u64, member);
        prop_assert_eq!(layout.p_member(stripe).map(|p| p as u64), p);
        prop_assert_eq!(layout.q_member(stripe).map(|q| q as u64), q);
    }

    /// Each byte of the array has one place, which leads back to it.
    #[test]
    fn places_lead_back_to_their_offset(layout in layouts(), at in any::<u64>()) {
        let offset = at % layout.capacity();
        let found = layout.locate(offset);
        prop_assert_eq!(layout.offset(found), offset);
        let member = layout.data_member(found.stripe, found.index);
        let on_member = layout.member_offset(found.stripe, found.offset);
        prop_assert!(on_member < layout.member_bytes());
        prop_assert_eq!(layout.stripe_at(on_member), (found.stripe, found.offset));
        prop_assert_eq!(layout.user_offset(member, on_member), Some(offset));
    }

    /// Each chunk of each member has one role, and the roles of a stripe are all different: so
    /// chunks of members, without those of parity, and chunks of the array are one to one.
    #[test]
    fn roles_of_a_stripe_are_distinct(layout in layouts(), at in any::<u64>()) {
        let stripe = at % layout.stripes();
        let (mut data, mut p, mut q) = (vec![0; layout.data_chunks()], 0, 0);
        for member in 0..layout.members() {
            let user = layout.user_offset(member, layout.member_offset(stripe, 0));
            match layout.role(stripe, member) {
                Role::Data(index) => {
                    data[index] += 1;
                    prop_assert_eq!(layout.data_member(stripe, index), member);
                    prop_assert_eq!(user, Some(layout.offset(Position { stripe, index, offset: 0 })));
                }
                Role::P => {
                    p += 1;
                    prop_assert_eq!((layout.p_member(stripe), user), (Some(member), None));
                }
                Role::Q => {
                    q += 1;
                    prop_assert_eq!((layout.q_member(stripe), user), (Some(member), None));
                }
                Role::Copy(number) => {
                    prop_assert_eq!((layout.level(), number), (Level::Raid1, member));
                    data[0] = 1;
                }
            }
        }
        prop_assert!(data.iter().all(|count| *count == 1));
        prop_assert_eq!(p + q, layout.level().parities());
        prop_assert_eq!(q, usize::from(layout.level() == Level::Raid6));
    }

    /// Left-symmetric parity moves evenly, and a run of as many chunks as there are members is on
    /// all of them.
    #[test]
    fn left_symmetric_is_even(members in 3_usize..=32, at in any::<u64>()) {
        let layout = layout(Level::Raid5, Rotation::LeftSymmetric, members, 1 << 20);
        let first = at % (layout.capacity() / layout.chunk() - members as u64);
        let member = |chunk| {
            let found = layout.locate(chunk * layout.chunk());
            layout.data_member(found.stripe, found.index)
        };
        let mut seen: Vec<_> = (first..first + members as u64).map(member).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..members).collect::<Vec<_>>());
        let stripe = at % ((1 << 20) - members as u64);
        let stripes = stripe..stripe + members as u64;
        let mut parity: Vec<_> = stripes.map(|stripe| layout.p_member(stripe).unwrap()).collect();
        parity.sort_unstable();
        prop_assert_eq!(parity, (0..members).collect::<Vec<_>>());
    }

    /// Pieces and their chunks cover a range without gap or overlap, and end at stripes and chunks.
    #[test]
    fn pieces_cover_the_range(
        layout in layouts(), at in any::<u64>(), length in 0_u64..8 << 20,
    ) {
        let offset = at % layout.capacity();
        let length = length.min(layout.capacity() - offset);
        let (mut done, mut next_stripe) = (0, layout.locate(offset).stripe);
        for piece in layout.pieces(offset, length) {
            prop_assert_eq!((piece.buffer_offset, piece.start.stripe), (done, next_stripe));
            prop_assert_eq!(piece.start, layout.locate(offset + done));
            let end = done + piece.length;
            for range in piece.chunks() {
                let found = layout.locate(offset + done);
                let expected = (piece.start.stripe, range.index, range.offset, range.buffer_offset);
                prop_assert_eq!((found.stripe, found.index, found.offset, done), expected);
                prop_assert!(range.length > 0 && range.offset + range.length <= layout.chunk());
                done += range.length;
            }
            prop_assert_eq!(done, end);
            next_stripe += 1;
        }
        prop_assert_eq!(done, length);
    }
}
