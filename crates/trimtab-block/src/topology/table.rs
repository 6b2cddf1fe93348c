//! Tables of device-mapper devices (the kernel's Documentation/admin-guide/device-mapper).
//!
//! A row maps a range of the device. The target's parameters are a line of text, whose numbers
//! are sectors of 512 bytes and whose devices are `major:minor`.

use super::striped::Parity;

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Start on the device, bytes.
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) rule: Rule,
}

/// A device below, and the range's offset on it, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: (u32, u32),
    pub(super) at: u64,
}

/// A target's mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Linear(Place),
    /// Chunks of this many bytes.
    Striped {
        chunk: u64,
        parity: Parity,
        members: Vec<Option<Place>>,
    },
    /// Several devices hold a copy.
    Copies,
    Unknown,
}

impl Row {
    /// A row from start and length in sectors, the target's name and its parameters. `None` if
    /// the range is invalid.
    pub(super) fn parse(start: u64, length: u64, target: &str, line: &str) -> Option<Self> {
        let (start, length) = (start.checked_mul(512)?, length.checked_mul(512)?);
        start.checked_add(length)?;
        let rule = rule(target, line).unwrap_or(Rule::Unknown);
        Some(Self { start, length, rule })
    }
}

fn rule(target: &str, line: &str) -> Option<Rule> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let linear = |device: usize, offset: usize| {
        Some(Rule::Linear(place(words.get(device)?, words.get(offset)?)?))
    };
    match target {
        "linear" | "delay" | "flakey" => linear(0, 1),
        // Cipher, key, offset of the initialisation vectors, device, offset.
        "crypt" => linear(3, 4),
        // Writes are copied elsewhere first; reads go straight to the origin.
        "snapshot-origin" => Some(Rule::Linear(place(words.first()?, "0")?)),
        "striped" => striped(&words),
        "raid" => raid(&words),
        "mirror" => Some(Rule::Copies),
        _ => None,
    }
}

fn device(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn place(device_word: &str, offset: &str) -> Option<Place> {
    Some(Place { device: device(device_word)?, at: offset.parse::<u64>().ok()?.checked_mul(512)? })
}

/// `STRIPES CHUNK (DEVICE OFFSET)…`
fn striped(words: &[&str]) -> Option<Rule> {
    let count: usize = words.first()?.parse().ok()?;
    let chunk = words.get(1)?.parse::<u64>().ok()?.checked_mul(512)?;
    let (pairs, _) = words.get(2..)?.as_chunks::<2>();
    let members: Option<Vec<_>> = pairs
        .get(..count)?
        .iter()
        .map(|[device, offset]| place(device, offset).map(Some))
        .collect();
    Some(Rule::Striped { chunk, parity: Parity::None, members: members? })
}

/// `TYPE PARAMETERS CHUNK … DEVICES (METADATA DATA)…`: md's arrays within the device mapper,
/// as LVM makes them.
fn raid(words: &[&str]) -> Option<Rule> {
    let rotating = |layout| Parity::of_layout(layout, 1);
    let parity = match *words.first()? {
        "raid1" | "raid10" => return Some(Rule::Copies),
        "raid0" | "raid0_meta" => Parity::None,
        "raid5_la" => rotating(0)?,
        "raid5_ra" => rotating(1)?,
        "raid5_ls" => rotating(2)?,
        "raid5_rs" => rotating(3)?,
        "raid5_n" => Parity::Last(1),
        _ => return None,
    };
    let count: usize = words.get(1)?.parse().ok()?;
    let parameters = words.get(2..)?.get(..count)?;
    // While its shape changes, a part of it has another layout.
    let is_reshaped =
        |word: &&str| matches!(*word, "delta_disks" | "data_offset" | "rebuild" | "journal_dev");
    if parameters.iter().any(is_reshaped) {
        return None;
    }
    let chunk = parameters.first()?.parse::<u64>().ok()?.checked_mul(512)?;
    let members: usize = words.get(2 + count)?.parse().ok()?;
    let (pairs, _) = words.get(3 + count..)?.as_chunks::<2>();
    let member = |[_, data]: &[&str; 2]| match *data {
        "-" => Some(None),
        data => place(data, "0").map(Some),
    };
    let members: Option<Vec<_>> = pairs.get(..members)?.iter().map(member).collect();
    Some(Rule::Striped { chunk, parity, members: members? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(target: &str, line: &str) -> Rule {
        Row::parse(0, 8192, target, line).unwrap().rule
    }

    fn at(device: (u32, u32), sector: u64) -> Place {
        Place { device, at: sector * 512 }
    }

    #[test]
    fn rows_of_each_target_are_parsed() {
        assert_eq!(parse("linear", "8:16 2048"), Rule::Linear(at((8, 16), 2048)));
        let crypt = "aes-xts-plain64 :64:logon:cryptsetup:1 0 259:3 32768 1 allow_discards";
        assert_eq!(parse("crypt", crypt), Rule::Linear(at((259, 3), 32768)));
        assert_eq!(parse("snapshot-origin", "253:4"), Rule::Linear(at((253, 4), 0)));
        let members = vec![Some(at((8, 0), 384)), Some(at((8, 16), 512))];
        let striped = Rule::Striped { chunk: 65536, parity: Parity::None, members };
        assert_eq!(parse("striped", "2 128 8:0 384 8:16 512"), striped);
        assert_eq!(parse("mirror", "core 2 1024 nosync 2 8:0 0 8:16 0"), Rule::Copies);
        assert_eq!(parse("thin", "253:2 1"), Rule::Unknown);
    }

    #[test]
    fn arrays_of_lvm_are_parsed() {
        let line = "raid5_ls 3 128 region_size 4096 3 253:0 253:1 253:2 253:3 - -";
        let parity = Parity::of_layout(2, 1).unwrap();
        let members = vec![Some(at((253, 1), 0)), Some(at((253, 3), 0)), None];
        assert_eq!(parse("raid", line), Rule::Striped { chunk: 65536, parity, members });
        let one = "raid1 3 0 region_size 4096 2 253:0 253:1 253:2 253:3";
        assert_eq!(parse("raid", one), Rule::Copies);
        let reshaped = "raid5_ls 5 128 delta_disks 1 data_offset 8192 3 8:0 8:1 8:2 8:3 8:4 8:5";
        assert_eq!(parse("raid", reshaped), Rule::Unknown);
    }

    #[test]
    fn rows_with_missing_or_wrong_words_are_unknown() {
        for (target, line) in [
            ("linear", ""),
            ("linear", "8:16"),
            ("linear", "/dev/sda 0"),
            ("linear", "8:16 36028797018963968"),
            ("crypt", "aes key 0 8:1"),
            ("striped", "3 128 8:0 0 8:16 0"),
            ("striped", "2"),
            ("raid", "raid5_ls 900 128"),
            ("raid", "raid6_zr 1 128 4 8:0 8:1 8:2 8:3 8:4 8:5 8:6 8:7"),
        ] {
            assert_eq!(parse(target, line), Rule::Unknown, "{target} {line}");
        }
        assert_eq!(Row::parse(1 << 55, 1, "linear", "8:0 0"), None);
        assert_eq!(Row::parse((1 << 55) - 1, 8, "linear", "8:0 0"), None);
    }

    fn word() -> impl Strategy<Value = String> {
        prop_oneof!["[0-9]{1,20}", "[0-9]{1,4}:[0-9]{1,8}", "raid5_ls|raid0|raid1", "-|core|.{0,6}"]
    }

    proptest! {
        #[test]
        fn any_line_is_taken(
            start: u64, length: u64,
            target in "linear|crypt|striped|raid|mirror|delay|flakey|snapshot-origin|.{0,8}",
            words in prop::collection::vec(word(), 0..12),
        ) {
            Row::parse(start, length, &target, &words.join(" "));
        }
    }
}
