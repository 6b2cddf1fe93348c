//! Active swap.

use std::fs;
use std::path::PathBuf;

use super::mounts::unescaped;
use super::number::Identity;

/// Active swap, as far as it is reachable from here. (Otherwise the kernel refuses to write to
/// a swap file, and has claimed a swap partition.)
pub(super) fn all() -> Vec<Identity> {
    let table = fs::read("/proc/swaps").unwrap_or_default();
    let reached = |path: PathBuf| Identity::of_metadata(&fs::metadata(path).ok()?);
    paths(&table).into_iter().filter_map(reached).collect()
}

/// The first column of the table, without the header.
fn paths(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|&byte| byte == b'\n').skip(1);
    let first = |line: &[u8]| unescaped(line.split(|&b| b == b' ' || b == b'\t').next().unwrap());
    lines.filter(|line| !line.is_empty()).map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_table() {
        let table = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
            /dev/loop0                              partition\t16380\t\t0\t\t-2\n\
            /var/a\\040file                         file\t\t16380\t\t0\t\t-3\n";
        assert_eq!(paths(table), [PathBuf::from("/dev/loop0"), "/var/a file".into()]);
    }
}
