//! Opening a pinned map by the system call `bpf(2)`, without libbpf.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::Error;

/// Commands of `bpf(2)` (`enum bpf_cmd` in include/uapi/linux/bpf.h).
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;

/// `union bpf_attr`, as the two commands use it: that of `BPF_OBJ_GET`.
#[repr(C)]
#[derive(Default)]
struct ObjGet {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

/// The same of `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
#[derive(Default)]
struct ObjInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// The first fields of `struct bpf_map_info`; the kernel writes no more than the given size.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// A BPF map that another process has pinned in a BPF file system.
#[derive(Debug)]
pub struct PinnedMap {
    descriptor: OwnedFd,
    info: MapInfo,
}

impl std::fmt::Debug for MapInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, value_size, max_entries, .. } = self;
        f.debug_struct("MapInfo")
            .field("id", id)
            .field("value_size", value_size)
            .field("max_entries", max_entries)
            .finish_non_exhaustive()
    }
}

impl PinnedMap {
    /// Opens the map that is pinned under this path.
    ///
    /// # Errors
    /// There is none, the process may not open it, or it is a program or a link.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open = || -> io::Result<Self> {
            let path = CString::new(path.as_os_str().as_bytes())?;
            let mut attr = ObjGet { pathname: path.as_ptr() as u64, ..ObjGet::default() };
            // SAFETY: the path is a string that lives during the call.
            let opened = unsafe { bpf(BPF_OBJ_GET, &mut attr) }?;
            // SAFETY: the kernel has just opened it for this process; nothing else owns it.
            let descriptor = unsafe { OwnedFd::from_raw_fd(opened) };
            let mut info = MapInfo::default();
            let mut attr = ObjInfo {
                bpf_fd: descriptor.as_raw_fd().cast_unsigned(),
                info_len: size_of::<MapInfo>() as u32,
                info: (&raw mut info) as u64,
            };
            // SAFETY: `info` is valid for writes of `info_len` bytes during the call.
            unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
            Ok(Self { descriptor, info })
        };
        open().map_err(Error::of("open a pinned BPF map"))
    }

    /// The number of values.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.info.max_entries as usize
    }

    /// The size of a value, bytes.
    #[must_use]
    pub const fn value_size(&self) -> usize {
        self.info.value_size as usize
    }
}

impl AsFd for PinnedMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Calls `bpf(2)`.
///
/// # Safety
/// The attributes match the command, and memory that they point to lives during the call.
unsafe fn bpf<A>(command: libc::c_long, attr: &mut A) -> io::Result<i32> {
    // SAFETY: the attributes are valid for their size; the rest is the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_pin_is_an_error_with_its_cause() {
        let error = PinnedMap::open(Path::new("/sys/fs/bpf/no/such/map")).unwrap_err();
        assert!(error.to_string().starts_with("cannot open a pinned BPF map"), "{error}");
        assert!(error.source.raw_os_error().is_some());
    }
}
