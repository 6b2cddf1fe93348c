//! Layouts of structures from an object's own type information (BTF).
//!
//! The header of an object is the only contract between the kernel's programs and user space.
//! A mirror of it in Rust is right if each of its fields has the name, the offset and the size
//! that the compiler of the C side gave it: [`mirrors!`](crate::mirrors) compares them. That
//! detects two counters swapped on one side, which a check of sizes does not.

use std::io::Write as _;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, HasSize as _};

use crate::Error;

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name in the header.
    pub name: String,
    /// Its offset, bytes.
    pub offset: usize,
}

/// The members of a structure in order, and its size, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// All members, those for padding included.
    pub members: Vec<Member>,
    /// Its size, bytes.
    pub size: usize,
}

impl Layout {
    /// The layout of `struct name` in a compiled object, if the object uses it.
    ///
    /// # Errors
    /// The object has no type information, or no temporary file can be made.
    pub fn find(object: &[u8], name: &str) -> Result<Option<Self>, Error> {
        // libbpf reads it from a file. Threads may look for the same structure at once.
        static FILES: AtomicU64 = AtomicU64::new(0);
        let file = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trimtab-btf-{}-{file}", process::id()));
        let written = std::fs::File::create_new(&path).and_then(|mut file| file.write_all(object));
        let found = written
            .map_err(Error::system("write an object to a temporary file"))
            .and_then(|()| Self::find_in(&path, name));
        _ = std::fs::remove_file(&path);
        found
    }

    fn find_in(path: &Path, name: &str) -> Result<Option<Self>, Error> {
        let btf = Btf::from_path(path).map_err(Error::bpf("read the type information"))?;
        let Some(found) = btf.type_by_name::<Struct<'_>>(name) else { return Ok(None) };
        let members = found.iter().filter_map(|member| {
            let MemberAttr::Normal { offset } = member.attr else { return None };
            let name = member.name?.to_string_lossy().into_owned();
            Some(Member { name, offset: offset as usize / 8 })
        });
        Ok(Some(Self { members: members.collect(), size: found.size() }))
    }
}

/// Compares a mirror in Rust with a structure of an object: panics, naming the field, if a
/// name, an offset or the size differs, or a member has no mirror. Members whose name
/// begins with `reserved` are padding.
///
/// ```text
/// mirrors!(trimtab_bpf::STATE, "st_list" => List { first, last });
/// // A member that is a field of a field in Rust:
/// mirrors!(trimtab_bpf::STATE, "st_drive" => DriveState { stall_ended: stall.ended, … });
/// ```
#[macro_export]
macro_rules! mirrors {
    ($object:expr, $name:literal => $mirror:ty {
        $($member:ident $(: $($field:ident).+)?),+ $(,)?
    }) => {
        $crate::btf::assert_mirrored(
            $object,
            $name,
            ::core::mem::size_of::<$mirror>(),
            &[$((
                stringify!($member),
                $crate::mirrors!(@offset $mirror, $member $(, $($field).+)?),
            )),+],
        )
    };
    (@offset $mirror:ty, $member:ident) => { ::core::mem::offset_of!($mirror, $member) };
    (@offset $mirror:ty, $member:ident, $($field:ident).+) => {
        ::core::mem::offset_of!($mirror, $($field).+)
    };
}

/// Implements [`mirrors!`](crate::mirrors).
///
/// # Panics
/// The mirror does not match the structure.
#[doc(hidden)]
pub fn assert_mirrored(object: &[u8], name: &str, size: usize, fields: &[(&str, usize)]) {
    let layout = Layout::find(object, name).expect("the object is one of ours");
    let layout = layout.unwrap_or_else(|| panic!("the object does not use struct {name}"));
    let members = layout.members.iter().filter(|member| !member.name.starts_with("reserved"));
    let members: Vec<_> = members.map(|member| (member.name.as_str(), member.offset)).collect();
    assert_eq!(fields, members, "struct {name}: the mirror (left) and the header (right)");
    assert_eq!(size, layout.size, "struct {name}: its size");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "struct st_list")]
    fn swapped_fields_are_found() {
        assert_mirrored(crate::STATE, "st_list", 8, &[("last", 0), ("first", 4)]);
    }

    #[test]
    fn layout_is_that_of_the_header() {
        assert_mirrored(crate::STATE, "st_list", 8, &[("first", 0), ("last", 4)]);
        assert_eq!(Layout::find(crate::STATE, "no_such_struct").unwrap(), None);
    }
}
