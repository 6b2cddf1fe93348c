//! The checksum at the end of a card. It covers both files of a model as they are stored:
//! the tensors' bytes, and every byte of the card before the checksum itself. The bytes after
//! it are fixed, so a change of any byte of either file is detected.

/// FNV-1a, 64 bits: enough to detect damage and mistakes. Any change of a single byte
/// changes it, because each step is a bijection.
pub(super) struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The text before the checksum, and after it to the end of the card.
const BEFORE: &str = "\"checksum\": \"";
const BEHIND: &str = "\"\n}\n";

/// What stands for the checksum in a card that has none yet.
pub(super) const BLANK: &str = "0000000000000000";

/// Replaces [`BLANK`] by the checksum.
pub(super) fn seal(card: &str, tensors: &[u8]) -> String {
    let (covered, _) = parts(card).expect("a card ends with its checksum");
    format!("{covered}{}{BEHIND}", checksum(covered, tensors))
}

/// Whether both files are as they were written.
pub(super) fn is_intact(card: &str, tensors: &[u8]) -> bool {
    parts(card).is_some_and(|(covered, found)| found == checksum(covered, tensors))
}

/// The checksum of versions before the fourth, which covered the tensors alone.
pub(super) fn of_tensors(tensors: &[u8]) -> String {
    let mut hash = Hash::default();
    hash.add(tensors);
    hash.text()
}

/// The part of a card that its checksum covers, and the checksum.
fn parts(card: &str) -> Option<(&str, &str)> {
    let text = card.strip_suffix(BEHIND)?;
    let (covered, checksum) = text.split_at_checked(text.len().checked_sub(BLANK.len())?)?;
    covered.ends_with(BEFORE).then_some((covered, checksum))
}

/// The length separates the tensors from the card.
fn checksum(covered: &str, tensors: &[u8]) -> String {
    let mut hash = Hash::default();
    hash.add(&(tensors.len() as u64).to_le_bytes());
    hash.add(tensors);
    hash.add(covered.as_bytes());
    hash.text()
}
