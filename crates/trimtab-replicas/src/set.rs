//! A set of replicas.

use std::fs::{self, File, Metadata};
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::fs::{AtFlags, StatxFlags, statx};
use trimtab_io::{Nanos, mix64, monotonic};
use trimtab_read::{ReadOptions, Reader, SharedAuto, Urgency};
use trimtab_steer::{MOST_REPLICAS, Order, Replica};
use trimtab_uring::ReadFile;

use crate::choice::Shared;
use crate::error::{OpenError, ReadError};
use crate::figures::{Counters, SetFigures, count};
use crate::health::Health;
use crate::options::{ReplicaOptions, SetOptions, SetStrategy};
use crate::plain;
use crate::thread::{self, Came, Wanted};

/// The longest single request: longer reads are split. It bounds the memory that a request
/// holds which a drive does not complete.
const LONGEST: usize = 1 << 20;
/// Reads of one such part of the file have one primary replica: read-ahead works, and the page
/// cache does not hold the data of a part several times.
const REGION_SHIFT: u32 = 20;
/// A latency that most reads stay below, as long as nothing is known.
const USUAL: Nanos = Nanos::from_millis(1);

/// Files or devices with the same content, read as one: see the [crate](crate).
///
/// Any number of threads may read from it at once. Each has a ring and buffers of its own.
pub struct ReplicaSet {
    set: Arc<Set>,
}

/// What threads keep of a set.
pub(crate) struct Set {
    pub(crate) shared: Arc<Shared>,
    pub(crate) files: Arc<[ReadFile]>,
    deadline: Option<Duration>,
    auto: SharedAuto,
    is_direct: bool,
    /// Whether reads without a deadline are sent to another replica after a time.
    pub(crate) rescues: bool,
    seed: u64,
    is_closed: AtomicBool,
}

impl Set {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }
}

impl ReplicaSet {
    /// Opens two to eight replicas. They must have the same length; that they have the same
    /// content is the caller's to ensure, also when it writes to them.
    ///
    /// # Errors
    /// A replica cannot be opened, is given twice, or differs in length from the first; or an
    /// option is out of range. Missing state or a model of another drive are not errors: reads
    /// are then chosen without it.
    pub fn open(
        replicas: impl IntoIterator<Item = ReplicaOptions>,
        options: &SetOptions,
    ) -> Result<Self, OpenError> {
        options.check()?;
        let replicas: Vec<_> = replicas.into_iter().collect();
        if !(2..=MOST_REPLICAS).contains(&replicas.len()) {
            return Err(OpenError::Count(replicas.len()));
        }
        let readers = open_all(&replicas, options)?;
        let files = check_all(&replicas, &readers, options.direct)?;
        let threshold = |options: &ReplicaOptions| options.model.as_ref()?.card.label.threshold();
        let usual = replicas.iter().filter_map(threshold).min().unwrap_or(USUAL);
        let shared = Shared::new(readers.into(), usual, options);
        Ok(Self {
            set: Arc::new(Set {
                shared: Arc::new(shared),
                files: files.into(),
                deadline: options.deadline,
                auto: SharedAuto::new(&options.auto).map_err(OpenError::Auto)?,
                is_direct: options.direct,
                rescues: options.strategy == SetStrategy::Trimtab,
                seed: options.seed,
                is_closed: AtomicBool::new(false),
            }),
        })
    }

    /// Reads into the buffer from this offset (bytes), as `pread(2)` does, from the replica that
    /// is best for it. Returns the number of bytes: fewer than the buffer has only at the end
    /// of the file.
    ///
    /// # Errors
    /// All replicas have failed, or none has answered within the set's
    /// [deadline](SetOptions::deadline).
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        self.read(as_uninit(buffer), offset, self.set.deadline)
    }

    /// [`read_at`](Self::read_at) with a deadline of its own, or without one. Returns by then, plus
    /// the time that the machine takes to schedule the thread; the buffer is not written to after
    /// that.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_at_within(
        &self,
        buffer: &mut [u8],
        offset: u64,
        deadline: Option<Duration>,
    ) -> Result<usize, ReadError> {
        self.read(as_uninit(buffer), offset, deadline)
    }

    /// [`read_at`](Self::read_at) into memory that need not be initialised. The bytes that were
    /// read, from the beginning on, are initialised.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_uninit_at(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
    ) -> Result<usize, ReadError> {
        self.read(buffer, offset, self.set.deadline)
    }

    /// [`read_at_within`](Self::read_at_within) into memory that need not be initialised.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_uninit_at_within(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
        deadline: Option<Duration>,
    ) -> Result<usize, ReadError> {
        self.read(buffer, offset, deadline)
    }

    /// [`read_at`](Self::read_at) with this urgency. [`Urgency::Auto`] is a deadline that follows
    /// the set's last reads, and what it cost to get the data from elsewhere
    /// ([`failed_over`](Self::failed_over)): for programs that have the data in more places than
    /// this set. With [`Urgency::LatencyCritical`] nothing is refused here, so it is as
    /// [`Urgency::None`].
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_at_urgency(
        &self,
        buffer: &mut [u8],
        offset: u64,
        urgency: Urgency,
    ) -> Result<usize, ReadError> {
        self.read_uninit_at_urgency(as_uninit(buffer), offset, urgency)
    }

    /// [`read_at_urgency`](Self::read_at_urgency) into memory that need not be initialised.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_uninit_at_urgency(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
        urgency: Urgency,
    ) -> Result<usize, ReadError> {
        match urgency {
            Urgency::None | Urgency::LatencyCritical => self.read(buffer, offset, None),
            Urgency::Deadline(within) => self.read(buffer, offset, Some(within)),
            Urgency::Auto => {
                let auto = self.set.auto.begin(monotonic());
                let within = Duration::from_nanos(auto.within().0);
                let read = self.read(buffer, offset, Some(within));
                match &read {
                    Ok(_) => auto.answered(),
                    Err(ReadError::TimedOut(_)) => auto.refused(),
                    Err(ReadError::Io(_)) => auto.failed(),
                }
                read
            }
        }
    }

    /// Reports what it cost to do without the set: after a read with [`Urgency::Auto`] missed its
    /// deadline, the data came from elsewhere, this long after the read had begun.
    pub fn failed_over(&self, took: Duration) {
        self.set.auto.failed_over(took);
    }

    /// The present deadline of reads with [`Urgency::Auto`].
    #[must_use]
    pub fn auto_deadline(&self) -> Duration {
        self.set.auto.deadline()
    }

    /// Fills the buffer from this offset (bytes).
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); `UnexpectedEof` if the file ends earlier.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let read = self.read_at(buffer, offset)?;
        if read < buffer.len() {
            return Err(ReadError::Io(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    fn read(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
        within: Option<Duration>,
    ) -> Result<usize, ReadError> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(ReadError::Io(rustix::io::Errno::INVAL.into()));
        }
        let mut arrival = monotonic();
        let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let deadline = within.map(|within| arrival + nanos(within));
        let mut done = 0;
        while done < buffer.len() {
            if done > 0 {
                arrival = monotonic();
            }
            let at = offset + done as u64;
            let piece = (buffer.len() - done).min(LONGEST);
            let wanted = Wanted { offset: at, order: self.order(at, arrival), arrival, deadline };
            match self.read_piece(&mut buffer[done..done + piece], &wanted) {
                Ok(bytes) => {
                    done += bytes;
                    if bytes < piece {
                        break;
                    }
                }
                // Like `pread(2)`: returns the bytes read so far first.
                Err(_) if done > 0 => break,
                Err(ReadError::TimedOut(_)) => {
                    return Err(ReadError::TimedOut(within.unwrap_or_default()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_piece(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        wanted: &Wanted,
    ) -> Result<usize, ReadError> {
        let Set { shared, .. } = &*self.set;
        count(&shared.counters.reads);
        let came = if self.is_to_be_plain(wanted) {
            None
        } else {
            thread::read(&self.set, buffer, wanted)
        };
        let read = match came {
            None => plain::read(&self.set, buffer, wanted),
            Some(Came::Late) => Err(ReadError::TimedOut(Duration::ZERO)),
            Some(Came::Read(read)) => read.map_err(ReadError::Io),
        };
        let read = match (read, self.left_out(&wanted.order)) {
            // One that was down may have recovered.
            (Err(ReadError::Io(_)), Some(order)) => {
                plain::read(&self.set, buffer, &Wanted { order, ..*wanted })
            }
            (read, _) => read,
        };
        match &read {
            Err(ReadError::TimedOut(_)) => count(&shared.counters.timed_out),
            Err(ReadError::Io(_)) => count(&shared.counters.errors),
            Ok(_) => {}
        }
        read
    }

    /// Whether nothing can be hedged: one replica is left, and there is no deadline to keep.
    /// Unless one of the others is to be probed, beside this read.
    fn is_to_be_plain(&self, wanted: &Wanted) -> bool {
        wanted.order.replicas().len() == 1
            && wanted.deadline.is_none()
            && !self.health().iter().any(|health| health.will_be_due(wanted.arrival))
    }

    /// The order in which a read's replicas are asked: without those that are down, unless all
    /// are.
    fn order(&self, offset: u64, now: Nanos) -> Order {
        let health = self.health();
        let count = health.len();
        let region = mix64((offset >> REGION_SHIFT) ^ self.set.seed.rotate_left(32));
        let primary = Replica((region % count as u64) as u8);
        let order = Order::shuffled(primary, count, count, mix64(now.0));
        if !health.iter().any(Health::is_down) {
            return order;
        }
        let up = order.replicas().iter().copied().filter(|r| !health[r.index()].is_down());
        order_of(up).unwrap_or(order)
    }

    /// The replicas that are not in an order; `None`: all are.
    fn left_out(&self, order: &Order) -> Option<Order> {
        let all = (0..self.set.files.len() as u8).map(Replica);
        order_of(all.filter(|replica| !order.replicas().contains(replica)))
    }

    fn health(&self) -> &[Health] {
        &self.set.shared.known.health
    }

    /// The figures so far.
    #[must_use]
    pub fn figures(&self) -> SetFigures {
        let shared = &self.set.shared;
        let mut figures = shared.counters.figures(self.set.files.len());
        figures.gain = shared.gain();
        for (number, replica) in figures.replicas.iter_mut().enumerate() {
            replica.typical = shared.known.seen[number].typical();
            replica.is_down = shared.known.health[number].is_down();
        }
        figures
    }

    /// The number of replicas.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.set.files.len()
    }

    /// The length of each replica when it was opened, bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.set.files[0].length
    }
}

impl Drop for ReplicaSet {
    /// Threads close their rings when they next read from another set, or end.
    fn drop(&mut self) {
        self.set.is_closed.store(true, Relaxed);
    }
}

impl std::fmt::Debug for ReplicaSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaSet")
            .field("readers", &self.set.shared.readers)
            .field("is_direct", &self.set.is_direct)
            .finish_non_exhaustive()
    }
}

/// These replicas in this order; `None` if there are none.
fn order_of(replicas: impl Iterator<Item = Replica>) -> Option<Order> {
    let (mut all, mut count) = ([Replica(0); MOST_REPLICAS], 0);
    for (place, replica) in all.iter_mut().zip(replicas) {
        *place = replica;
        count += 1;
    }
    (count > 0).then(|| Order::new(&all[..count]))
}

/// The same memory, write-only: nothing here makes initialised bytes uninitialised.
fn as_uninit(buffer: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the same layout and lifetime. It is only ever written with bytes that were read.
    unsafe { std::slice::from_raw_parts_mut(start, length) }
}

/// Copies data to the application's buffer, and counts them. Returns the number of bytes.
pub(crate) fn copy(from: &[u8], into: &mut [MaybeUninit<u8>], counters: &Counters) -> usize {
    let into = &mut into[..from.len()];
    // SAFETY: as many bytes, in memory of the library and of the application.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr().cast(), from.len()) };
    counters.copied.fetch_add(from.len() as u64, Relaxed);
    from.len()
}

/// Opens all replicas. That none can be opened is another error than that one cannot.
fn open_all(
    replicas: &[ReplicaOptions],
    options: &SetOptions,
) -> Result<Vec<Arc<Reader>>, OpenError> {
    let open = |replica: &ReplicaOptions| {
        let options = ReadOptions {
            model: replica.model.clone(),
            source: replica.source.clone(),
            oldest: options.oldest,
            direct: options.direct,
            publish: None,
            ..ReadOptions::default()
        };
        Reader::open(&replica.path, &options)
    };
    let (mut readers, mut failed) = (Vec::new(), None);
    for (replica, options) in replicas.iter().enumerate() {
        // Before it is opened: opening a pipe would wait for its other end.
        if let Some(kind) = fs::metadata(&options.path).ok().and_then(|of| wrong_kind(&of)) {
            return Err(OpenError::Kind { replica, path: options.path.clone(), kind });
        }
        match open(options) {
            Ok(reader) => readers.push(Arc::new(reader)),
            Err(source) => _ = failed.get_or_insert((replica, source)),
        }
    }
    match failed {
        None => Ok(readers),
        Some((_, source)) if readers.is_empty() => {
            Err(OpenError::None { count: replicas.len(), source })
        }
        Some((replica, source)) => Err(OpenError::Replica { replica, source }),
    }
}

/// Checks that the replicas can be copies of each other.
fn check_all(
    replicas: &[ReplicaOptions],
    readers: &[Arc<Reader>],
    direct: bool,
) -> Result<Vec<ReadFile>, OpenError> {
    let mut identities = Vec::new();
    let mut files: Vec<ReadFile> = Vec::new();
    for (number, (options, reader)) in replicas.iter().zip(readers).enumerate() {
        let (path, file) = (&options.path, reader.file());
        let (kind, identity, length) = identify(number, path, file)?;
        if let Some(first) = identities.iter().position(|other| *other == identity) {
            return Err(OpenError::Same { first, second: number, path: path.clone(), kind });
        }
        if let Some(first) = files.first()
            && first.length != length
        {
            let (path, expected) = (path.clone(), first.length);
            return Err(OpenError::Length { replica: number, path, length, expected });
        }
        identities.push(identity);
        let alignment = if direct { alignment(file) } else { 1 };
        files.push(ReadFile { file: Arc::clone(file), alignment, length });
    }
    Ok(files)
}

/// Device and inode of a file, or the number of a block device.
#[derive(PartialEq)]
enum Identity {
    File(u64, u64),
    Device(u64),
}

/// What a replica is, its identity, and its length in bytes.
fn identify(
    replica: usize,
    path: &Path,
    file: &File,
) -> Result<(&'static str, Identity, u64), OpenError> {
    let failed = |source| {
        let source = trimtab_read::Error::Open { path: path.to_owned(), source };
        OpenError::Replica { replica, source }
    };
    let metadata = file.metadata().map_err(failed)?;
    let of = metadata.file_type();
    if of.is_file() {
        let identity = Identity::File(metadata.dev(), metadata.ino());
        return Ok(("file", identity, metadata.len()));
    }
    if of.is_block_device() {
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0));
        let length = end.map_err(|e| failed(e.into()))?;
        return Ok(("device", Identity::Device(metadata.rdev()), length));
    }
    let kind = wrong_kind(&metadata).unwrap_or("no file");
    Err(OpenError::Kind { replica, path: path.to_owned(), kind })
}

/// What something is that is neither a file nor a block device.
fn wrong_kind(metadata: &Metadata) -> Option<&'static str> {
    let of = metadata.file_type();
    match () {
        () if of.is_file() || of.is_block_device() => None,
        () if of.is_dir() => Some("a directory"),
        () if of.is_char_device() => Some("a character device"),
        () => Some("a pipe or socket"),
    }
}

/// What direct I/O needs offsets and lengths to be aligned to. Where the kernel does not say so
/// (before Linux 6.1, or on some file systems) more than most need.
fn alignment(file: &File) -> u32 {
    const MOST: u32 = 4096;
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|found| found.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
        .map(|found| found.stx_dio_offset_align);
    let found = found.or_else(|| rustix::fs::ioctl_blksszget(file).ok());
    found.filter(|alignment| alignment.is_power_of_two()).unwrap_or(MOST).max(512)
}
