//! SQLite on three drives: one database, of which each page is on all of them.
//!
//! SQLite asks its VFS for files. This one has the usual one open them, and then puts some
//! functions of its own in the place of the usual ones, for the files of a database that has a
//! [`Mirror`]: pages of the database are read from one of the copies (`xRead`), and what is
//! written to the database or its log is written to all copies (`xWrite`, `xTruncate`,
//! `xSync`). Everything else is as usual. A file is a structure in memory of SQLite's, of a size
//! that its VFS says; behind the usual one's there is room for ours.
//! (See "The SQLite OS Interface or VFS", <https://sqlite.org/vfs.html>.)

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_ERROR, SQLITE_IOERR_FSYNC, SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ,
    SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE, SQLITE_OK, SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_WAL,
    sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find,
    sqlite3_vfs_register,
};
use rusqlite::{Connection, OpenFlags};

use crate::mirror::Mirror;

/// What SQLite calls it.
const NAME: &CStr = c"trimtab";

/// Bytes of a page of a store; also what direct I/O is aligned to.
pub(crate) const PAGE: usize = 4096;

/// A page in memory, where direct I/O can put it.
#[repr(align(4096))]
struct Page([u8; PAGE]);

/// What is behind the usual file: its functions with ours among them.
struct Supplied {
    methods: sqlite3_io_methods,
    usual: *const sqlite3_io_methods,
    mirror: Arc<Mirror>,
    /// The same file on the other drives.
    copies: Vec<File>,
    page: Box<Page>,
}

/// The usual VFS.
struct Usual(*mut sqlite3_vfs);

// SAFETY: it is registered for good and not written to; SQLite itself uses it from all
// threads.
unsafe impl Send for Usual {}
// SAFETY: as above.
unsafe impl Sync for Usual {}

static USUAL: LazyLock<Usual> = LazyLock::new(register);

/// The mirrors of databases, by the paths of the databases.
static MIRRORS: LazyLock<Mutex<HashMap<PathBuf, Arc<Mirror>>>> = LazyLock::new(Mutex::default);

fn mirrors() -> MutexGuard<'static, HashMap<PathBuf, Arc<Mirror>>> {
    MIRRORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database whose files are mirrored, as long as this lives.
pub(crate) struct Mirrored(PathBuf);

impl Mirrored {
    pub(crate) fn new(path: &Path, mirror: Arc<Mirror>) -> Self {
        mirrors().insert(path.to_owned(), mirror);
        Self(path.to_owned())
    }
}

impl Drop for Mirrored {
    fn drop(&mut self) {
        mirrors().remove(&self.0);
    }
}

/// Opens a mirrored database.
///
/// # Errors
/// SQLite cannot open it.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    LazyLock::force(&USUAL);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(path, flags, NAME)
}

/// The mirror that a file of a database belongs to, by the file's name.
fn mirror_of(name: *const c_char, is_log: bool) -> Option<(Arc<Mirror>, PathBuf)> {
    // SAFETY: SQLite gives a valid string, or null for a temporary file.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let database = if is_log {
        let name = path.as_os_str().as_bytes();
        Path::new(OsStr::from_bytes(name.strip_suffix(b"-wal")?))
    } else {
        path
    };
    Some((Arc::clone(mirrors().get(database)?), path.to_owned()))
}

/// Opens the copies of a file on the other drives.
fn open_copies(mirror: &Mirror, path: &Path) -> io::Result<Vec<File>> {
    let open = |directory: &PathBuf| {
        let copy = directory.join(path.file_name().unwrap_or_default());
        File::options().read(true).write(true).create(true).truncate(false).open(copy)
    };
    mirror.others.iter().map(open).collect()
}

/// Where our pointer is in a file's memory: behind what is the usual VFS's.
fn room(usual: &sqlite3_vfs) -> usize {
    (usual.szOsFile as usize).next_multiple_of(align_of::<*mut Supplied>())
}

/// Makes the VFS known to SQLite, and gives the usual one.
fn register() -> Usual {
    // SAFETY: with no name it gives the default VFS, which there is on Unix, and which
    // is never gone.
    let usual = unsafe { sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: it is not null, as said, and a plain structure that may be copied.
    let mut ours = unsafe { usual.read() };
    ours.szOsFile = (room(&ours) + size_of::<*mut Supplied>()) as c_int;
    ours.pNext = std::ptr::null_mut();
    ours.zName = NAME.as_ptr();
    ours.xOpen = Some(open_file);
    // SQLite keeps it as long as the process lives.
    let ours = Box::leak(Box::new(ours));
    // SAFETY: a valid VFS that is never freed.
    let code = unsafe { sqlite3_vfs_register(ours, 0) };
    assert_eq!(code, SQLITE_OK, "a VFS can be registered");
    Usual(usual)
}

/// `xOpen`: as usual, and then it is ours to read.
unsafe extern "C" fn open_file(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let usual = USUAL.0;
    // SAFETY: SQLite's own arguments go to the VFS that they are made for; of the
    // file's memory it uses the first `szOsFile` bytes.
    let code =
        unsafe { (*usual).xOpen.map_or(SQLITE_ERROR, |f| f(usual, name, file, flags, out_flags)) };
    let (is_database, is_log) = (flags & SQLITE_OPEN_MAIN_DB != 0, flags & SQLITE_OPEN_WAL != 0);
    let is_ours = code == SQLITE_OK && (is_database || is_log);
    let found = is_ours.then(|| mirror_of(name, is_log)).flatten();
    let Some((mirror, path)) = found else { return code };
    // SAFETY: the file is open, so its functions are those of a file.
    let usual_methods = unsafe { (*file).pMethods };
    let Ok(copies) = open_copies(&mirror, &path) else {
        // SAFETY: the usual VFS closes its own file, which then is none.
        unsafe {
            (*usual_methods).xClose.map(|f| f(file));
            (*file).pMethods = std::ptr::null();
        }
        return SQLITE_CANTOPEN;
    };
    // SAFETY: as above; a plain structure.
    let mut methods = unsafe { usual_methods.read() };
    // The log is in the page cache.
    methods.xRead = if is_database { Some(read) } else { methods.xRead };
    methods.xWrite = Some(write);
    methods.xTruncate = Some(truncate);
    methods.xSync = Some(sync);
    methods.xClose = Some(close);
    let page = Box::new(Page([0; PAGE]));
    let supplied = Supplied { methods, usual: usual_methods, mirror, copies, page };
    let supplied = Box::into_raw(Box::new(supplied));
    // SAFETY: the file has this room, because our VFS has asked for it; the functions
    // live until `close`.
    unsafe {
        behind(file).write(supplied);
        (*file).pMethods = &raw const (*supplied).methods;
    }
    SQLITE_OK
}

/// Where in a file's memory our pointer is.
///
/// # Safety
/// The file is one that our VFS was asked for.
unsafe fn behind(file: *mut sqlite3_file) -> *mut *mut Supplied {
    // SAFETY: the usual VFS is there for good; the file's memory is as long as ours says.
    unsafe { file.byte_add(room(&*USUAL.0)).cast() }
}

/// `xRead`: page by page, because SQLite's memory is not aligned as direct I/O wants it.
unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    buffer: *mut c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: only files that `open_file` has made have this function; SQLite uses a
    // file from one thread at a time.
    let Supplied { mirror, page, .. } = unsafe { &mut **behind(file) };
    // SAFETY: SQLite gives memory of so many bytes.
    let mut rest = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length as usize) };
    let mut offset = offset as usize;
    while !rest.is_empty() {
        let skipped = offset % PAGE;
        let bytes = rest.len().min(PAGE - skipped);
        let code = read_page(mirror, &mut page.0, (offset - skipped) as u64);
        let (now, later) = rest.split_at_mut(bytes);
        now.copy_from_slice(&page.0[skipped..skipped + bytes]);
        if code != SQLITE_OK {
            later.fill(0);
            return code;
        }
        (rest, offset) = (later, offset + bytes);
    }
    SQLITE_OK
}

/// Reads a page from one of the copies; the result is one of SQLite's codes.
fn read_page(mirror: &Mirror, page: &mut [u8; PAGE], offset: u64) -> c_int {
    match mirror.read(page, offset) {
        Ok(PAGE) => SQLITE_OK,
        Ok(bytes) => {
            page[bytes..].fill(0);
            SQLITE_IOERR_SHORT_READ
        }
        Err(_) => SQLITE_IOERR_READ,
    }
}

/// Does something with the usual file, and then with its copies.
///
/// # Safety
/// The file is one that [`open_file`] has made.
unsafe fn everywhere(
    file: *mut sqlite3_file,
    failed: c_int,
    usual: impl FnOnce(&sqlite3_io_methods) -> c_int,
    copies: impl Fn(&File) -> io::Result<()>,
) -> c_int {
    // SAFETY: the caller's promise; SQLite uses a file from one thread at a time.
    let supplied = unsafe { &**behind(file) };
    // SAFETY: the usual functions are those of an open file, and stay.
    match usual(unsafe { &*supplied.usual }) {
        SQLITE_OK if supplied.copies.iter().all(|copy| copies(copy).is_ok()) => SQLITE_OK,
        SQLITE_OK => failed,
        code => code,
    }
}

/// `xWrite`: to all copies.
unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gives memory of so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length as usize) };
    // SAFETY: as in `read`; SQLite's own arguments go to the function they are made for.
    let usual = |usual: &sqlite3_io_methods| unsafe {
        usual.xWrite.map_or(SQLITE_ERROR, |f| f(file, data, length, offset))
    };
    // SAFETY: as in `read`.
    unsafe {
        everywhere(file, SQLITE_IOERR_WRITE, usual, |copy| copy.write_all_at(bytes, offset as u64))
    }
}

/// `xTruncate`: all copies.
unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    // SAFETY: as in `write`.
    let usual = |usual: &sqlite3_io_methods| unsafe {
        usual.xTruncate.map_or(SQLITE_ERROR, |f| f(file, length))
    };
    // SAFETY: as in `read`.
    unsafe { everywhere(file, SQLITE_IOERR_TRUNCATE, usual, |copy| copy.set_len(length as u64)) }
}

/// `xSync`: all copies.
unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as in `write`.
    let usual = |usual: &sqlite3_io_methods| unsafe {
        usual.xSync.map_or(SQLITE_ERROR, |f| f(file, flags))
    };
    // SAFETY: as in `read`.
    unsafe { everywhere(file, SQLITE_IOERR_FSYNC, usual, File::sync_data) }
}

/// `xClose`: what is ours goes, the rest as usual.
unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as in `read`; the box is not used any more.
    let supplied = unsafe { Box::from_raw(behind(file).read()) };
    // SAFETY: the usual VFS closes its own file, by its own function.
    unsafe {
        (*file).pMethods = supplied.usual;
        (*supplied.usual).xClose.map_or(SQLITE_ERROR, |f| f(file))
    }
}
