//! SQLite with its reads supplied.
//!
//! SQLite asks its VFS for files. This one has the usual one open them, and then puts
//! its own function in the place of `xRead` where the file is a database that someone
//! has a [`Reader`] for: everything else is as ever. A file is a structure in memory of
//! SQLite's, of a size that its VFS says; behind the usual one's there is room for ours.
//! (See "The SQLite OS Interface or VFS", <https://sqlite.org/vfs.html>.)

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use rusqlite::ffi::{
    SQLITE_ERROR, SQLITE_OK, SQLITE_OPEN_MAIN_DB, sqlite3_file, sqlite3_int64, sqlite3_io_methods,
    sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};
use rusqlite::{Connection, OpenFlags};
use trimtab_read::Reader;

use crate::failover;

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
    reader: Arc<Reader>,
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

thread_local! {
    /// Who reads the database that this thread is opening.
    static OPENING: RefCell<Option<Arc<Reader>>> = const { RefCell::new(None) };
}

/// Opens a database whose file is read by `reader`.
///
/// # Errors
/// SQLite cannot open it.
pub(crate) fn open(path: &Path, reader: Arc<Reader>) -> rusqlite::Result<Connection> {
    LazyLock::force(&USUAL);
    OPENING.set(Some(reader));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags_and_vfs(path, flags, NAME);
    OPENING.set(None);
    connection
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
    let is_database = code == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB != 0;
    let Some(reader) = is_database.then(|| OPENING.take()).flatten() else { return code };
    // SAFETY: the file is open, so its functions are those of a file.
    let usual_methods = unsafe { (*file).pMethods };
    // SAFETY: as above; a plain structure.
    let mut methods = unsafe { usual_methods.read() };
    methods.xRead = Some(read);
    methods.xClose = Some(close);
    let page = Box::new(Page([0; PAGE]));
    let supplied = Box::new(Supplied { methods, usual: usual_methods, reader, page });
    let supplied = Box::into_raw(supplied);
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
    let Supplied { reader, page, .. } = unsafe { &mut **behind(file) };
    // SAFETY: SQLite gives memory of so many bytes.
    let mut rest = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length as usize) };
    let mut offset = offset as usize;
    while !rest.is_empty() {
        let skipped = offset % PAGE;
        let bytes = rest.len().min(PAGE - skipped);
        let code = failover::read(reader, &mut page.0, (offset - skipped) as u64);
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
